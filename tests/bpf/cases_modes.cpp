// SPDX-License-Identifier: Apache-2.0
// All three programs, with a pod in netfilter mode where the other tables have one in fast mode, and with the node
// itself where they have a pod: what does not depend on the mode must not.
#include "tests/bpf/cases.h"

namespace poduplink::tests {
namespace {

std::vector<Layer> udp(const IpAddress& src, const IpAddress& dst) { return {Ip{src, dst}, Udp{1000, 53}, Raw{20}}; }

class Table {
 public:
  explicit Table(Family family) : a(addresses(family)), pod(a.netfilter), family_(family) {}

  void out(const std::string& name, const std::vector<Layer>& layers, pdl_verdict verdict, Fate fate = Fate::stack) {
    add(name, {.program = Program::pod_egress, .ifindex = kVethN, .frame = from_pod() + layers}, verdict, fate);
  }
  void in(const std::string& name, const std::vector<Layer>& layers, pdl_verdict verdict, Fate fate = Fate::stack,
          unsigned uplink = kUplink1) {
    add(name, {.program = Program::uplink_ingress, .ifindex = uplink, .frame = to_uplink(uplink) + layers}, verdict,
        fate);
  }
  void late(const std::string& name, const std::vector<Layer>& layers, pdl_verdict verdict, Fate fate = Fate::stack) {
    add(name,
        {.program = Program::uplink_egress,
         .ifindex = kUplink2,
         .frame = on_wire() + layers,
         .ingress_ifindex = kVethN},
        verdict, fate);
  }
  void add(const std::string& name, const Input& input, pdl_verdict verdict, Fate fate = Fate::stack) {
    cases.push_back(
        {.name = named(family_, name + ", netfilter mode or node"), .input = input, .verdict = verdict, .fate = fate});
  }

  [[nodiscard]] std::vector<Layer> error(const IpAddress& src, const IpAddress& dst, const Ip& quoted) const {
    return {Ip{src, dst}, unreachable(family_), quoted, Udp{1, 2}, Raw{8}};
  }

  const Addresses& a;
  const IpAddress& pod;
  std::vector<Case> cases;

 private:
  Family family_;
};

void add_out(Table& t) {
  const Addresses& a = t.a;
  const bool v4 = t.pod.is_v4();
  t.out("an error that quotes a packet to somebody else", t.error(t.pod, a.outside, {a.outside, a.other}),
        PDL_VERDICT_malformed, Fate::drop);
  t.out("a router message", {Ip{t.pod, a.outside}, Icmp{.type = static_cast<std::uint8_t>(v4 ? 9 : 134)}, Raw{16}},
        PDL_VERDICT_spoofed, Fate::drop);
  t.out("to the node", udp(t.pod, a.node), PDL_VERDICT_stack_node);
  t.out("to link-local", udp(t.pod, a.link_local), PDL_VERDICT_stack_link_local);
  t.out("to a group", udp(t.pod, a.multicast), PDL_VERDICT_stack_multicast);
  t.add("to the broadcast MAC",
        {.program = Program::pod_egress,
         .ifindex = kVethN,
         .frame = Ethernet{pod_mac(kVethN), mac("ff:ff:ff:ff:ff:ff")} + udp(t.pod, a.outside)},
        PDL_VERDICT_stack_broadcast);
  if (!v4) {
    t.out("a link-local source to the node's link-local address", udp(ip("fe80::5"), link_local_node()),
          PDL_VERDICT_stack_node);
  }
}

void add_in(Table& t) {
  const Addresses& a = t.a;
  t.in("an error about a packet of somebody else", t.error(a.outside, t.pod, {a.other, a.outside}),
       PDL_VERDICT_in_malformed, Fate::drop);
  t.in("from the node's own address", udp(a.node, t.pod), PDL_VERDICT_martian, Fate::drop);
  t.in("on another uplink that is strict", udp(a.outside, t.pod), PDL_VERDICT_in_strict, Fate::drop, kStrict);
  t.in("from a pod of this node", udp(a.other, t.pod), PDL_VERDICT_in_from_pod);
  t.in("an error about a packet to the node", t.error(a.outside, t.pod, {t.pod, a.node}), PDL_VERDICT_in_stack_node);
  t.in("an error about a packet to a group", t.error(a.outside, t.pod, {t.pod, a.multicast}),
       PDL_VERDICT_in_stack_multicast);
  t.in("from link-local", udp(a.link_local, t.pod), PDL_VERDICT_in_stack_link_local);
  t.in("from an exempt prefix", udp(a.exempt, t.pod), PDL_VERDICT_in_stack_exempt);
  if (t.pod.is_v4()) {
    t.in("from the subnet's broadcast", udp(ip("10.1.255.255"), t.pod), PDL_VERDICT_in_stack_broadcast);
  } else {
    t.in("an extension header beyond the end",
         {Ip{a.outside, t.pod}, Extension{.type = 60, .size = 8, .length = 9}, Udp{1, 2}}, PDL_VERDICT_in_not_ip);
  }
}

void add_late(Table& t) {
  const Addresses& a = t.a;
  t.late("to an exempt address", udp(t.pod, a.exempt), PDL_VERDICT_late_passed);
  t.late("home down", udp(a.netfilter_down, a.outside), PDL_VERDICT_late_uplink_down, Fate::drop);
  t.late("home down, whenDown stack", udp(a.netfilter_down_stack, a.outside), PDL_VERDICT_late_uplink_down_stack);
  t.late("the node's uplink is down", udp(a.down_node, a.outside), PDL_VERDICT_late_uplink_down, Fate::drop);
  t.late("the node's uplink is down, whenDown stack", udp(a.down_stack_node, a.outside),
         PDL_VERDICT_late_uplink_down_stack);
  t.late("too big", {Ip{.src = t.pod, .dst = a.outside, .dont_fragment = true}, Udp{1, 2}, Raw{uplink_mtu}},
         PDL_VERDICT_late_too_big, Fate::host);
  Case& big = t.cases.back();
  big.target = kUplink1;
  big.answer = too_big_answer({host_mac(), device_mac(kUplink1)}, a.outside, big.input.frame);
}

}  // namespace

std::vector<Case> mode_cases(Family family) {
  Table t(family);
  add_out(t);
  add_in(t);
  add_late(t);
  return t.cases;
}

}  // namespace poduplink::tests
