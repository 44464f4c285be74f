// SPDX-License-Identifier: Apache-2.0
#include "loader/net/netlink.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <vector>

#include "loader/net/netns.h"

namespace poduplink {
namespace {

constexpr int dump_attempts = 20;
constexpr auto answer_patience = std::chrono::seconds(10);
constexpr std::size_t receive_size = std::size_t{64} << 10;  // larger than the kernel's largest skb of a dump (32 KiB)
constexpr int event_buffer_size = 4 << 20;                   // a burst of 5,000 links with addresses and routes

// ACK attributes of <linux/netlink.h>; the message text is all that is read.
std::string extended_text(const nlmsghdr* header) {
  if ((header->nlmsg_flags & NLM_F_ACK_TLVS) == 0) return {};
  const auto* error = static_cast<const nlmsgerr*>(nlmsg_data(header));
  std::size_t skipped = sizeof(nlmsgerr);
  if ((header->nlmsg_flags & NLM_F_CAPPED) == 0 && error->msg.nlmsg_len > NLMSG_HDRLEN) {
    skipped += error->msg.nlmsg_len - NLMSG_HDRLEN;
  }
  return Attributes(header, NLMSG_ALIGN(skipped)).text(NLMSGERR_ATTR_MSG);
}

Failure answer_error(const nlmsghdr* header, int code) {
  const std::string text = extended_text(header);
  if (text.empty()) return Failure(Error{code, errno_text(code)});
  return Failure(Error{code, text + ": " + errno_text(code)});
}

// Whether there is something to read within `patience`.
Result<bool> wait_for_datagram(int fd, std::chrono::milliseconds patience) {
  for (;;) {
    pollfd waiting{fd, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(patience.count()));
    if (ready >= 0) return ready > 0;
    if (errno != EINTR) return fail_errno(errno, "poll on a netlink socket");
  }
}

// Reads one datagram. 0 octets: nothing there within `patience`.
Result<std::size_t> receive_datagram(int fd, std::span<char> buffer, std::chrono::milliseconds patience) {
  for (;;) {
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (got >= 0) {
      if (static_cast<std::size_t>(got) <= buffer.size()) return static_cast<std::size_t>(got);
      return fail_errno(EMSGSIZE, "netlink message of {} octets", got);
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail_errno(errno, "netlink");
    if (patience.count() == 0) return std::size_t{0};
    PDL_TRY_ASSIGN(const bool there, wait_for_datagram(fd, patience));
    if (!there) return std::size_t{0};
  }
}

}  // namespace

// ---- Message ---------------------------------------------------------------------------------

Message::Message(int type, int flags, const void* header, std::size_t size)
    : message_(nlmsg_alloc_simple(type, NLM_F_REQUEST | flags)) {
  nlmsg_append(message_.get(), const_cast<void*>(header), size, NLMSG_ALIGNTO);
}

void Message::Free::operator()(nl_msg* message) const { nlmsg_free(message); }

void Message::put(int attribute, const void* data, std::size_t size) {
  nla_put(message_.get(), attribute, static_cast<int>(size), data);
}

void Message::put_u8(int attribute, std::uint8_t value) { put(attribute, &value, sizeof(value)); }
void Message::put_u16(int attribute, std::uint16_t value) { put(attribute, &value, sizeof(value)); }
void Message::put_u32(int attribute, std::uint32_t value) { put(attribute, &value, sizeof(value)); }

void Message::put_string(int attribute, std::string_view text) {
  const std::string terminated(text);
  put(attribute, terminated.c_str(), terminated.size() + 1);
}

void Message::put_address(int attribute, const IpAddress& address) {
  put(attribute, address.octets().data(), address.octets().size());
}

void Message::put_mac(int attribute, const MacAddress& mac) {
  put(attribute, mac.octets().data(), mac.octets().size());
}

void Message::append(const void* data, std::size_t size) {
  nlmsg_append(message_.get(), const_cast<void*>(data), size, NLMSG_ALIGNTO);
}

void Message::nest(int attribute, const std::function<void()>& fill) {
  nlattr* start = nla_nest_start(message_.get(), attribute);
  fill();
  nla_nest_end(message_.get(), start);
}

// ---- Attributes ------------------------------------------------------------------------------

Attributes::Attributes(const nlmsghdr* message, std::size_t header_size)
    : first_(nlmsg_attrdata(message, static_cast<int>(header_size))),
      length_(nlmsg_attrlen(message, static_cast<int>(header_size))) {}

Attributes::Attributes(const nlattr* nested) {
  if (nested == nullptr) return;
  first_ = static_cast<const nlattr*>(nla_data(nested));
  length_ = nla_len(nested);
}

const nlattr* Attributes::find(int attribute) const { return nla_find(first_, length_, attribute); }

std::span<const std::uint8_t> Attributes::octets(int attribute) const {
  const nlattr* found = find(attribute);
  if (found == nullptr) return {};
  return {static_cast<const std::uint8_t*>(nla_data(found)), static_cast<std::size_t>(nla_len(found))};
}

namespace {

template <typename Number>
Number number_in(std::span<const std::uint8_t> octets) {
  Number value = 0;
  if (octets.size() >= sizeof(value)) std::memcpy(&value, octets.data(), sizeof(value));
  return value;
}

}  // namespace

std::uint8_t Attributes::u8(int attribute) const { return number_in<std::uint8_t>(octets(attribute)); }
std::uint16_t Attributes::u16(int attribute) const { return number_in<std::uint16_t>(octets(attribute)); }
std::uint32_t Attributes::u32(int attribute) const { return number_in<std::uint32_t>(octets(attribute)); }

std::string Attributes::text(int attribute) const {
  const auto payload = octets(attribute);
  const std::string text(payload.begin(), payload.end());
  return text.substr(0, text.find('\0'));
}

std::optional<IpAddress> Attributes::address(int attribute) const {
  const auto parsed = IpAddress::from_octets(octets(attribute));
  return parsed ? std::optional(*parsed) : std::nullopt;
}

Attributes Attributes::nested(int attribute) const { return Attributes(find(attribute)); }

void Attributes::each(const std::function<void(int, std::span<const std::uint8_t>)>& visit) const {
  int left = length_;
  for (const nlattr* at = first_; at != nullptr && nla_ok(at, left); at = nla_next(at, &left)) {
    visit(nla_type(at), {static_cast<const std::uint8_t*>(nla_data(at)), static_cast<std::size_t>(nla_len(at))});
  }
}

// ---- Netlink ---------------------------------------------------------------------------------

void Netlink::Free::operator()(nl_sock* socket) const { nl_socket_free(socket); }

Netlink::Netlink(nl_sock* socket) : socket_(socket), buffer_(std::make_unique_for_overwrite<char[]>(receive_size)) {}

Result<Netlink> Netlink::open() { return open_protocol(NETLINK_ROUTE); }

Result<Netlink> Netlink::open_netfilter() { return open_protocol(NETLINK_NETFILTER); }

Result<Netlink> Netlink::open_protocol(int protocol) {
  Netlink netlink(nl_socket_alloc());
  nl_sock* socket = netlink.socket_.get();
  if (socket == nullptr) return fail_errno(ENOMEM, "netlink socket");
  if (const int error = nl_connect(socket, protocol); error < 0) {
    return fail("netlink socket: {}", nl_geterror(error));
  }
  const int on = 1;
  ::setsockopt(netlink.fd(), SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
  // Refuses filters and header fields that the kernel would otherwise ignore in silence.
  ::setsockopt(netlink.fd(), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
  return netlink;
}

Result<Netlink> Netlink::open_in(int netns_fd) {
  PDL_TRY_ASSIGN(const NetnsScope scope, NetnsScope::enter(netns_fd));
  return open();
}

int Netlink::fd() const { return nl_socket_get_fd(socket_.get()); }

Result<std::uint64_t> Netlink::namespace_cookie() const {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (::getsockopt(fd(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) != 0)
    return fail_errno(errno, "cookie of a network namespace");
  return cookie;
}

Result<> Netlink::send_and_wait(Message& message, const Visitor& visit, bool& interrupted) {
  nl_sock* socket = socket_.get();
  nl_complete_msg(socket, message.get());
  nlmsghdr* request = nlmsg_hdr(message.get());
  // A message that is sent again needs a number of its own, or late answers to the first would count.
  request->nlmsg_seq = nl_socket_use_seq(socket);
  const std::uint32_t sequence = request->nlmsg_seq;
  if (const int error = nl_send(socket, message.get()); error < 0) return fail("netlink send: {}", nl_geterror(error));

  for (;;) {
    PDL_TRY_ASSIGN(const std::size_t size, receive_datagram(fd(), {buffer_.get(), receive_size}, answer_patience));
    if (size == 0) return fail_errno(EAGAIN, "no answer from the kernel");
    int left = static_cast<int>(size);
    for (auto* header = reinterpret_cast<nlmsghdr*>(buffer_.get()); nlmsg_ok(header, left);
         header = nlmsg_next(header, &left)) {
      if (header->nlmsg_seq != sequence) continue;
      interrupted = interrupted || (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
      if (header->nlmsg_type == NLMSG_ERROR) {
        const int code = -static_cast<const nlmsgerr*>(nlmsg_data(header))->error;
        if (code == 0) return {};
        return answer_error(header, code);
      }
      if (header->nlmsg_type == NLMSG_DONE) {
        // A dump that fails half-way says so here, with a negative errno.
        int code = 0;
        if (nlmsg_datalen(header) >= static_cast<int>(sizeof(code)))
          std::memcpy(&code, nlmsg_data(header), sizeof(code));
        if (code < 0) return Failure(Error{-code, errno_text(-code)});
        return {};
      }
      if (header->nlmsg_type >= NLMSG_MIN_TYPE && visit) visit(header);
    }
  }
}

Result<> Netlink::request(Message& message) {
  nlmsg_hdr(message.get())->nlmsg_flags |= NLM_F_ACK;
  bool interrupted = false;
  return send_and_wait(message, {}, interrupted);
}

Result<> Netlink::query(Message& message, const Visitor& visit, const std::function<void()>& restart) {
  // Without a dump the acknowledgement marks the end; a dump ends with NLMSG_DONE.
  nlmsghdr* header = nlmsg_hdr(message.get());
  if ((header->nlmsg_flags & NLM_F_DUMP) != NLM_F_DUMP) header->nlmsg_flags |= NLM_F_ACK;
  for (int attempt = 0; attempt < dump_attempts; ++attempt) {
    bool interrupted = false;
    PDL_TRY(send_and_wait(message, visit, interrupted));
    if (!interrupted) return {};
    ++dumps_interrupted_;
    if (restart) restart();
  }
  return fail_errno(EBUSY, "the kernel's list changed {} times while it was read", dump_attempts);
}

Result<> Netlink::join(int group) {
  const int size = event_buffer_size;
  // FORCE needs CAP_NET_ADMIN; without it the limit of net.core.rmem_max holds.
  if (::setsockopt(fd(), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0) {
    ::setsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
  }
  if (const int error = nl_socket_add_membership(socket_.get(), group); error < 0) {
    return fail("netlink group {}: {}", group, nl_geterror(error));
  }
  return {};
}

// Each event is a datagram of its own. A filter's loads are big endian, the fields are in the host's order.
void Netlink::only_neighbours_of(const std::set<int>& links) const {
  constexpr std::uint32_t all = ~std::uint32_t{0};
  std::vector<sock_filter> filter{
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offsetof(nlmsghdr, nlmsg_type)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_NEWNEIGH), 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_DELNEIGH), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, all),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NLMSG_HDRLEN + offsetof(ndmsg, ndm_ifindex)),
  };
  for (const int link : links) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(static_cast<std::uint32_t>(link)), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, all));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  const int unused = 0;
  // One of other links would be worse than none.
  if (filter.size() > BPF_MAXINSNS || ::setsockopt(fd(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0)
    ::setsockopt(fd(), SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
}

Result<> Netlink::receive(const Visitor& visit) const {
  for (;;) {
    PDL_TRY_ASSIGN(const std::size_t size,
                   receive_datagram(fd(), {buffer_.get(), receive_size}, std::chrono::milliseconds(0)));
    if (size == 0) return {};
    int left = static_cast<int>(size);
    for (auto* header = reinterpret_cast<nlmsghdr*>(buffer_.get()); nlmsg_ok(header, left);
         header = nlmsg_next(header, &left)) {
      if (header->nlmsg_type >= NLMSG_MIN_TYPE) visit(header);
    }
  }
}

}  // namespace poduplink
