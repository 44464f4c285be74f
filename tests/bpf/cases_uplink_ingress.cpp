// SPDX-License-Identifier: Apache-2.0
// uplink_ingress: what arrives on an uplink.
#include "tests/bpf/cases.h"

namespace poduplink::tests {
namespace {

Case simple(const std::string& name, unsigned uplink, const Octets& frame, pdl_verdict verdict,
            Fate fate = Fate::stack) {
  return {.name = name,
          .input = {.program = Program::uplink_ingress, .ifindex = uplink, .frame = frame},
          .verdict = verdict,
          .fate = fate};
}

class Table {
 public:
  explicit Table(Family family) : a(addresses(family)), family_(family) {}

  void add(const std::string& name, const std::vector<Layer>& layers, pdl_verdict verdict, Fate fate = Fate::stack) {
    cases.push_back(simple(named(family_, name), uplink, to_uplink(uplink) + layers, verdict, fate));
  }
  void delivered(const std::string& name, const std::vector<Layer>& layers,
                 pdl_verdict verdict = PDL_VERDICT_in_redirected, unsigned veth = kVethA) {
    add(name, layers, verdict, Fate::pod);
    cases.back().target = veth;
  }
  [[nodiscard]] std::vector<Layer> udp(const IpAddress& src) const { return {Ip{src, a.pod}, Udp{53, 1000}, Raw{20}}; }
  // An error by a router on the way about a UDP packet of the pod.
  [[nodiscard]] std::vector<Layer> error(const Ip& quoted, std::uint16_t sport, std::uint16_t dport) const {
    return {Ip{a.outside, a.pod}, unreachable(family_), quoted, Udp{sport, dport}, Raw{8}};
  }

  const Addresses& a;
  unsigned uplink = kUplink1;
  std::vector<Case> cases;

