// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/oracle.h"

#include <linux/bpf.h>

#include "tests/bpf/oracle_answer.h"
#include "tests/bpf/oracle_packet.h"
#include "tests/bpf/oracle_way.h"

namespace poduplink::tests::oracle {
namespace {

const MacAddress veth_mac{std::array<std::uint8_t, 6> PDL_HOST_MAC};
const IpAddress pod_gateway4 = IpAddress::v4(std::array<std::uint8_t, 4> PDL_POD_GATEWAY4);
const IpAddress pod_gateway6 = IpAddress::v6(std::array<std::uint8_t, 16> PDL_POD_GATEWAY6);
const IpAddress limited_broadcast = ip("255.255.255.255");
const Prefix link_local6(ip("fe80::"), 10);

// ---- endings ----

Decision to_stack(pdl_verdict verdict, const Skb& skb) {
  return {.verdict = verdict, .ending = Ending::stack, .frame = skb.frame};
}

Decision dropped(pdl_verdict verdict) { return {.verdict = verdict, .ending = Ending::drop}; }

Decision to_stack_by(pdl_verdict first_reason, pdl_way reason, const Skb& skb) {
  return to_stack(static_cast<pdl_verdict>(unsigned{first_reason} + unsigned{reason}), skb);
}

Decision into_pod(pdl_verdict verdict, const Skb& skb, const Packet& packet, const pdl_pod& pod) {
  Decision decision{.verdict = verdict, .ending = Ending::redirect_peer, .target = pod.veth, .frame = skb.frame};
  count_down(decision.frame, packet);
  set_macs(decision.frame, MacAddress{std::to_array(pod.pod_mac)}, veth_mac);
  return decision;
}

Decision answered(pdl_verdict verdict, const Skb& skb, Octets answer) {
  return {.verdict = verdict,
          .ending = Ending::redirect,
          .target = skb.ifindex,
          .frame = std::move(answer),
          .answer = true};
}

// ---- pod_egress ----

bool is_router_message(const Packet& packet) {
  if (!packet.icmp_type) return false;
  const unsigned type = *packet.icmp_type;
  return packet.family == Family::v6 ? type == 134 || type == 137 : type == 5 || type == 9;
}

// Step 5: what may be sent from an address that is not the pod's.
bool may_go_on(const Packet& packet) {
  if (packet.src.is_v4()) {
    return packet.src.is_unspecified() && packet.dst == limited_broadcast && packet.chain.protocol == proto_udp &&
           packet.tuple && packet.tuple->sport == 68 && packet.tuple->dport == 67;
  }
  if (packet.src.is_unspecified() && packet.dst.is_multicast() && packet.icmp_type) {
    const unsigned type = *packet.icmp_type;
    return type == 135 || type == 133 || type == 131 || type == 132 || type == 143;
  }
  return link_local6.contains(packet.src) && (link_local6.contains(packet.dst) || packet.dst.is_multicast());
}

Decision without_entry(const Skb& skb, const Packet& packet, const State& state) {
  if (!may_go_on(packet)) return dropped(PDL_VERDICT_spoofed);
  const auto reason = first_four(state, {}, packet.dst);
  if (!reason) throw std::logic_error("docs/datapath.md: no rule of 1 to 4 holds in step 5 of pod_egress");
  return to_stack_by(PDL_VERDICT_stack_node, *reason, skb);
}

// Step 11.
Decision too_big_for_home(const Skb& skb, const Packet& packet, const pdl_uplink& home) {
  if (packet.family == Family::v4 && !packet.dont_fragment) return to_stack(PDL_VERDICT_too_big, skb);
  if (!may_answer_too_big(packet)) return dropped(PDL_VERDICT_too_big);
  const Correspondence between{.src_mac = veth_mac,
                               .dst_mac = source_mac(skb.frame),
                               .src = packet.family == Family::v4 ? pod_gateway4 : pod_gateway6};
  return {.verdict = PDL_VERDICT_too_big,
          .ending = Ending::redirect_peer,
          .target = skb.ifindex,
          .frame = too_big_answer(skb.frame, packet, home.mtu, between),
          .answer = true};
}

// Steps 9 to 12.
Decision out_of_home(const Skb& skb, const Packet& packet, const State& state, const pdl_pod& pod) {
  if (packet.ttl <= 1) return to_stack(PDL_VERDICT_ttl, skb);
  const pdl_uplink* home = home_of(state, pod);
  if (home != nullptr && is_down(*home) && home->when_down == PDL_WHEN_DOWN_STACK) {
    return to_stack(PDL_VERDICT_uplink_down_stack, skb);
  }
  const auto hop = next_hop(pod, packet.src, packet.dst);
  if (home == nullptr || is_down(*home) || !hop) return dropped(PDL_VERDICT_uplink_down);
  if (is_too_big(skb, packet, *home)) return too_big_for_home(skb, packet, *home);
  Decision decision{
      .verdict = is_gateway_silent(pod, packet.src, packet.dst) ? PDL_VERDICT_gateway_silent : PDL_VERDICT_redirected,
      .ending = Ending::redirect_neigh,
      .target = pod.home,
      .next_hop = hop,
      .frame = skb.frame};
  count_down(decision.frame, packet);
  return decision;
}

// Steps 6 to 12, of a packet whose source is the pod's.
Decision from_pod(const Skb& skb, const Packet& packet, const State& state, const pdl_pod& pod) {
  if (skb.type == PacketType::broadcast) return to_stack(PDL_VERDICT_stack_broadcast, skb);
  if (skb.type == PacketType::multicast) return to_stack(PDL_VERDICT_stack_multicast, skb);

  const WayResult result = way(state, Direction::out, skb.frame, packet, pod);
  if (result.way == PDL_WAY_MALFORMED) return dropped(PDL_VERDICT_malformed);
  const pdl_pod* other = pod_of(state, packet.dst);
  if (result.only_netfilter && other == nullptr) {
    const pdl_uplink* home = home_of(state, pod);
    if (home != nullptr && is_too_big(skb, packet, *home)) return too_big_for_home(skb, packet, *home);
  }
  if (result.way != PDL_WAY_FAST) return to_stack_by(PDL_VERDICT_stack_node, result.way, skb);

  if (other != nullptr) {
    if (other->mode == PDL_MODE_FAST && packet.ttl > 1) return into_pod(PDL_VERDICT_to_pod, skb, packet, *other);
    return to_stack(PDL_VERDICT_local_pod, skb);
  }
  return out_of_home(skb, packet, state, pod);
}

// ---- uplink_ingress ----

bool answers_for(const State& state, unsigned ifindex, const IpAddress& asked) {
  const pdl_pod* pod = pod_of(state, asked);
  const auto uplink = state.uplinks.find(ifindex);
  return pod != nullptr && pod->home == ifindex && uplink != state.uplinks.end() &&
         uplink->second.role == PDL_ROLE_HOME && (uplink->second.flags & PDL_UPLINK_ANSWER_NEIGHBOURS) != 0;
}

bool is_martian(const State& state, const Packet& packet) {
  return is_nodes_own(state, packet.src) || packet.src == pod_gateway4 || packet.src.is_multicast() ||
         packet.src == limited_broadcast || packet.src == packet.dst;
}

bool is_strict(const State& state, unsigned ifindex) {
  const auto uplink = state.uplinks.find(ifindex);
  return uplink != state.uplinks.end() && (uplink->second.flags & PDL_UPLINK_STRICT) != 0;
}

// Steps 6 to 12.
Decision to_pod(const Skb& skb, const Frame& read, const State& state, const pdl_pod& pod) {
  const Packet& packet = read.packet;
  if (is_martian(state, packet)) return dropped(PDL_VERDICT_martian);
  if (pod_of(state, packet.src) != nullptr) return to_stack(PDL_VERDICT_in_from_pod, skb);
  const bool at_home = pod.home == skb.ifindex;
  if (!at_home && is_strict(state, skb.ifindex)) return dropped(PDL_VERDICT_in_strict);
  if (read.malformed_extension) return to_stack(PDL_VERDICT_in_not_ip, skb);

  const WayResult result = way(state, Direction::in, skb.frame, packet, pod);
  if (result.way == PDL_WAY_MALFORMED) return dropped(PDL_VERDICT_in_malformed);
  if (result.way != PDL_WAY_FAST) return to_stack_by(PDL_VERDICT_in_stack_node, result.way, skb);
  if (packet.ttl <= 1) return to_stack(PDL_VERDICT_in_ttl, skb);
  return into_pod(at_home ? PDL_VERDICT_in_redirected : PDL_VERDICT_in_other_uplink, skb, packet, pod);
}

// ---- uplink_egress ----

// Step 4.
struct Steering {
  pdl_verdict verdict;
  unsigned ifindex;
  const pdl_uplink* target;  // null where it is missing
  std::optional<IpAddress> next_hop;
};

Decision too_big_for_target(const Skb& skb, const Packet& packet, const Steering& to) {
  const bool told = packet.family == Family::v6 || packet.dont_fragment;
  if (!told || !may_answer_too_big(packet)) return dropped(PDL_VERDICT_late_too_big);
  const Correspondence between{
      .src_mac = veth_mac, .dst_mac = MacAddress{std::to_array(to.target->mac)}, .src = packet.dst};
  return {.verdict = PDL_VERDICT_late_too_big,
          .ending = Ending::redirect,
          .target = to.ifindex,
          .flags = BPF_F_INGRESS,
          .frame = too_big_answer(skb.frame, packet, to.target->mtu, between),
          .answer = true};
}

Decision steered(const Skb& skb, const Packet& packet, const Steering& to) {
  if (to.target != nullptr && is_down(*to.target) && to.target->when_down == PDL_WHEN_DOWN_STACK) {
    return to_stack(PDL_VERDICT_late_uplink_down_stack, skb);
  }
  if (to.target == nullptr || is_down(*to.target) || !to.next_hop) return dropped(PDL_VERDICT_late_uplink_down);
  if (is_too_big(skb, packet, *to.target)) return too_big_for_target(skb, packet, to);
  Decision decision{.verdict = to.verdict,
                    .ending = Ending::redirect_neigh,
                    .target = to.ifindex,
                    .next_hop = to.next_hop,
                    .frame = skb.frame};
  if (destination_mac(skb.frame).is_multicast()) set_macs(decision.frame, {}, source_mac(skb.frame));
  return decision;
}

bool is_exception(const State& state, const Subject& who, const IpAddress& destination) {
  return first_five(state, who, destination).has_value() || pod_of(state, destination) != nullptr;
}

// Step 3.
Decision of_node(const Skb& skb, const Packet& packet, const State& state) {
  const auto node = state.nodes.find(packet.src);
  if (node == state.nodes.end() || node->second.ifindex == skb.ifindex) return to_stack(PDL_VERDICT_late_passed, skb);
  const auto uplink = state.uplinks.find(node->second.ifindex);
  const bool concerned = skb.ingress_ifindex != 0 || state.config.steer_node;
  if (uplink == state.uplinks.end() || !concerned) return to_stack(PDL_VERDICT_late_passed, skb);
  const Subject who{.home = nullptr, .subnet = Prefix(packet.src, node->second.prefix_len)};
  const auto hop = next_hop(node->second, packet.src, packet.dst);
  if (is_exception(state, who, packet.dst) || !hop) return to_stack(PDL_VERDICT_late_passed, skb);
  return steered(
      skb, packet,
      {.verdict = PDL_VERDICT_late_node, .ifindex = node->second.ifindex, .target = &uplink->second, .next_hop = hop});
}

}  // namespace

Decision pod_egress(const Skb& skb, const State& state) {
  if (skb.tag == 0) return dropped(PDL_VERDICT_spoofed);
  const Frame read = read_frame(skb);
  if (read.kind == Kind::vlan) return to_stack(PDL_VERDICT_vlan, skb);
  if (const auto asked = question(skb.frame, read); asked && (*asked == pod_gateway4 || *asked == pod_gateway6)) {
    return answered(PDL_VERDICT_neighbour, skb, neighbour_answer(skb.frame, read, *asked, veth_mac, true));
  }
  if (read.kind == Kind::arp || read.kind == Kind::other) return to_stack(PDL_VERDICT_not_ip, skb);
  if (read.kind == Kind::malformed || read.malformed_extension) return dropped(PDL_VERDICT_malformed);
  if (is_router_message(read.packet)) return dropped(PDL_VERDICT_spoofed);
  const pdl_pod* pod = pod_of(state, read.packet.src);
  if (pod == nullptr || pod->veth != skb.ifindex) return without_entry(skb, read.packet, state);
  return from_pod(skb, read.packet, state, *pod);
}

Decision uplink_ingress(const Skb& skb, const State& state) {
  const Frame read = read_frame(skb);
  if (read.kind == Kind::vlan) return to_stack(PDL_VERDICT_in_vlan, skb);
  if (const auto asked = question(skb.frame, read); asked && answers_for(state, skb.ifindex, *asked)) {
    const MacAddress own{std::to_array(state.uplinks.at(skb.ifindex).mac)};
    return answered(PDL_VERDICT_in_neighbour, skb, neighbour_answer(skb.frame, read, *asked, own, false));
  }
  if (read.kind == Kind::arp) return to_stack(PDL_VERDICT_in_not_ip, skb);
  if (skb.type != PacketType::host) return to_stack(PDL_VERDICT_in_foreign_mac, skb);
  if (read.kind != Kind::ip) return to_stack(PDL_VERDICT_in_not_ip, skb);
  const pdl_pod* pod = pod_of(state, read.packet.dst);
  if (pod == nullptr) return to_stack(PDL_VERDICT_in_no_pod, skb);
  Decision decision = to_pod(skb, read, state, *pod);
  decision.counted = true;
  return decision;
}

Decision uplink_egress(const Skb& skb, const State& state) {
  const Frame read = read_frame(skb);
  if (read.kind != Kind::ip) return to_stack(PDL_VERDICT_late_passed, skb);
  const Packet& packet = read.packet;
  const pdl_pod* pod = pod_of(state, packet.src);
  if (pod == nullptr) return of_node(skb, packet, state);
  if (pod->home == skb.ifindex) {
    Decision decision = to_stack(PDL_VERDICT_late_passed, skb);
    decision.counted = true;
    return decision;
  }
  if (is_exception(state, subject(state, packet.src, *pod), packet.dst)) return to_stack(PDL_VERDICT_late_passed, skb);
  const bool silent = is_gateway_silent(*pod, packet.src, packet.dst);
  return steered(skb, packet,
                 {.verdict = silent ? PDL_VERDICT_late_gateway_silent : PDL_VERDICT_late_redirected,
                  .ifindex = pod->home,
                  .target = home_of(state, *pod),
                  .next_hop = next_hop(*pod, packet.src, packet.dst)});
}

Decision decide(Program program, const Skb& skb, const State& state) {
  switch (program) {
    case Program::pod_egress:
      return pod_egress(skb, state);
    case Program::uplink_ingress:
      return uplink_ingress(skb, state);
    case Program::uplink_egress:
      return uplink_egress(skb, state);
  }
  throw std::logic_error("no such program");
}

void count(Program program, const Skb& skb, const Decision& decision, Stats& stats) {
  if (decision.counted && program == Program::uplink_ingress) {
    stats[skb.ifindex].in_packets += 1;
    stats[skb.ifindex].in_bytes += skb.frame.size();
  }
  if (decision.counted && program == Program::uplink_egress) {
    stats[skb.ifindex].out_packets += 1;
    stats[skb.ifindex].out_bytes += skb.frame.size();
  }
  switch (decision.verdict) {
    case PDL_VERDICT_redirected:
    case PDL_VERDICT_gateway_silent:
      stats[decision.target].out_redirects += 1;
      break;
    case PDL_VERDICT_late_redirected:
    case PDL_VERDICT_late_gateway_silent:
    case PDL_VERDICT_late_node:
      stats[decision.target].late_redirects += 1;
      break;
    case PDL_VERDICT_in_redirected:
    case PDL_VERDICT_in_other_uplink:
      stats[skb.ifindex].in_redirects += 1;
      break;
    default:
      break;
  }
}

}  // namespace poduplink::tests::oracle
