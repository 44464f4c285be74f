// SPDX-License-Identifier: Apache-2.0
// pod_egress: what a pod sends, by destination and size.
#include "tests/bpf/cases.h"

namespace poduplink::tests {
namespace {

class Table {
 public:
  explicit Table(Family family) : a(addresses(family)), family_(family) {}

  void add(const std::string& name, const Octets& frame, pdl_verdict verdict, Fate fate = Fate::stack,
           unsigned target = 0, const std::optional<IpAddress>& next_hop = {}, unsigned gso_size = 0) {
    cases.push_back({.name = named(family_, name),
                     .input = {.program = Program::pod_egress, .ifindex = veth, .frame = frame, .gso_size = gso_size},
                     .verdict = verdict,
                     .fate = fate,
                     .target = target,
                     .next_hop = next_hop});
  }

  void redirected(const std::string& name, const Octets& frame, const IpAddress& next_hop, unsigned gso_size = 0) {
    add(name, frame, PDL_VERDICT_redirected, Fate::uplink, kUplink1, next_hop, gso_size);
  }
  void sent_in_vain(const std::string& name, const Octets& frame) {
    add(name, frame, PDL_VERDICT_gateway_silent, Fate::uplink, kUplink1, a.pod_gateway);
  }

  // Too big, and the sender hears of it.
  void told(const std::string& name, const Octets& frame, unsigned gso_size = 0) {
    add(name, frame, PDL_VERDICT_too_big, Fate::sender, veth, {}, gso_size);
    cases.back().answer =
        too_big_answer({host_mac(), src_mac_of(frame)}, ip(a.pod.is_v4() ? "169.254.1.1" : "fe80::1"), frame);
  }

  // A UDP packet of the pod.
  [[nodiscard]] Octets udp(const IpAddress& dst) const {
    return from_pod() + std::vector<Layer>{Ip{a.pod, dst}, Udp{1000, 53}, Raw{20}};
  }
  [[nodiscard]] Octets udp_from(const IpAddress& src) const {
    return from_pod() + std::vector<Layer>{Ip{src, a.outside}, Udp{1000, 53}, Raw{20}};
  }
  // An ICMP error of the pod about a UDP packet that it got.
  [[nodiscard]] Octets error(const IpAddress& to, const Ip& quoted, std::uint16_t source,
                             std::uint16_t destination) const {
    return from_pod() +
           std::vector<Layer>{Ip{a.pod, to}, unreachable(family_), quoted, Udp{source, destination}, Raw{8}};
  }

  const Addresses& a;
  unsigned veth = kVethA;
  std::vector<Case> cases;

 private:
  Family family_;
};

void add_next_hops(Table& t) {
  const Addresses& a = t.a;
  t.redirected("UDP to the outside goes to the gateway", t.udp(a.outside), a.pod_gateway);
  t.redirected("TCP to the outside", from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, Tcp{1000, 80}},
               a.pod_gateway);
  t.redirected(
      "an echo request",
      from_pod() + std::vector<Layer>{Ip{a.pod, a.outside},
                                      Icmp{.type = static_cast<std::uint8_t>(a.pod.is_v4() ? 8 : 128)}, Raw{32}},
      a.pod_gateway);
  t.redirected("a destination in the subnet is its own next hop", t.udp(a.on_link), a.on_link);
  t.redirected("without on-link the gateway is the next hop in the subnet too",
               from_pod() + std::vector<Layer>{Ip{a.strict_subnet_pod, a.on_link}, Udp{1, 2}}, a.pod_gateway);
  t.redirected("TTL 2 leaves with 1", from_pod() + std::vector<Layer>{Ip{a.pod, a.outside, 2}, Udp{1, 2}},
               a.pod_gateway);
  t.redirected("UDP without payload", from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, Udp{1, 2}}, a.pod_gateway);
  t.redirected("octets behind the IP packet do not matter",
               from_pod() +
                   std::vector<Layer>{
                       Ip{.src = a.pod, .dst = a.outside, .length = static_cast<std::uint16_t>(a.pod.is_v4() ? 28 : 8)},
                       Udp{1, 2}, Raw{18}},
               a.pod_gateway);
  t.add("TTL 1", from_pod() + std::vector<Layer>{Ip{a.pod, a.outside, 1}, Udp{1, 2}}, PDL_VERDICT_ttl);
  t.add("TTL 0", from_pod() + std::vector<Layer>{Ip{a.pod, a.outside, 0}, Udp{1, 2}}, PDL_VERDICT_ttl);
}

