// SPDX-License-Identifier: Apache-2.0
// uplink_egress: what the stack sends out of an uplink.
#include "tests/bpf/cases.h"

namespace poduplink::tests {
namespace {

class Table {
 public:
  explicit Table(Family family) : a(addresses(family)), family_(family) {}

  void add(const std::string& name, const std::vector<Layer>& layers, pdl_verdict verdict, Fate fate = Fate::stack) {
    cases.push_back({.name = named(family_, name),
                     .input = {.program = Program::uplink_egress,
                               .ifindex = uplink,
                               .frame = on_wire() + layers,
                               .ingress_ifindex = ingress},
                     .verdict = verdict,
                     .fate = fate,
                     .routed = false});
  }
  void steered(const std::string& name, const std::vector<Layer>& layers, const IpAddress& next_hop,
               pdl_verdict verdict = PDL_VERDICT_late_redirected) {
    add(name, layers, verdict, Fate::uplink);
    cases.back().target = kUplink1;
    cases.back().next_hop = next_hop;
  }
  void told(const std::string& name, const std::vector<Layer>& layers, unsigned gso_size = 0) {
    add(name, layers, PDL_VERDICT_late_too_big, Fate::host);
    Case& last = cases.back();
    last.target = kUplink1;
    last.input.gso_size = gso_size;
    last.answer = too_big_answer({host_mac(), device_mac(kUplink1)}, dst_of(last.input.frame), last.input.frame);
  }
  [[nodiscard]] std::vector<Layer> udp(const IpAddress& src, const IpAddress& dst) const {
    return {Ip{src, dst}, Udp{1000, 53}, Raw{20}};
  }

  const Addresses& a;
  unsigned uplink = kUplink2;
  unsigned ingress = kVethA;
  std::vector<Case> cases;

 private:
  Family family_;
};

void add_pods(Table& t) {
  const Addresses& a = t.a;
  t.steered("a pod's packet on another uplink", t.udp(a.pod, a.outside), a.pod_gateway);
  t.steered("of a pod in netfilter mode", t.udp(a.netfilter, a.outside), a.pod_gateway);
  t.steered("into the pod's subnet", t.udp(a.pod, a.on_link), a.on_link);
  t.steered("GRE", {Ip{.src = a.pod, .dst = a.outside, .protocol = 47}, Raw{30}}, a.pod_gateway);
  t.steered("with TTL 1, which the stack has counted down", {Ip{a.pod, a.outside, 1}, Udp{1, 2}}, a.pod_gateway);
  t.steered("an ICMP error to the outside",
            {Ip{a.pod, a.outside}, unreachable(a.pod.family()), Ip{a.exempt, a.pod}, Udp{1, 2}, Raw{8}}, a.pod_gateway);
  if (a.pod.is_v4()) {
    t.steered("a later fragment", {Ip{.src = a.pod, .dst = a.outside, .fragment_offset = 800, .protocol = 17}, Raw{30}},
              a.pod_gateway);
    t.steered("options", {Ip{.src = a.pod, .dst = a.outside, .option_words = 1}, Udp{1, 2}}, a.pod_gateway);
    t.steered("to a link-local address that the home claims", t.udp(a.pod, ip("169.254.169.254")), a.pod_gateway);
    t.steered("by an IPv6 next hop", t.udp(rfc5549_pod(), a.outside), ip("fe80::1"));
  } else {
    t.steered("a later fragment", {Ip{a.pod, a.outside}, Fragment{800, false}, Raw{30}}, a.pod_gateway);
    t.steered("a broken extension header",
              {Ip{a.pod, a.outside}, Extension{.type = 60, .size = 8, .length = 9}, Raw{8}}, a.pod_gateway);
  }
  t.uplink = kTransit;
  t.steered("on a transit device", t.udp(a.pod, a.outside), a.pod_gateway);
  t.uplink = kUplink2;
  // A frame that the stack addressed to a group's MAC must be steered all the same.
  t.steered("to a group's MAC", t.udp(a.pod, a.outside), a.pod_gateway);
  t.cases.back().input.frame.at(0) = 0x03;
  t.steered("the gateway does not answer", t.udp(a.silent, a.outside), a.pod_gateway, PDL_VERDICT_late_gateway_silent);
  t.steered("the same in netfilter mode", t.udp(a.netfilter_silent, a.outside), a.pod_gateway,
            PDL_VERDICT_late_gateway_silent);
  t.steered("past a gateway that does not answer", t.udp(a.silent, a.on_link), a.on_link);

  t.add("home down", t.udp(a.down, a.outside), PDL_VERDICT_late_uplink_down, Fate::drop);
  t.add("no home", t.udp(a.homeless, a.outside), PDL_VERDICT_late_uplink_down, Fate::drop);
  t.add("home is not in the map", t.udp(a.absent, a.outside), PDL_VERDICT_late_uplink_down, Fate::drop);
  t.add("home down, whenDown stack", t.udp(a.down_stack, a.outside), PDL_VERDICT_late_uplink_down_stack);
}

void add_sizes(Table& t) {
  const Addresses& a = t.a;
  const std::size_t headers = a.pod.is_v4() ? 28 : 48;
  const auto sized = [&](std::size_t size, bool dont_fragment) {
    return std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .dont_fragment = dont_fragment}, Udp{1, 2},
                              Raw{size - headers}};
  };
  t.steered("exactly the MTU", sized(uplink_mtu, true), a.pod_gateway);
  t.told("one octet more", sized(uplink_mtu + 1, true));
  t.told("many octets more", sized(3500, true));
  t.steered("segments of the MTU", sized(3000, true), a.pod_gateway);
  t.cases.back().input.gso_size = static_cast<unsigned>(uplink_mtu - headers);
  t.told("segments one octet larger", sized(3000, true), static_cast<unsigned>(uplink_mtu - headers + 1));
  t.steered("SCTP, whose segments have sizes of their own",
            {Ip{.src = a.pod, .dst = a.outside, .protocol = 132}, Raw{3000}}, a.pod_gateway);
  t.cases.back().input.gso_size = 0xffff;
}