 private:
  Family family_;
};

void add_ways(Table& t) {
  const Addresses& a = t.a;
  t.delivered("UDP for a pod", t.udp(a.outside));
  t.delivered("TCP for a pod", {Ip{a.outside, a.pod}, Tcp{80, 1000}, Raw{100}});
  t.delivered("TTL 2 arrives with 1", {Ip{a.outside, a.pod, 2}, Udp{1, 2}});
  t.delivered("from the pod's own subnet", t.udp(a.on_link));
  t.add("TTL 1", {Ip{a.outside, a.pod, 1}, Udp{1, 2}}, PDL_VERDICT_in_ttl);
  t.add("for no pod", {Ip{a.outside, a.node}, Udp{1, 2}}, PDL_VERDICT_in_no_pod);
  t.add("from link-local", t.udp(a.link_local), PDL_VERDICT_in_stack_link_local);
  t.add("from an exempt prefix", t.udp(a.exempt), PDL_VERDICT_in_stack_exempt);
  t.add("for a pod in netfilter mode", {Ip{a.outside, a.netfilter}, Udp{1, 2}}, PDL_VERDICT_in_stack_netfilter);
  t.add("GRE", {Ip{.src = a.outside, .dst = a.pod, .protocol = 47}, Raw{16}}, PDL_VERDICT_in_stack_protocol);
  t.add("an answer of a NATed flow", {Ip{a.nat_backend, a.pod}, Udp{backend_port, nat_port}}, PDL_VERDICT_in_stack_nat);
  t.delivered("an answer of a tracked flow without NAT", {Ip{a.nat_backend, a.pod}, Udp{backend_port, plain_port}});

  t.uplink = kUplink2;
  t.delivered("on another uplink than the home", t.udp(a.outside), PDL_VERDICT_in_other_uplink);
  t.delivered("another pod on its home", {Ip{a.outside, a.other}, Udp{1, 2}}, PDL_VERDICT_in_redirected, kVethB);
  t.uplink = kTransit;
  t.delivered("on a transit device", t.udp(a.outside), PDL_VERDICT_in_other_uplink);
  t.uplink = kStrict;
  t.add("on another uplink that is strict", t.udp(a.outside), PDL_VERDICT_in_strict, Fate::drop);
  t.add("what the stack would get, on another uplink that is strict", t.udp(a.exempt), PDL_VERDICT_in_strict,
        Fate::drop);
  t.uplink = kUplink1;
}

void add_martians(Table& t) {
  const Addresses& a = t.a;
  t.add("from the node's own address", t.udp(a.node), PDL_VERDICT_martian, Fate::drop);
  t.add("from loopback", t.udp(a.loopback), PDL_VERDICT_martian, Fate::drop);
  t.add("from a group", t.udp(a.multicast), PDL_VERDICT_martian, Fate::drop);
  if (a.pod.is_v4()) t.add("from the pod's gateway", t.udp(ip("169.254.1.1")), PDL_VERDICT_martian, Fate::drop);
  t.add("from nobody", t.udp(a.unspecified), PDL_VERDICT_martian, Fate::drop);
  t.add("from the pod itself", t.udp(a.pod), PDL_VERDICT_martian, Fate::drop);
  t.add("from a pod of this node", t.udp(a.other), PDL_VERDICT_in_from_pod);
  if (a.pod.is_v4()) t.add("from everybody", t.udp(ip("255.255.255.255")), PDL_VERDICT_martian, Fate::drop);
}

void add_packets(Table& t) {
  const Addresses& a = t.a;
  t.add("version 5", {Ip{.src = a.outside, .dst = a.pod, .version = 5}, Udp{1, 2}}, PDL_VERDICT_in_not_ip);
  if (a.pod.is_v4()) {
    t.add("a fragment", {Ip{.src = a.outside, .dst = a.pod, .more_fragments = true}, Udp{1, 2}},
          PDL_VERDICT_in_stack_fragment);
    t.add("options", {Ip{.src = a.outside, .dst = a.pod, .option_words = 1}, Udp{1, 2}}, PDL_VERDICT_in_stack_options);
    t.add("from the subnet's broadcast", t.udp(ip("10.1.255.255")), PDL_VERDICT_in_stack_broadcast);
    t.delivered("from a link-local address that the home claims", t.udp(ip("169.254.169.254")));
    return;
  }
  t.add("a fragment", {Ip{a.outside, a.pod}, Fragment{0, true}, Udp{1, 2}}, PDL_VERDICT_in_stack_fragment);
  t.add("a routing header", {Ip{a.outside, a.pod}, Extension{43, 8}, Udp{1, 2}}, PDL_VERDICT_in_stack_options);
  t.delivered("an extension header", {Ip{a.outside, a.pod}, Extension{60, 8}, Udp{1, 2}});
  t.add("an extension header beyond the end",
        {Ip{a.outside, a.pod}, Extension{.type = 60, .size = 8, .length = 9}, Udp{1, 2}}, PDL_VERDICT_in_not_ip);
}

void add_errors(Table& t) {
  const Addresses& a = t.a;
  t.delivered("an ICMP error about a packet of the pod", t.error({a.pod, a.nat_backend}, 1000, 53));
  t.add("an error about a packet of somebody else", t.error({a.other, a.outside}, 1000, 53), PDL_VERDICT_in_malformed,
        Fate::drop);
  t.add("an error about a packet to the pod", t.error({a.outside, a.pod}, 1000, 53), PDL_VERDICT_in_malformed,
        Fate::drop);
  t.add("an error with half a quote", {Ip{a.outside, a.pod}, unreachable(a.pod.family()), Raw{12}},
        PDL_VERDICT_in_malformed, Fate::drop);
  t.add("an error about a packet to the node", t.error({a.pod, a.node}, 1000, 53), PDL_VERDICT_in_stack_node);
  t.add("an error about a packet to a group", t.error({a.pod, a.multicast}, 1000, 53), PDL_VERDICT_in_stack_multicast);
  t.add("an error about a packet to an exempt address", t.error({a.pod, a.exempt}, 1000, 53),
        PDL_VERDICT_in_stack_exempt);
  t.add("an error about a NATed flow", t.error({a.pod, a.nat_backend}, nat_port, backend_port),
        PDL_VERDICT_in_stack_nat);
  t.delivered("an error by a link-local or exempt router counts by its quote",
              {Ip{a.exempt, a.pod}, unreachable(a.pod.family()), Ip{a.pod, a.outside}, Udp{1000, 53}, Raw{8}});
}

void add_link_layer(Table& t) {
  const Addresses& a = t.a;
  for (const auto& [name, to] : {std::pair{"to another MAC", mac("02:dd:00:00:00:01")},
                                 std::pair{"to the broadcast MAC", mac("ff:ff:ff:ff:ff:ff")},
                                 std::pair{"to a group's MAC", mac("01:00:5e:00:00:01")}}) {
    t.cases.push_back(simple(named(a.pod.family(), name), kUplink1, Ethernet{router_mac(), to} + t.udp(a.outside),
                             PDL_VERDICT_in_foreign_mac));
  }
}

void add_arp(std::vector<Case>& cases) {
  const Addresses& a = addresses(Family::v4);
  const auto arp = [&](std::uint16_t operation, const IpAddress& sender, const IpAddress& target,
                       const MacAddress& to) {
    return Ethernet{router_mac(), to} + std::vector<Layer>{Arp{operation, router_mac(), sender, {}, target}, Raw{18}};
  };
  const MacAddress all = mac("ff:ff:ff:ff:ff:ff");
  const auto answered = [&](const std::string& name, const Octets& frame, const IpAddress& asker) {
    Case made = simple(name, kUplink1, frame, PDL_VERDICT_in_neighbour, Fate::answer);
    made.target = kUplink1;
    made.answer = Ethernet{device_mac(kUplink1), router_mac()} +
                  std::vector<Layer>{Arp{2, device_mac(kUplink1), a.pod, router_mac(), asker}, Raw{18}};
    cases.push_back(made);
  };
  answered("ARP for a pod", arp(1, a.pod_gateway, a.pod, all), a.pod_gateway);
  answered("ARP probe for a pod", arp(1, a.unspecified, a.pod, all), a.unspecified);
  answered("unicast ARP for a pod", arp(1, a.pod_gateway, a.pod, device_mac(kUplink1)), a.pod_gateway);
  cases.push_back(simple("gratuitous ARP", kUplink1, arp(1, a.pod, a.pod, all), PDL_VERDICT_in_not_ip));
  cases.push_back(simple("ARP reply", kUplink1, arp(2, a.pod_gateway, a.pod, all), PDL_VERDICT_in_not_ip));
  cases.push_back(simple("ARP for no pod", kUplink1, arp(1, a.pod_gateway, a.on_link, all), PDL_VERDICT_in_not_ip));
  cases.push_back(
      simple("ARP for a pod of another home", kUplink1, arp(1, a.pod_gateway, a.other, all), PDL_VERDICT_in_not_ip));
  cases.push_back(simple("ARP where the uplink answers none", kUplink2, arp(1, a.other_gateway, a.other, all),
                         PDL_VERDICT_in_not_ip));
  cases.push_back(
      simple("ARP on a transit device", kTransit, arp(1, a.pod_gateway, a.on_transit, all), PDL_VERDICT_in_not_ip));
}

void add_solicitations(std::vector<Case>& cases) {
  const Addresses& a = addresses(Family::v6);
  const MacAddress own = device_mac(kUplink1);
  const auto question = [&](const IpAddress& src, const IpAddress& dst, const MacAddress& to, const IpAddress& target,
                            std::uint8_t hop_limit = 255) {
    std::vector<Layer> layers = solicitation(target, src.is_unspecified() ? std::nullopt : std::optional{router_mac()});
    layers.insert(layers.begin(), Ip{src, dst, hop_limit});
    return Ethernet{router_mac(), to} + layers;
  };
  const auto answered = [&](const std::string& name, const Octets& frame, const IpAddress& to, const MacAddress& to_mac,
                            std::uint32_t flags) {
    Octets body(a.pod.octets().begin(), a.pod.octets().end());
    body.insert(body.end(), {2, 1});
    body.insert(body.end(), own.octets().begin(), own.octets().end());
    Case made = simple(name, kUplink1, frame, PDL_VERDICT_in_neighbour, Fate::answer);
    made.target = kUplink1;
    made.answer =
        Ethernet{own, to_mac} + std::vector<Layer>{Ip{a.pod, to, 255}, Icmp{.type = 136, .rest = flags}, Raw{body}};
    cases.push_back(made);
  };
  const IpAddress router = ip("fe80::1");
  const IpAddress group = ip("ff02::1:ff00:5");
  const MacAddress group_mac = mac("33:33:ff:00:00:05");
  answered("solicitation for a pod", question(router, group, group_mac, a.pod), router, router_mac(), 0x60000000);
  answered("unicast solicitation for a pod", question(router, a.pod, own, a.pod), router, router_mac(), 0x60000000);
  answered("duplicate detection of a pod's address", question(a.unspecified, group, group_mac, a.pod), ip("ff02::1"),
           mac("33:33:00:00:00:01"), 0x20000000);
  cases.push_back(simple("solicitation for no pod", kUplink1,
                         question(router, ip("ff02::1:ff07:7"), mac("33:33:ff:07:00:07"), a.on_link),
                         PDL_VERDICT_in_foreign_mac));
  cases.push_back(simple("solicitation for a pod of another home", kUplink1,
                         question(router, group, group_mac, a.other), PDL_VERDICT_in_foreign_mac));
  cases.push_back(simple("solicitation where the uplink answers none", kUplink2,
                         question(router, group, group_mac, a.other), PDL_VERDICT_in_foreign_mac));
  cases.push_back(simple("solicitation from beyond a router", kUplink1, question(router, group, group_mac, a.pod, 254),
                         PDL_VERDICT_in_foreign_mac));
}

}  // namespace

std::vector<Case> uplink_ingress_cases(Family family) {
  Table t(family);
  add_ways(t);
  add_martians(t);
  add_packets(t);
  add_errors(t);
  add_link_layer(t);
  return t.cases;
}

std::vector<Case> uplink_ingress_frame_cases() {
  std::vector<Case> cases;
  const Addresses& a = addresses(Family::v4);
  cases.push_back(
      simple("no IP on an uplink", kUplink1, to_uplink(kUplink1) + std::vector<Layer>{Raw{50}}, PDL_VERDICT_in_not_ip));
  cases.push_back(simple("no IP to another MAC", kUplink1,
                         Ethernet{router_mac(), mac("02:dd:00:00:00:01")} + std::vector<Layer>{Raw{50}},
                         PDL_VERDICT_in_foreign_mac));
  cases.push_back(simple("802.1Q on an uplink", kUplink1,
                         to_uplink(kUplink1) + std::vector<Layer>{Vlan{5}, Ip{a.outside, a.pod}, Udp{1, 2}},
                         PDL_VERDICT_in_vlan));
  add_arp(cases);
  add_solicitations(cases);
  return cases;
}

}  // namespace poduplink::tests
