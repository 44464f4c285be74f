// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/traffic.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "loader/net/netns.h"
#include "tests/harness/decode.h"
#include "tests/harness/sockets.h"

namespace poduplink::harness {
namespace {

using Clock = std::chrono::steady_clock;

// Types of ICMP and ICMPv6 (the system's headers define macros that collide with plain names).
constexpr std::uint8_t echo_request4 = 8;
constexpr std::uint8_t echo_request6 = 128;
constexpr int echo_reply4 = 0;
constexpr int echo_reply6 = 129;

// A socket of `type` in the namespace, bound and with the TTL as the datagram asks.
Result<Fd> client_socket(const Namespace& space, const Datagram& datagram, int type, int protocol) {
  PDL_TRY_ASSIGN(Fd fd, open_socket(space, datagram.to.address.address_family(), type, protocol));
  const bool v4 = datagram.to.address.is_v4();
  if (datagram.ttl > 0 && setsockopt(fd.get(), v4 ? int{IPPROTO_IP} : int{IPPROTO_IPV6},
                                     v4 ? IP_TTL : IPV6_UNICAST_HOPS, &datagram.ttl, sizeof(datagram.ttl)) != 0)
    return fail_errno(errno, "TTL {}", datagram.ttl);
  if (datagram.from || datagram.from_port != 0) {
    const IpAddress any = v4 ? IpAddress() : *IpAddress::parse("::");
    PDL_TRY(bind_socket(fd, {datagram.from.value_or(any), datagram.from_port}));
  }
  return fd;
}

Result<> connect_within(const Fd& fd, const Endpoint& to, std::chrono::milliseconds timeout) {
  const SocketAddress address = to_socket_address(to);
  if (connect(fd.get(), address.get(), address.size) == 0) return {};
  if (errno != EINPROGRESS) return fail_errno(errno, "connecting to {}", to.text());
  pollfd polled{fd.get(), POLLOUT, 0};
  if (poll(&polled, 1, static_cast<int>(timeout.count())) <= 0)
    return fail_errno(ETIMEDOUT, "connecting to {}", to.text());
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail_errno(error, "connecting to {}", to.text());
  return {};
}

Result<> send_all(const Fd& fd, const std::string& octets, const Endpoint& to) {
  const ssize_t sent = send(fd.get(), octets.data(), octets.size(), MSG_NOSIGNAL);
  if (sent < 0) return fail_errno(errno, "sending to {}", to.text());
  if (static_cast<std::size_t>(sent) != octets.size())
    return fail("sent {} of {} octets to {}", sent, octets.size(), to.text());
  return {};
}

Result<std::string> receive_within(const Fd& fd, const Endpoint& from, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd polled{fd.get(), POLLIN, 0};
  if (poll(&polled, 1, static_cast<int>(std::max<long>(left, 0))) <= 0)
    return fail_errno(ETIMEDOUT, "answer of {}", from.text());
  std::array<char, 65536> buffer;
  const ssize_t size = recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size < 0) return fail_errno(errno, "answer of {}", from.text());
  return std::string(buffer.data(), static_cast<std::size_t>(size));
}

// An echo request without its checksum, which the kernel fills in for ICMPv6 and we for ICMP.
std::string echo_request(const IpAddress& to, std::uint16_t id, const std::string& payload) {
  std::vector<std::uint8_t> octets{
      to.is_v4() ? echo_request4 : echo_request6, 0, 0, 0, static_cast<std::uint8_t>(id >> 8),
      static_cast<std::uint8_t>(id & 255),        0, 1};
  octets.insert(octets.end(), payload.begin(), payload.end());
  if (to.is_v4()) {
    const std::uint16_t sum = fold_checksum(internet_sum(octets));
    octets[2] = static_cast<std::uint8_t>(sum >> 8);
    octets[3] = static_cast<std::uint8_t>(sum & 255);
  }
  return {octets.begin(), octets.end()};
}

bool is_echo_answer(std::string_view octets, bool v4, std::uint16_t id) {
  if (v4) {
    if (octets.size() < 20) return false;
    octets.remove_prefix(static_cast<std::size_t>(octets[0] & 15) * 4);
  }
  if (octets.size() < 8) return false;
  const auto octet = [&](std::size_t at) { return static_cast<std::uint8_t>(octets[at]); };
  const int type = v4 ? echo_reply4 : echo_reply6;
  return octet(0) == type && octet(4) == id >> 8 && octet(5) == (id & 255);
}

// The socket the request was sent by, and its identifier.
Result<std::pair<Fd, std::uint16_t>> start_ping(const Namespace& space, const Datagram& datagram) {
  static std::atomic<std::uint16_t> next_id{1};
  const std::uint16_t id = next_id++;
  const bool v4 = datagram.to.address.is_v4();
  const Datagram request{.to = {datagram.to.address, 0},
                         .from = datagram.from,
                         .from_port = 0,
                         .payload = echo_request(datagram.to.address, id, datagram.payload),
                         .ttl = datagram.ttl};
  PDL_TRY_ASSIGN(Fd fd, client_socket(space, request, SOCK_RAW, v4 ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6}));
  PDL_TRY(connect_within(fd, request.to, std::chrono::milliseconds(0)));
  PDL_TRY(send_all(fd, request.payload, request.to));
  return std::pair{std::move(fd), id};
}

}  // namespace