void add_homes(Table& t) {
  const Addresses& a = t.a;
  t.add("home down", t.udp_from(a.down), PDL_VERDICT_uplink_down, Fate::drop);
  t.add("home down, whenDown stack", t.udp_from(a.down_stack), PDL_VERDICT_uplink_down_stack);
  t.add("no home", t.udp_from(a.homeless), PDL_VERDICT_uplink_down, Fate::drop);
  t.add("home is not in the map", t.udp_from(a.absent), PDL_VERDICT_uplink_down, Fate::drop);
  t.sent_in_vain("the gateway does not answer", t.udp_from(a.silent));
  t.redirected("past a gateway that does not answer",
               from_pod() + std::vector<Layer>{Ip{a.silent, a.on_link}, Udp{1000, 53}, Raw{20}}, a.on_link);
  t.add("a transit device is no home", t.udp_from(a.on_transit), PDL_VERDICT_uplink_down, Fate::drop);
}

// `size` octets of layer 3.
Octets sized(const IpAddress& src, const IpAddress& dst, std::size_t size, bool dont_fragment) {
  const std::size_t header = src.is_v4() ? 20 : 40;
  return from_pod() + std::vector<Layer>{Ip{.src = src, .dst = dst, .dont_fragment = dont_fragment}, Udp{1, 2},
                                         Raw{size - header - 8}};
}

void add_sizes(Table& t) {
  const Addresses& a = t.a;
  const bool v4 = a.pod.is_v4();
  t.redirected("exactly the MTU", sized(a.pod, a.outside, uplink_mtu, true), a.pod_gateway);
  t.told("one octet more", sized(a.pod, a.outside, uplink_mtu + 1, true));
  t.told("an odd number of octets more", sized(a.pod, a.outside, uplink_mtu + 2, true));
  t.told("many octets more", sized(a.pod, a.outside, 3500, true));
  t.told("options of TCP", from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .dont_fragment = true},
                                                           Tcp{.sport = 1, .dport = 2, .option_words = 10}, Raw{1600}});
  t.add("an ICMP error is answered by none",
        from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .dont_fragment = true},
                                        unreachable(a.pod.family()), Ip{a.outside, a.pod}, Udp{1, 2}, Raw{1600}},
        PDL_VERDICT_too_big, Fate::drop);
  if (!v4) {
    t.told("extension headers", from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, Extension{.size = 40},
                                                                Extension{.size = 32}, Udp{1, 2}, Raw{1600}});
    t.add("more extension headers than are kept",
          from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, Extension{.size = 80}, Udp{1, 2}, Raw{1600}},
          PDL_VERDICT_too_big, Fate::drop);
  }
  t.add("too big and TTL 1",
        from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .ttl = 1, .dont_fragment = true}, Udp{1, 2},
                                        Raw{2000}},
        PDL_VERDICT_ttl);
  const std::vector<Layer> tcp{Ip{.src = a.pod, .dst = a.outside, .dont_fragment = true},
                               Tcp{.sport = 1, .dport = 2, .option_words = 3}, Raw{3000}};
  const unsigned segment = uplink_mtu - (v4 ? 20 : 40) - 32;
  t.redirected("TCP segments of the MTU", from_pod() + tcp, a.pod_gateway, segment);
  t.told("TCP segments one octet larger", from_pod() + tcp, segment + 1);
  const std::vector<Layer> udp{Ip{.src = a.pod, .dst = a.outside, .dont_fragment = true}, Udp{1, 2}, Raw{3000}};
  const unsigned datagram = uplink_mtu - (v4 ? 20 : 40) - 8;
  t.redirected("UDP segments of the MTU", from_pod() + udp, a.pod_gateway, datagram);
  t.told("UDP segments one octet larger", from_pod() + udp, datagram + 1);

  t.veth = kVethN;
  t.told("netfilter mode: size comes first", sized(a.netfilter, a.outside, uplink_mtu + 1, true));
  t.add("netfilter mode: the MTU itself", sized(a.netfilter, a.outside, uplink_mtu, true), PDL_VERDICT_stack_netfilter);
  t.add("netfilter mode: too big for another pod of this node", sized(a.netfilter, a.pod, uplink_mtu + 1, true),
        PDL_VERDICT_stack_netfilter);
  t.add("netfilter mode: another reason for the stack as well",
        from_pod() + std::vector<Layer>{Ip{.src = a.netfilter, .dst = a.outside, .dont_fragment = true, .protocol = 47},
                                        Raw{2000}},
        PDL_VERDICT_stack_netfilter);
  t.add("netfilter mode: too big for an exempt destination", sized(a.netfilter, a.exempt, uplink_mtu + 1, true),
        PDL_VERDICT_stack_exempt);
  t.veth = kVethA;
  if (v4) {
    t.add("IPv4 without DF is for the stack to fragment", sized(a.pod, a.outside, uplink_mtu + 1, false),
          PDL_VERDICT_too_big);
    t.veth = kVethN;
    t.add("netfilter mode: IPv4 without DF", sized(a.netfilter, a.outside, uplink_mtu + 1, false), PDL_VERDICT_too_big);
    t.veth = kVethA;
  }
}

