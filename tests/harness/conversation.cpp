// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/conversation.h"

#include <poll.h>

#include <array>
#include <cerrno>

#include "tests/harness/sockets.h"

namespace poduplink::harness {
namespace {

bool is_v4(const Fd& fd) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain == AF_INET;
}

Result<> set_option(const Fd& fd, int level, int option, int value) {
  if (setsockopt(fd.get(), level, option, &value, sizeof(value)) != 0) return fail_errno(errno, "option {}", option);
  return {};
}

}  // namespace

Result<Conversation> Conversation::udp(const Namespace& space, const Endpoint& local) {
  PDL_TRY_ASSIGN(Fd fd, open_socket(space, local.address.address_family(), SOCK_DGRAM, 0));
  PDL_TRY(bind_socket(fd, local));
  return Conversation(std::move(fd), {});
}

Result<Conversation> Conversation::tcp(const Namespace& space, const Datagram& datagram) {
  PDL_TRY_ASSIGN(Fd fd, open_socket(space, datagram.to.address.address_family(), SOCK_STREAM, 0));
  if (datagram.from || datagram.from_port != 0) {
    const IpAddress any = datagram.to.address.is_v4() ? IpAddress() : *IpAddress::parse("::");
    PDL_TRY(bind_socket(fd, {datagram.from.value_or(any), datagram.from_port}));
  }
  Conversation made(std::move(fd), {});
  PDL_TRY(made.connect(datagram.to));
  return made;
}

Result<> Conversation::connect(const Endpoint& to) {
  const SocketAddress address = to_socket_address(to);
  peer_ = to;
  if (::connect(fd_.get(), address.get(), address.size) == 0) return {};
  if (errno != EINPROGRESS) return fail_errno(errno, "connecting to {}", to.text());
  pollfd polled{fd_.get(), POLLOUT, 0};
  if (poll(&polled, 1, 3000) <= 0) return fail_errno(ETIMEDOUT, "connecting to {}", to.text());
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail_errno(error, "connecting to {}", to.text());
  return {};
}

Result<> Conversation::send(const std::string& payload) const {
  auto sent = send_whole(fd_, payload);
  if (!sent) return fail_within(std::move(sent.error()), "sending to " + peer_.text());
  return {};
}

Result<> Conversation::send_to(const Endpoint& to, const std::string& payload) const {
  const SocketAddress address = to_socket_address(to);
  if (sendto(fd_.get(), payload.data(), payload.size(), MSG_NOSIGNAL, address.get(), address.size) < 0)
    return fail_errno(errno, "sending to {}", to.text());
  return {};
}

Result<Message> Conversation::receive(std::chrono::milliseconds timeout) const {
  pollfd polled{fd_.get(), POLLIN, 0};
  if (poll(&polled, 1, static_cast<int>(timeout.count())) <= 0) return fail_errno(ETIMEDOUT, "nothing was received");
  std::array<char, 65536> buffer;
  SocketAddress from;
  from.size = sizeof(from.storage);
  const ssize_t size = recvfrom(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT, from.get(), &from.size);
  if (size < 0) return fail_errno(errno, "receiving from {}", peer_.text());
  // A stream tells no address.
  return Message{.from = from.storage.ss_family == AF_UNSPEC ? peer_ : to_endpoint(from),
                 .payload = std::string(buffer.data(), static_cast<std::size_t>(size))};
}

Result<std::string> Conversation::exchange(const std::string& payload) const {
  PDL_TRY(send(payload));
  std::string answer;
  while (answer.size() < payload.size()) {
    PDL_TRY_ASSIGN(const Message part, receive());
    if (part.payload.empty()) return fail("{} closed after {} octets", peer_.text(), answer.size());
    answer += part.payload;
  }
  return answer;
}

Result<> Conversation::forbid_fragments() const {
  if (is_v4(fd_)) return set_option(fd_, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  PDL_TRY(set_option(fd_, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO));
  return set_option(fd_, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
}

Result<unsigned> Conversation::path_mtu() const {
  int mtu = 0;
  socklen_t size = sizeof(mtu);
  const bool v4 = is_v4(fd_);
  if (getsockopt(fd_.get(), v4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6}, v4 ? IP_MTU : IPV6_MTU, &mtu, &size) != 0)
    return fail_errno(errno, "MTU of the path to {}", peer_.text());
  return static_cast<unsigned>(mtu);
}

Result<Endpoint> Conversation::local() const {
  SocketAddress address;
  address.size = sizeof(address.storage);
  if (getsockname(fd_.get(), address.get(), &address.size) != 0) return fail_errno(errno, "getsockname");
  return to_endpoint(address);
}

}  // namespace poduplink::harness
