// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/oracle_way.h"

#include <algorithm>
#include <array>

namespace poduplink::tests::oracle {
namespace {

const Prefix link_local4(ip("169.254.0.0"), 16);
const Prefix link_local6(ip("fe80::"), 10);
const IpAddress limited_broadcast = ip("255.255.255.255");

bool claims(const pdl_uplink& home, const IpAddress& peer) {
  const std::span prefixes(home.link_local);
  return std::ranges::any_of(prefixes.first(home.link_local_count), [&](const pdl_link_local& claimed) {
    return Prefix(IpAddress::v4(std::span(claimed.addr)), claimed.prefix_len).contains(peer);
  });
}

bool is_link_local(const Subject& subject, const IpAddress& peer) {
  if (peer.is_v6()) return link_local6.contains(peer);
  return link_local4.contains(peer) && (subject.home == nullptr || !claims(*subject.home, peer));
}

bool is_broadcast(const Subject& subject, const IpAddress& peer) {
  if (peer.is_v6()) return false;
  return peer == limited_broadcast ||
         (subject.subnet && subject.subnet->length() <= 30 && peer == subject.subnet->last());
}

Tuple reverse(const Tuple& tuple) {
  return {.protocol = tuple.protocol, .src = tuple.dst, .dst = tuple.src, .sport = tuple.dport, .dport = tuple.sport};
}

bool is_nated(const State& state, const Tuple& tuple) {
  return state.config.conntrack && (state.nated.contains(tuple) || state.nated.contains(reverse(tuple)));
}

bool has_known_transport(const Packet& flow) { return flow.is_tcp_or_udp() || flow.icmp_type.has_value(); }

std::optional<IpAddress> gateway(std::span<const __u8, 4> gateway4, std::span<const __u8, 16> gateway6, Family family) {
  const IpAddress four = IpAddress::v4(gateway4);
  const IpAddress six = IpAddress::v6(gateway6);
  if (family == Family::v4 && !four.is_unspecified()) return four;
  if (!six.is_unspecified()) return six;
  return {};
}

constexpr unsigned segments_of_own_sizes = 0xffff;
constexpr std::uint8_t hop_by_hop = 0;

// The jumbo payload option of a packet whose length does not fit into the header.
std::size_t jumbo_octets(const Octets& frame, const Packet& packet) {
  const bool jumbo = packet.family == Family::v6 && word(frame, packet.header + 4) == 0 &&
                     octet(frame, packet.header + 6) == hop_by_hop;
  return jumbo ? 8 : 0;
}

// Nothing where there is no transport header: the size of a segment cannot be known.
std::optional<std::size_t> segment_octets(const Skb& skb, const Packet& packet) {
  if (!packet.chain.transport) return {};
  std::size_t transport = 0;
  if (packet.chain.protocol == proto_udp) transport = 8;
  if (packet.chain.protocol == proto_tcp && packet.chain.at + 13 <= packet.end) {
    transport = (octet(skb.frame, packet.chain.at + 12) >> 4U) * std::size_t{4};
  }
  const std::size_t headers = packet.chain.at - packet.header - jumbo_octets(skb.frame, packet);
  return skb.gso_size + headers + transport;
}

// By the flag on_link, in the pod's own subnet.
bool is_own_next_hop(const pdl_pod& pod, const IpAddress& self, const IpAddress& destination) {
  return (pod.flags & PDL_POD_ON_LINK) != 0 && Prefix(self, pod.prefix_len).contains(destination);
}

}  // namespace

const pdl_pod* pod_of(const State& state, const IpAddress& address) {
  const auto found = state.pods.find(address);
  return found == state.pods.end() ? nullptr : &found->second;
}

bool is_nodes_own(const State& state, const IpAddress& address) {
  return state.nodes.contains(address) || address.is_loopback() || address.is_unspecified();
}

bool is_exempt(const State& state, const IpAddress& address) {
  return std::ranges::any_of(state.exempt, [&](const Prefix& prefix) { return prefix.contains(address); });
}

const pdl_uplink* home_of(const State& state, const pdl_pod& pod) {
  const auto found = state.uplinks.find(pod.home);
  if (pod.home == 0 || found == state.uplinks.end() || found->second.role != PDL_ROLE_HOME) return nullptr;
  return &found->second;
}

bool is_down(const pdl_uplink& uplink) { return uplink.state != PDL_STATE_UP; }

Subject subject(const State& state, const IpAddress& self, const pdl_pod& pod) {
  return {.home = home_of(state, pod), .subnet = Prefix(self, pod.prefix_len)};
}

std::optional<pdl_way> first_four(const State& state, const Subject& subject, const IpAddress& peer) {
  if (is_nodes_own(state, peer)) return PDL_WAY_NODE;
  if (is_link_local(subject, peer)) return PDL_WAY_LINK_LOCAL;
  if (peer.is_multicast()) return PDL_WAY_MULTICAST;
  if (is_broadcast(subject, peer)) return PDL_WAY_BROADCAST;
  return {};
}

std::optional<pdl_way> first_five(const State& state, const Subject& subject, const IpAddress& peer) {
  if (const auto reason = first_four(state, subject, peer)) return reason;
  if (is_exempt(state, peer)) return PDL_WAY_EXEMPT;
  return {};
}

std::optional<pdl_way> last_four(const State& state, const Packet& packet, const Packet& flow) {
  if (packet.chain.fragment || flow.chain.fragment) return PDL_WAY_FRAGMENT;
  if (packet.chain.options || flow.chain.options) return PDL_WAY_OPTIONS;
  if (!has_known_transport(flow)) return PDL_WAY_PROTOCOL;
  if (flow.is_tcp_or_udp() && is_nated(state, *flow.tuple)) return PDL_WAY_NAT;
  return {};
}

WayResult way(const State& state, Direction direction, const Octets& frame, const Packet& packet, const pdl_pod& pod) {
  const bool out = direction == Direction::out;
  const IpAddress& self = out ? packet.src : packet.dst;
  IpAddress peer = out ? packet.dst : packet.src;
  Packet flow = packet;
  const Subject who = subject(state, self, pod);

  if (packet.is_icmp_error()) {
    const auto quote = read_quote(frame, packet);
    if (!quote || (out ? quote->dst : quote->src) != self) return {.way = PDL_WAY_MALFORMED};
    if (out) {
      if (const auto reason = first_four(state, who, packet.dst)) return {.way = *reason};
    }
    peer = out ? quote->src : quote->dst;
    flow = *quote;
  }

  if (const auto reason = first_five(state, who, peer)) return {.way = *reason};
  const auto later = last_four(state, packet, flow);
  if (pod.mode != PDL_MODE_FAST) return {.way = PDL_WAY_NETFILTER, .only_netfilter = !later};
  return {.way = later.value_or(PDL_WAY_FAST)};
}

std::optional<IpAddress> next_hop(const pdl_pod& pod, const IpAddress& self, const IpAddress& destination) {
  if (is_own_next_hop(pod, self, destination)) return destination;
  return gateway(pod.gateway4, pod.gateway6, destination.family());
}

bool is_gateway_silent(const pdl_pod& pod, const IpAddress& self, const IpAddress& destination) {
  return (pod.flags & PDL_POD_GATEWAY_SILENT) != 0 && !is_own_next_hop(pod, self, destination);
}

std::optional<IpAddress> next_hop(const pdl_node& node, const IpAddress& self, const IpAddress& destination) {
  if (Prefix(self, node.prefix_len).contains(destination)) return destination;
  return gateway(node.gateway4, node.gateway6, destination.family());
}

bool is_too_big(const Skb& skb, const Packet& packet, const pdl_uplink& target) {
  if (target.mtu == 0) return false;
  const std::size_t size = skb.frame.size() - ethernet_octets;
  if (size <= target.mtu) return false;
  if (skb.gso_size == 0) return true;
  if (skb.gso_size == segments_of_own_sizes) return false;
  return segment_octets(skb, packet).value_or(size) > target.mtu;
}

}  // namespace poduplink::tests::oracle
