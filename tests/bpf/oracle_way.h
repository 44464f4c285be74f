// SPDX-License-Identifier: Apache-2.0
// "way", "Next hop" and "Size" of docs/datapath.md.
#pragma once

#include <optional>

#include "tests/bpf/oracle.h"
#include "tests/bpf/oracle_packet.h"

namespace poduplink::tests::oracle {

// ---- the words ----

const pdl_pod* pod_of(const State& state, const IpAddress& address);
bool is_nodes_own(const State& state, const IpAddress& address);
bool is_exempt(const State& state, const IpAddress& address);

// The home of a pod's entry, or null where it is missing.
const pdl_uplink* home_of(const State& state, const pdl_pod& pod);
bool is_down(const pdl_uplink& uplink);

// Whose packet it is, as far as rules 1 to 5 look at it.
struct Subject {
  const pdl_uplink* home = nullptr;  // whose link-local prefixes count
  std::optional<Prefix> subnet;      // whose highest address is broadcast
};
Subject subject(const State& state, const IpAddress& self, const pdl_pod& pod);

// ---- way ----

// Rules 1 to 4, and 1 to 5.
std::optional<pdl_way> first_four(const State& state, const Subject& subject, const IpAddress& peer);
std::optional<pdl_way> first_five(const State& state, const Subject& subject, const IpAddress& peer);

// Rules 7 to 10: `flow` is the packet itself, or the quoted one of an ICMP error.
std::optional<pdl_way> last_four(const State& state, const Packet& packet, const Packet& flow);

enum class Direction { out, in };

struct WayResult {
  pdl_way way = PDL_WAY_FAST;
  bool only_netfilter = false;  // rule 6 held, and rules 7 to 10 do not
};
WayResult way(const State& state, Direction direction, const Octets& frame, const Packet& packet, const pdl_pod& pod);

// ---- next hop ----

std::optional<IpAddress> next_hop(const pdl_pod& pod, const IpAddress& self, const IpAddress& destination);
std::optional<IpAddress> next_hop(const pdl_node& node, const IpAddress& self, const IpAddress& destination);
// Whether a pod's next hop is a gateway that does not answer.
bool is_gateway_silent(const pdl_pod& pod, const IpAddress& self, const IpAddress& destination);

// ---- size ----

bool is_too_big(const Skb& skb, const Packet& packet, const pdl_uplink& target);

}  // namespace poduplink::tests::oracle