void add_peers(Table& t) {
  const Addresses& a = t.a;
  t.add("the node's own address", t.udp(a.node), PDL_VERDICT_stack_node);
  t.add("the node's own address elsewhere", t.udp(a.docker_node), PDL_VERDICT_stack_node);
  t.add("loopback", t.udp(a.loopback), PDL_VERDICT_stack_node);
  t.add("the unspecified address", t.udp(a.unspecified), PDL_VERDICT_stack_node);
  t.add("link-local", t.udp(a.link_local), PDL_VERDICT_stack_link_local);
  t.add("multicast", t.udp(a.multicast), PDL_VERDICT_stack_multicast);
  t.add("exempt", t.udp(a.exempt), PDL_VERDICT_stack_exempt);
  t.add("a broadcast MAC",
        Ethernet{pod_mac(kVethA), mac("ff:ff:ff:ff:ff:ff")} + std::vector<Layer>{Ip{a.pod, a.outside}, Udp{1, 2}},
        PDL_VERDICT_stack_broadcast);
  t.add("a multicast MAC",
        Ethernet{pod_mac(kVethA), mac("01:00:5e:00:00:01")} + std::vector<Layer>{Ip{a.pod, a.outside}, Udp{1, 2}},
        PDL_VERDICT_stack_multicast);
  if (!a.pod.is_v4()) return;
  t.add("limited broadcast", t.udp(ip("255.255.255.255")), PDL_VERDICT_stack_broadcast);
  t.add("the subnet's broadcast", t.udp(ip("10.1.255.255")), PDL_VERDICT_stack_broadcast);
  t.redirected("another subnet's broadcast", t.udp(ip("10.9.255.255")), a.pod_gateway);
  t.redirected("a link-local prefix that the home claims", t.udp(ip("169.254.169.254")), a.pod_gateway);
  t.add("the same prefix for a pod of another home",
        from_pod() + std::vector<Layer>{Ip{a.down, ip("169.254.169.254")}, Udp{1, 2}}, PDL_VERDICT_stack_link_local);
  t.redirected("an IPv6 next hop", from_pod() + std::vector<Layer>{Ip{rfc5549_pod(), a.outside}, Udp{1, 2}},
               ip("fe80::1"));
}

