// SPDX-License-Identifier: Apache-2.0
// Entries of connection tracking made by hand (ctnetlink), with any pair of tuples.
#pragma once

#include <cstdint>
#include <memory>

#include "loader/base/address.h"

struct nl_sock;

namespace poduplink::tests {

struct FlowTuple {
  std::uint8_t protocol = 0;  // TCP or UDP
  IpAddress src, dst;
  std::uint16_t sport = 0, dport = 0;
};

class Conntrack {
 public:
  // Of the network namespace that the calling thread is in. Throws std::runtime_error.
  Conntrack();
  // An entry that outlives every test. Without NAT the reply tuple is the mirror of the original one.
  // Throws where the kernel refuses it.
  void add(const FlowTuple& original, const FlowTuple& reply) const;

 private:
  struct Free {
    void operator()(nl_sock* socket) const;
  };
  std::unique_ptr<nl_sock, Free> socket_;
};

}  // namespace poduplink::tests