void add_too_big(Table& t) {
  const Addresses& a = t.a;
  const Ip ip{.src = a.pod, .dst = a.outside, .dont_fragment = true};
  t.told("any protocol", {Ip{.src = a.pod, .dst = a.outside, .dont_fragment = true, .protocol = 47}, Raw{1600}});
  t.told("the node's packet", {Ip{.src = a.node, .dst = a.outside, .dont_fragment = true}, Udp{1, 2}, Raw{1600}});
  t.add("an ICMP error", {ip, unreachable(a.pod.family()), Ip{a.outside, a.pod}, Udp{1, 2}, Raw{1600}},
        PDL_VERDICT_late_too_big, Fate::drop);
  if (a.pod.is_v4()) {
    t.told("options",
           {Ip{.src = a.pod, .dst = a.outside, .dont_fragment = true, .option_words = 10}, Udp{1, 2}, Raw{1600}});
    t.add("without DF", {Ip{a.pod, a.outside}, Udp{1, 2}, Raw{1600}}, PDL_VERDICT_late_too_big, Fate::drop);
    t.add(
        "a later fragment",
        {Ip{.src = a.pod, .dst = a.outside, .dont_fragment = true, .fragment_offset = 800, .protocol = 17}, Raw{1600}},
        PDL_VERDICT_late_too_big, Fate::drop);
    return;
  }
  t.told("a first fragment", {ip, Fragment{0, true}, Udp{1, 2}, Raw{1600}});
  t.told("extension headers", {ip, Extension{.size = 40}, Extension{.type = 43, .size = 24}, Udp{1, 2}, Raw{1600}});
  const auto dropped = [&](const std::string& name, const std::vector<Layer>& layers) {
    t.add(name, layers, PDL_VERDICT_late_too_big, Fate::drop);
  };
  dropped("a later fragment", {ip, Fragment{800, false}, Raw{1600}});
  dropped("a broken extension header", {ip, Extension{.size = 8, .length = 255}, Raw{1600}});
  dropped("more extension headers than are kept", {ip, Extension{.size = 80}, Udp{1, 2}, Raw{1600}});
  std::vector<Layer> nine{ip};
  nine.insert(nine.end(), 9, Extension{});
  nine.emplace_back(Raw{1600});
  dropped("nine extension headers", nine);
}

void add_passed(Table& t) {
  const Addresses& a = t.a;
  const auto passed = [&](const std::string& name, const std::vector<Layer>& layers) {
    t.add(name, layers, PDL_VERDICT_late_passed);
  };
  passed("to an exempt address", t.udp(a.pod, a.exempt));
  passed("to link-local", t.udp(a.pod, a.link_local));
  passed("to a group", t.udp(a.pod, a.multicast));
  passed("to the node", t.udp(a.pod, a.node));
  passed("to a pod of this node", t.udp(a.pod, a.other));
  passed("from nobody we know", t.udp(a.outside, a.nat_backend));
  passed("version 5", {Ip{.src = a.pod, .dst = a.outside, .version = 5}, Udp{1, 2}});
  passed("in 802.1Q", {Vlan{5}, Ip{a.pod, a.outside}, Udp{1, 2}});
  passed("no IP", {Raw{50}});
  if (a.pod.is_v4()) {
    passed("to the subnet's broadcast", t.udp(a.pod, ip("10.1.255.255")));
    passed("to limited broadcast", t.udp(a.pod, ip("255.255.255.255")));
  }
  t.uplink = kUplink1;
  passed("on the home itself", t.udp(a.pod, a.outside));
  t.uplink = kUplink2;
}

void add_nodes(Table& t) {
  const Addresses& a = t.a;
  t.steered("the node's address of another uplink, forwarded", t.udp(a.node, a.outside), a.pod_gateway,
            PDL_VERDICT_late_node);
  t.steered("the same into its subnet", t.udp(a.node, a.on_link), a.on_link, PDL_VERDICT_late_node);
  t.add("the node's address of a device that is no uplink", t.udp(a.docker_node, a.outside), PDL_VERDICT_late_passed);
  t.add("the node's address without a gateway", t.udp(a.plain_node, a.outside), PDL_VERDICT_late_passed);
  t.add("the node's address of this uplink", t.udp(a.other_node, a.outside), PDL_VERDICT_late_passed);
  t.add("the node's address to an exempt one", t.udp(a.node, a.exempt), PDL_VERDICT_late_passed);
  t.add("the node's address to a pod", t.udp(a.node, a.other), PDL_VERDICT_late_passed);
  if (a.pod.is_v4())
    t.add("the node's address to its broadcast", t.udp(a.node, ip("10.1.255.255")), PDL_VERDICT_late_passed);
  t.ingress = 0;
  t.add("made by the node itself", t.udp(a.node, a.outside), PDL_VERDICT_late_passed);
  t.steered("made by the node itself, with steerNode", t.udp(a.node, a.outside), a.pod_gateway, PDL_VERDICT_late_node);
  t.cases.back().config.steer_node = true;
  t.ingress = kVethA;
}

}  // namespace

std::vector<Case> uplink_egress_cases(Family family) {
  Table t(family);
  add_pods(t);
  add_sizes(t);
  add_too_big(t);
  add_passed(t);
  add_nodes(t);
  return t.cases;
}

}  // namespace poduplink::tests