void add_packets(Table& t) {
  const Addresses& a = t.a;
  t.add("GRE", from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .protocol = 47}, Raw{32}},
        PDL_VERDICT_stack_protocol);
  t.add("SCTP", from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .protocol = 132}, Raw{32}},
        PDL_VERDICT_stack_protocol);
  t.add("ICMP of the other family",
        from_pod() +
            std::vector<Layer>{
                Ip{.src = a.pod, .dst = a.outside, .protocol = static_cast<std::uint8_t>(a.pod.is_v4() ? 58 : 1)},
                Raw{32}},
        PDL_VERDICT_stack_protocol);
  t.add("UDP cut short", from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .protocol = 17}, Raw{7}},
        PDL_VERDICT_stack_protocol);
  t.add("nothing behind the IP header", from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}},
        PDL_VERDICT_stack_protocol);
  if (a.pod.is_v4()) {
    t.add("options", from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .option_words = 1}, Udp{1, 2}},
          PDL_VERDICT_stack_options);
    t.add(
        "first fragment",
        from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .more_fragments = true}, Udp{1, 2}, Raw{16}},
        PDL_VERDICT_stack_fragment);
    t.add("later fragment",
          from_pod() +
              std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .fragment_offset = 24, .protocol = 17}, Raw{16}},
          PDL_VERDICT_stack_fragment);
    t.add("fragment with options",
          from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .more_fragments = true, .option_words = 2},
                                          Udp{1, 2}},
          PDL_VERDICT_stack_fragment);
    return;
  }
  const auto extended = [&](const std::vector<Layer>& extensions) {
    std::vector<Layer> layers{Ip{a.pod, a.outside}};
    layers.insert(layers.end(), extensions.begin(), extensions.end());
    layers.emplace_back(Udp{1, 2});
    return from_pod() + layers;
  };
  t.redirected("hop-by-hop and destination options", extended({Extension{0, 16}, Extension{60, 24}}), a.pod_gateway);
  t.redirected("an authentication header", extended({Extension{51, 24}}), a.pod_gateway);
  t.redirected("8 extension headers", extended(std::vector<Layer>(8, Extension{60, 8})), a.pod_gateway);
  t.add("9 extension headers", extended(std::vector<Layer>(9, Extension{60, 8})), PDL_VERDICT_stack_options);
  t.add("a routing header", extended({Extension{43, 8}}), PDL_VERDICT_stack_options);
  t.add("first fragment", extended({Fragment{0, true}}), PDL_VERDICT_stack_fragment);
  t.add("lone fragment", extended({Fragment{0, false}}), PDL_VERDICT_stack_fragment);
  t.add("later fragment", extended({Fragment{64, false}}), PDL_VERDICT_stack_fragment);
  t.add("an extension header beyond the end",
        from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, Extension{.type = 60, .size = 8, .length = 9}, Udp{1, 2}},
        PDL_VERDICT_malformed, Fate::drop);
  t.add("an extension header cut short",
        from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .protocol = 60}, Raw{7}},
        PDL_VERDICT_malformed, Fate::drop);
}

void add_flows(Table& t) {
  const Addresses& a = t.a;
  const auto udp = [&](std::uint16_t sport, const IpAddress& dst, std::uint16_t dport) {
    return from_pod() + std::vector<Layer>{Ip{a.pod, dst}, Udp{sport, dport}};
  };
  t.add("a NATed flow, found by its answer", udp(nat_port, a.nat_backend, backend_port), PDL_VERDICT_stack_nat);
  t.redirected("the same with another port", udp(nat_port + 1, a.nat_backend, backend_port), a.pod_gateway);
  t.redirected("the same as TCP",
               from_pod() + std::vector<Layer>{Ip{a.pod, a.nat_backend}, Tcp{nat_port, backend_port}}, a.pod_gateway);
  t.redirected("a tracked flow without NAT", udp(plain_port, a.nat_backend, backend_port), a.pod_gateway);
  Case unasked = t.cases.at(t.cases.size() - 4);
  unasked.name += ", where conntrack is not to be had";
  unasked.verdict = PDL_VERDICT_redirected;
  unasked.fate = Fate::uplink;
  unasked.target = kUplink1;
  unasked.next_hop = a.pod_gateway;
  unasked.config.conntrack = false;
  t.cases.push_back(unasked);
}

void add_local_pods(Table& t) {
  const Addresses& a = t.a;
  t.add("another pod of this node", t.udp(a.other), PDL_VERDICT_to_pod, Fate::pod, kVethB);
  t.add("another pod of this node, TTL 1", from_pod() + std::vector<Layer>{Ip{a.pod, a.other, 1}, Udp{1, 2}},
        PDL_VERDICT_local_pod);
  t.add("a pod in netfilter mode", t.udp(a.netfilter), PDL_VERDICT_local_pod);
  t.add("a fragment for another pod",
        from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.other, .protocol = 47}, Raw{16}},
        PDL_VERDICT_stack_protocol);
  t.veth = kVethN;
  t.add("from a pod in netfilter mode", from_pod() + std::vector<Layer>{Ip{a.netfilter, a.outside}, Udp{1, 2}},
        PDL_VERDICT_stack_netfilter);
  t.add("from a pod in netfilter mode to a pod", from_pod() + std::vector<Layer>{Ip{a.netfilter, a.pod}, Udp{1, 2}},
        PDL_VERDICT_stack_netfilter);
  t.veth = kVethA;
}

