// SPDX-License-Identifier: Apache-2.0
// docs/datapath.md as a function: what a frame gets, by plain C++ and without BPF. It was written from that page
// alone, and its order and words are the page's, so that the two can be laid side by side. Speed is no aim.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "maps/abi.h"
#include "tests/bpf/world.h"
#include "tests/harness/packet.h"

namespace poduplink::tests::oracle {

// ---- what a program is given ----

enum class PacketType { host, broadcast, multicast, other_host };  // skb->pkt_type

struct Skb {
  Octets frame;  // from the Ethernet header on
  unsigned ifindex = 0;
  unsigned ingress_ifindex = 0;
  unsigned gso_size = 0;
  std::uint16_t protocol = 0;  // an EtherType
  PacketType type = PacketType::host;
  std::optional<std::uint16_t> tag;  // beside the frame (vlan_present): its VLAN ID
};

struct Tuple {
  std::uint8_t protocol = 0;
  IpAddress src, dst;
  std::uint16_t sport = 0, dport = 0;
  friend auto operator<=>(const Tuple&, const Tuple&) = default;
};

// The maps, the configuration, and of conntrack the NATed entries.
struct State {
  std::map<IpAddress, pdl_pod> pods;
  std::map<IpAddress, pdl_node> nodes;
  std::map<unsigned, pdl_uplink> uplinks;
  std::vector<Prefix> exempt;
  std::set<Tuple> nated;  // each entry by both its tuples
  Config config;
};

// ---- what it says ----

enum class Ending {
  stack,
  drop,
  redirect_neigh,
  redirect_peer,
  redirect,
};

struct Decision {
  pdl_verdict verdict = PDL_VERDICT_COUNT;
  Ending ending = Ending::stack;
  unsigned target = 0;                // interface of a redirect
  std::uint64_t flags = 0;            // of a redirect
  std::optional<IpAddress> next_hop;  // of redirect_neigh
  Octets frame;                       // as the program leaves it; means nothing for a drop
  bool answer = false;                // the frame is not the one that came but what it was answered with
  bool counted = false;               // the packet is the uplink's traffic: out_packets or in_packets
};

Decision pod_egress(const Skb& skb, const State& state);
Decision uplink_ingress(const Skb& skb, const State& state);
Decision uplink_egress(const Skb& skb, const State& state);
Decision decide(Program program, const Skb& skb, const State& state);

// What the decision adds to uplink_stats ("Counters and events"), for interfaces without an entry too.
using Stats = std::map<unsigned, pdl_uplink_stats>;
void count(Program program, const Skb& skb, const Decision& decision, Stats& stats);

}  // namespace poduplink::tests::oracle
