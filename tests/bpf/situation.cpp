// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/situation.h"

#include "maps/tables.h"
#include "tests/bpf/oracle_packet.h"
#include "tests/bpf/oracle_way.h"

namespace poduplink::tests {
namespace {

// Decided before a pod is looked for.
bool is_without_pod(unsigned verdict) {
  switch (verdict) {
    case PDL_VERDICT_neighbour:
    case PDL_VERDICT_not_ip:
    case PDL_VERDICT_vlan:
    case PDL_VERDICT_in_neighbour:
    case PDL_VERDICT_in_vlan:
    case PDL_VERDICT_in_foreign_mac:
    case PDL_VERDICT_in_no_pod:
      return true;
    default:
      return false;
  }
}

PodMode mode_of(Program program, const oracle::Skb& skb, const oracle::State& state, const oracle::Packet& packet) {
  const pdl_pod* pod = pod_of(state, program == Program::uplink_ingress ? packet.dst : packet.src);
  if (pod == nullptr || (program == Program::pod_egress && pod->veth != skb.ifindex)) return PodMode::none;
  return pod->mode == PDL_MODE_FAST ? PodMode::fast : PodMode::netfilter;
}

Net net_of(const oracle::Skb& skb, const oracle::Frame& read) {
  switch (read.kind) {
    case oracle::Kind::arp:
      return Net::v4;
    case oracle::Kind::ip:
    case oracle::Kind::malformed:
      return oracle::word(skb.frame, 12) == 0x0800 ? Net::v4 : Net::v6;
    default:
      return Net::none;
  }
}

// What is possible, verdict by verdict: the nets of the first list with the modes of the second.
class Possible {
 public:
  void add(std::initializer_list<unsigned> verdicts, std::initializer_list<Net> nets,
           std::initializer_list<PodMode> modes) {
    for (const unsigned verdict : verdicts) {
      for (const Net net : nets) {
        for (const PodMode mode : modes) all.insert({verdict, net, mode});
      }
    }
  }
  std::set<Situation> all;
};

using enum Net;

void add_pod_egress(Possible& p) {
  using enum PodMode;
  p.add({PDL_VERDICT_redirected, PDL_VERDICT_to_pod, PDL_VERDICT_uplink_down, PDL_VERDICT_uplink_down_stack,
         PDL_VERDICT_gateway_silent, PDL_VERDICT_ttl, PDL_VERDICT_local_pod},
        {v4, v6}, {fast});
  p.add({PDL_VERDICT_neighbour}, {v4, v6}, {PodMode::none});
  p.add({PDL_VERDICT_not_ip}, {Net::none, v4}, {PodMode::none});
  p.add({PDL_VERDICT_vlan}, {Net::none}, {PodMode::none});
  // Of a pod: a foreign quote; a router message.
  p.add({PDL_VERDICT_malformed, PDL_VERDICT_spoofed}, {v4, v6}, {PodMode::none, fast, netfilter});
  p.add({PDL_VERDICT_too_big}, {v4, v6}, {fast, netfilter});
  p.add({PDL_VERDICT_stack_node, PDL_VERDICT_stack_link_local, PDL_VERDICT_stack_multicast, PDL_VERDICT_stack_broadcast,
         PDL_VERDICT_stack_exempt},
        {v4, v6}, {fast, netfilter});
  // Without a pod's address: step 5.
  p.add({PDL_VERDICT_stack_node, PDL_VERDICT_stack_link_local, PDL_VERDICT_stack_multicast}, {v6}, {PodMode::none});
  p.add({PDL_VERDICT_stack_broadcast}, {v4}, {PodMode::none});
  p.add({PDL_VERDICT_stack_netfilter}, {v4, v6}, {netfilter});
  p.add({PDL_VERDICT_stack_fragment, PDL_VERDICT_stack_options, PDL_VERDICT_stack_protocol, PDL_VERDICT_stack_nat},
        {v4, v6}, {fast});
}

void add_uplink_ingress(Possible& p) {
  using enum PodMode;
  p.add({PDL_VERDICT_in_redirected, PDL_VERDICT_in_other_uplink, PDL_VERDICT_in_ttl}, {v4, v6}, {fast});
  p.add({PDL_VERDICT_in_neighbour, PDL_VERDICT_in_no_pod}, {v4, v6}, {PodMode::none});
  p.add({PDL_VERDICT_in_vlan}, {Net::none}, {PodMode::none});
  p.add({PDL_VERDICT_in_foreign_mac, PDL_VERDICT_in_not_ip}, {Net::none, v4, v6}, {PodMode::none});
  p.add({PDL_VERDICT_in_not_ip}, {v6}, {fast, netfilter});  // a malformed extension header
  p.add({PDL_VERDICT_in_malformed, PDL_VERDICT_martian, PDL_VERDICT_in_strict, PDL_VERDICT_in_from_pod,
         PDL_VERDICT_in_stack_node, PDL_VERDICT_in_stack_link_local, PDL_VERDICT_in_stack_multicast,
         PDL_VERDICT_in_stack_exempt},
        {v4, v6}, {fast, netfilter});
  p.add({PDL_VERDICT_in_stack_broadcast}, {v4}, {fast, netfilter});
  p.add({PDL_VERDICT_in_stack_netfilter}, {v4, v6}, {netfilter});
  p.add({PDL_VERDICT_in_stack_fragment, PDL_VERDICT_in_stack_options, PDL_VERDICT_in_stack_protocol,
         PDL_VERDICT_in_stack_nat},
        {v4, v6}, {fast});
}

void add_uplink_egress(Possible& p) {
  using enum PodMode;
  p.add({PDL_VERDICT_late_passed}, {Net::none, v4, v6}, {PodMode::none});
  p.add({PDL_VERDICT_late_passed, PDL_VERDICT_late_redirected, PDL_VERDICT_late_gateway_silent}, {v4, v6},
        {fast, netfilter});
  p.add({PDL_VERDICT_late_node}, {v4, v6}, {PodMode::none});
  // Without a pod: the node's own packets.
  p.add({PDL_VERDICT_late_uplink_down, PDL_VERDICT_late_uplink_down_stack, PDL_VERDICT_late_too_big}, {v4, v6},
        {PodMode::none, fast, netfilter});
}

}  // namespace

std::string text_of(const Situation& situation) {
  constexpr std::array nets{"no IP", "IPv4", "IPv6"};
  constexpr std::array modes{"no pod", "fast", "netfilter"};
  return verdict_name(situation.verdict) + ", " + nets.at(static_cast<std::size_t>(situation.net)) + ", " +
         modes.at(static_cast<std::size_t>(situation.mode));
}

std::set<Situation> possible_situations() {
  Possible possible;
  add_pod_egress(possible);
  add_uplink_ingress(possible);
  add_uplink_egress(possible);
  return possible.all;
}

Situation situation_of(Program program, const oracle::Skb& skb, const oracle::State& state, unsigned verdict) {
  const oracle::Frame read = oracle::read_frame(skb);
  Situation situation{.verdict = verdict, .net = net_of(skb, read)};
  if (read.kind == oracle::Kind::ip && !is_without_pod(verdict)) {
    situation.mode = mode_of(program, skb, state, read.packet);
  }
  return situation;
}

}  // namespace poduplink::tests
