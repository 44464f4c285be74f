// SPDX-License-Identifier: Apache-2.0
// The world of world.h, made crooked: uplinks of every role, state and MTU, pods and node addresses of every kind on
// them, so that random packets meet every branch of the contract.
#pragma once

#include <vector>

#include "tests/bpf/oracle_state.h"

namespace poduplink::tests {

// Adds the entries, and NATed flows to conntrack. Call it before packets are made.
void fill_fuzz_world(const Datapath& datapath);

// The oracle's state of such a world.
oracle::State fuzz_state(const Datapath& datapath);

// Addresses to make packets of, one family.
struct Pool {
  std::vector<IpAddress> pods;   // with an entry
  std::vector<IpAddress> nodes;  // the node's own
  std::vector<IpAddress> outside;
  std::vector<IpAddress> special;  // groups, broadcast, loopback, link-local, exempt, gateways, edges of subnets
};
Pool make_pool(const oracle::State& state, Family family);

}  // namespace poduplink::tests