std::string Endpoint::text() const {
  return address.is_v4() ? formatted("{}:{}", address.text(), port) : formatted("[{}]:{}", address.text(), port);
}

Result<> send_udp(const Namespace& space, const Datagram& datagram) {
  PDL_TRY_ASSIGN(const Fd fd, client_socket(space, datagram, SOCK_DGRAM, 0));
  PDL_TRY(connect_within(fd, datagram.to, std::chrono::milliseconds(0)));
  return send_all(fd, datagram.payload, datagram.to);
}

Result<std::string> exchange_udp(const Namespace& space, const Datagram& datagram, std::chrono::milliseconds timeout) {
  PDL_TRY_ASSIGN(const Fd fd, client_socket(space, datagram, SOCK_DGRAM, 0));
  PDL_TRY(connect_within(fd, datagram.to, timeout));
  PDL_TRY(send_all(fd, datagram.payload, datagram.to));
  return receive_within(fd, datagram.to, Clock::now() + timeout);
}

Result<std::string> exchange_tcp(const Namespace& space, const Datagram& datagram, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  PDL_TRY_ASSIGN(const Fd fd, client_socket(space, datagram, SOCK_STREAM, 0));
  PDL_TRY(connect_within(fd, datagram.to, timeout));
  PDL_TRY(send_all(fd, datagram.payload, datagram.to));
  std::string answer;
  while (answer.size() < datagram.payload.size()) {
    PDL_TRY_ASSIGN(const std::string part, receive_within(fd, datagram.to, deadline));
    if (part.empty()) return fail("{} closed after {} octets", datagram.to.text(), answer.size());
    answer += part;
  }
  // Until the other end has closed as well the same two ends cannot be connected again.
  shutdown(fd.get(), SHUT_WR);
  [[maybe_unused]] const auto ended = receive_within(fd, datagram.to, deadline);
  return answer;
}

Result<> ping(const Namespace& space, const Datagram& datagram, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  PDL_TRY_ASSIGN(const auto started, start_ping(space, datagram));
  // A raw socket sees every ICMP packet of that peer.
  for (;;) {
    PDL_TRY_ASSIGN(const std::string octets, receive_within(started.first, datagram.to, deadline));
    if (is_echo_answer(octets, datagram.to.address.is_v4(), started.second)) return {};
  }
}

Result<> send_ping(const Namespace& space, const Datagram& datagram) {
  PDL_TRY(start_ping(space, datagram));
  return {};
}

}  // namespace poduplink::harness