void add_errors(Table& t) {
  const Addresses& a = t.a;
  t.redirected("an ICMP error", t.error(a.outside, {a.outside, a.pod}, 53, 1000), a.pod_gateway);
  t.add("an error that quotes a packet to somebody else", t.error(a.outside, {a.outside, a.other}, 53, 1000),
        PDL_VERDICT_malformed, Fate::drop);
  t.add("an error that quotes a packet of the pod's own", t.error(a.outside, {a.pod, a.outside}, 53, 1000),
        PDL_VERDICT_malformed, Fate::drop);
  t.add("an error with half a quote",
        from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, unreachable(a.pod.family()), Raw{12}},
        PDL_VERDICT_malformed, Fate::drop);
  t.add("an error about an exempt peer", t.error(a.outside, {a.exempt, a.pod}, 53, 1000), PDL_VERDICT_stack_exempt);
  t.add("an error about the node", t.error(a.outside, {a.node, a.pod}, 53, 1000), PDL_VERDICT_stack_node);
  t.add("an error to the node", t.error(a.node, {a.outside, a.pod}, 53, 1000), PDL_VERDICT_stack_node);
  t.add("an error to a group", t.error(a.multicast, {a.outside, a.pod}, 53, 1000), PDL_VERDICT_stack_multicast);
  t.redirected("an error to an exempt address about a peer that is not",
               t.error(a.exempt, {a.outside, a.pod}, 53, 1000), a.pod_gateway);
  t.add("an error about a NATed flow", t.error(a.nat_backend, {a.nat_backend, a.pod}, backend_port, nat_port),
        PDL_VERDICT_stack_nat);
  t.redirected("an error about a flow without NAT",
               t.error(a.nat_backend, {a.nat_backend, a.pod}, backend_port, plain_port), a.pod_gateway);
  t.add("an error about GRE",
        from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, unreachable(a.pod.family()),
                                        Ip{.src = a.outside, .dst = a.pod, .protocol = 47}, Raw{16}},
        PDL_VERDICT_stack_protocol);
  t.add("an error that quotes no whole transport header",
        from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, unreachable(a.pod.family()),
                                        Ip{.src = a.outside, .dst = a.pod, .protocol = 17}, Raw{4}},
        PDL_VERDICT_stack_protocol);
  if (a.pod.is_v4()) {
    t.add("an error about a fragment",
          t.error(a.outside, {.src = a.outside, .dst = a.pod, .more_fragments = true}, 53, 1000),
          PDL_VERDICT_stack_fragment);
    t.add("an error about a packet with options",
          t.error(a.outside, {.src = a.outside, .dst = a.pod, .option_words = 1}, 53, 1000), PDL_VERDICT_stack_options);
  } else {
    t.add("an error about a fragment",
          from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, unreachable(Family::v6), Ip{a.outside, a.pod},
                                          Fragment{0, true}, Udp{1, 2}, Raw{8}},
          PDL_VERDICT_stack_fragment);
    t.redirected("an error about a packet with an extension header",
                 from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, unreachable(Family::v6), Ip{a.outside, a.pod},
                                                 Extension{60, 16}, Udp{1, 2}, Raw{8}},
                 a.pod_gateway);
    t.add("an error whose quoted extension header is cut off",
          from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, unreachable(Family::v6),
                                          Ip{.src = a.outside, .dst = a.pod, .protocol = 60}, Raw{4}},
          PDL_VERDICT_stack_protocol);
  }
}

}  // namespace

std::vector<Case> pod_egress_cases(Family family) {
  Table t(family);
  add_next_hops(t);
  add_homes(t);
  add_sizes(t);
  add_peers(t);
  add_packets(t);
  add_flows(t);
  add_local_pods(t);
  add_errors(t);
  return t.cases;
}

}  // namespace poduplink::tests
