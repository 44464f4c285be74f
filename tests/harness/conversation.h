// SPDX-License-Identifier: Apache-2.0
// A socket that stays open over several steps of a test, and what it learns of its path.
#pragma once

#include <string>

#include "loader/base/fd.h"
#include "tests/harness/traffic.h"

namespace poduplink::harness {

struct Message {
  Endpoint from;
  std::string payload;
};

class Conversation {
 public:
  // UDP, bound and without a peer: it talks to all. Port 0: any.
  static Result<Conversation> udp(const Namespace& space, const Endpoint& local);
  // TCP, connected to `datagram.to`.
  static Result<Conversation> tcp(const Namespace& space, const Datagram& datagram);

  // UDP alone: from now on with this peer only. ICMP errors are told to it.
  Result<> connect(const Endpoint& to);
  // Errors: errno, EMSGSIZE among them.
  Result<> send(const std::string& payload) const;
  Result<> send_to(const Endpoint& to, const std::string& payload) const;
  // Errors: ETIMEDOUT, and what ICMP reported.
  Result<Message> receive(std::chrono::milliseconds timeout = std::chrono::seconds(3)) const;
  // Sends, and receives as many octets as were sent.
  Result<std::string> exchange(const std::string& payload) const;

  // Packets that bear DF, and are refused where they are larger than the path's MTU.
  Result<> forbid_fragments() const;
  // Of a connected socket: the MTU of its path, as far as the kernel knows.
  [[nodiscard]] Result<unsigned> path_mtu() const;
  [[nodiscard]] Result<Endpoint> local() const;

 private:
  Conversation(Fd fd, Endpoint peer) : fd_(std::move(fd)), peer_(peer) {}
  Fd fd_;
  Endpoint peer_;
};

}  // namespace poduplink::harness
