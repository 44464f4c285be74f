// SPDX-License-Identifier: Apache-2.0
// rtnetlink over libnl's sockets and messages. libnl's object caches are not used: the kernel is asked each
// time, so that nothing here can be out of date.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "loader/base/address.h"
#include "loader/base/result.h"

struct nl_msg;
struct nl_sock;
struct nlattr;
struct nlmsghdr;

namespace poduplink {

// One request under construction.
class Message {
 public:
  // `header` is the family header that follows the netlink header (ifinfomsg, rtmsg …). NLM_F_REQUEST is added.
  template <typename Header>
  Message(int type, int flags, const Header& header) : Message(type, flags, &header, sizeof(header)) {}

  void put(int attribute, const void* data, std::size_t size);
  void put_u8(int attribute, std::uint8_t value);
  void put_u16(int attribute, std::uint16_t value);
  void put_u32(int attribute, std::uint32_t value);
  void put_string(int attribute, std::string_view text);
  void put_address(int attribute, const IpAddress& address);
  void put_mac(int attribute, const MacAddress& mac);
  // Octets without an attribute header, as the peer's ifinfomsg inside VETH_INFO_PEER.
  void append(const void* data, std::size_t size);

  // Calls `fill` between the start and the end of a nested attribute.
  void nest(int attribute, const std::function<void()>& fill);

  [[nodiscard]] nl_msg* get() const { return message_.get(); }

 private:
  Message(int type, int flags, const void* header, std::size_t size);

  struct Free {
    void operator()(nl_msg* message) const;
  };
  std::unique_ptr<nl_msg, Free> message_;
};

// The attributes of one received message; unknown ones are ignored.
class Attributes {
 public:
  // Attributes behind a family header of `header_size` octets.
  Attributes(const nlmsghdr* message, std::size_t header_size);
  // Attributes nested in one.
  explicit Attributes(const nlattr* nested);

  [[nodiscard]] bool has(int attribute) const { return find(attribute) != nullptr; }
  // Zero where the attribute is absent or shorter than asked for.
  [[nodiscard]] std::uint8_t u8(int attribute) const;
  [[nodiscard]] std::uint16_t u16(int attribute) const;
  [[nodiscard]] std::uint32_t u32(int attribute) const;
  [[nodiscard]] std::string text(int attribute) const;
  [[nodiscard]] std::span<const std::uint8_t> octets(int attribute) const;
  [[nodiscard]] std::optional<IpAddress> address(int attribute) const;
  [[nodiscard]] Attributes nested(int attribute) const;
  // Calls `visit` for each attribute in order (lists carry one type many times).
  void each(const std::function<void(int type, std::span<const std::uint8_t> payload)>& visit) const;

 private:
  [[nodiscard]] const nlattr* find(int attribute) const;

  const nlattr* first_ = nullptr;
  int length_ = 0;
};

// A socket in the network namespace that the thread was in when it was opened; it stays there.
class Netlink {
 public:
  using Visitor = std::function<void(const nlmsghdr*)>;

  // rtnetlink. Errors: errno of socket and bind.
  static Result<Netlink> open();
  // nfnetlink: connection tracking and the like. Errors: as open().
  static Result<Netlink> open_netfilter();
  // The same in the namespace behind a descriptor; the calling thread comes back to its own.
  static Result<Netlink> open_in(int netns_fd);

  // Sends a request and waits for the acknowledgement. Errors: errno of the kernel's answer with its
  // extended text, EAGAIN where none came within 10 s.
  Result<> request(Message& message);

  // Sends a request and hands each message of the answer to `visit`. A request without NLM_F_DUMP brings
  // one message. A dump that the kernel marks as interrupted is started anew, up to 20 times, and `restart`
  // is called first so that the caller can drop what it has. Errors: as request(); EBUSY when it never was whole.
  Result<> query(Message& message, const Visitor& visit, const std::function<void()>& restart = {});

  // How many dumps were started anew since the socket was opened.
  [[nodiscard]] std::uint64_t dumps_interrupted() const { return dumps_interrupted_; }

  // Joins a multicast group (RTNLGRP_*). Sockets that follow events make no requests.
  Result<> join(int group);
  // Of neighbour events only those of these links are received from now on, all other events as before: the kernel
  // throws the rest away before it wakes anybody. Where it takes no filter for that many links all are received.
  void only_neighbours_of(const std::set<int>& links) const;
  // Reads what has arrived, without waiting. Errors: ENOBUFS where events were lost (resynchronise).
  Result<> receive(const Visitor& visit) const;
  [[nodiscard]] int fd() const;
  // The network namespace that the socket lives in, by a number that no other one has until the machine starts anew.
  // Errors: errno of getsockopt.
  [[nodiscard]] Result<std::uint64_t> namespace_cookie() const;

 private:
  struct Free {
    void operator()(nl_sock* socket) const;
  };
  explicit Netlink(nl_sock* socket);
  static Result<Netlink> open_protocol(int protocol);
  Result<> send_and_wait(Message& message, const Visitor& visit, bool& interrupted);

  std::unique_ptr<nl_sock, Free> socket_;
  std::unique_ptr<char[]> buffer_;  // of what is received; a visitor must not use the same socket
  std::uint64_t dumps_interrupted_ = 0;
};

}  // namespace poduplink
