// SPDX-License-Identifier: Apache-2.0
// pod_egress: frames that are no IP, malformed headers, neighbour questions, and who may send what.
#include "tests/bpf/cases.h"

namespace poduplink::tests {
namespace {

Case simple(const std::string& name, const Octets& frame, pdl_verdict verdict, Fate fate = Fate::stack) {
  return {.name = name,
          .input = {.program = Program::pod_egress, .ifindex = kVethA, .frame = frame},
          .verdict = verdict,
          .fate = fate};
}

Case answered(const std::string& name, const Octets& frame, const Octets& answer) {
  Case made = simple(name, frame, PDL_VERDICT_neighbour, Fate::answer);
  made.target = kVethA;
  made.answer = answer;
  return made;
}

const MacAddress everyone = mac("ff:ff:ff:ff:ff:ff");
const IpAddress gateway6 = ip("fe80::1");

void add_arp(std::vector<Case>& cases) {
  const IpAddress pod = addresses(Family::v4).pod;
  const Ethernet ask{pod_mac(kVethA), everyone};
  const auto arp = [&](std::uint16_t operation, const IpAddress& sender, const IpAddress& target) {
    return ask + std::vector<Layer>{Arp{operation, pod_mac(kVethA), sender, {}, target}};
  };
  const auto reply = [&](const IpAddress& to) {
    return Ethernet{host_mac(), pod_mac(kVethA)} +
           std::vector<Layer>{Arp{2, host_mac(), ip("169.254.1.1"), pod_mac(kVethA), to}};
  };
  cases.push_back(answered("ARP for the gateway", arp(1, pod, ip("169.254.1.1")), reply(pod)));
  cases.push_back(
      answered("ARP probe for the gateway", arp(1, ip("0.0.0.0"), ip("169.254.1.1")), reply(ip("0.0.0.0"))));
  cases.push_back(simple("ARP for another address", arp(1, pod, ip("169.254.1.2")), PDL_VERDICT_not_ip));
  cases.push_back(
      simple("ARP that announces the gateway", arp(1, ip("169.254.1.1"), ip("169.254.1.1")), PDL_VERDICT_not_ip));
  cases.push_back(simple("ARP reply", arp(2, pod, ip("169.254.1.1")), PDL_VERDICT_not_ip));
  cases.push_back(simple("ARP cut short", ask + std::vector<Layer>{Raw{Octets(20)}}, PDL_VERDICT_not_ip));
  cases.back().input.frame.at(12) = 0x08;
  cases.back().input.frame.at(13) = 0x06;
}

Octets advertisement(const IpAddress& to, const MacAddress& to_mac, std::uint32_t flags) {
  Octets body(gateway6.octets().begin(), gateway6.octets().end());
  body.insert(body.end(), {2, 1});
  const MacAddress own = host_mac();
  body.insert(body.end(), own.octets().begin(), own.octets().end());
  return Ethernet{host_mac(), to_mac} +
         std::vector<Layer>{Ip{gateway6, to, 255}, Icmp{.type = 136, .rest = flags}, Raw{body}};
}

void add_solicitations(std::vector<Case>& cases) {
  const IpAddress pod = addresses(Family::v6).pod;
  const MacAddress own = pod_mac(kVethA);
  const Ethernet ask{own, mac("33:33:ff:00:00:01")};
  const IpAddress group = ip("ff02::1:ff00:1");
  const auto question = [&](const Ip& header, const IpAddress& target, const std::optional<MacAddress>& sender) {
    std::vector<Layer> layers = solicitation(target, sender);
    layers.insert(layers.begin(), header);
    return ask + layers;
  };
  cases.push_back(answered("solicitation for the gateway", question({pod, group, 255}, gateway6, own),
                           advertisement(pod, own, 0xe0000000)));
  cases.push_back(answered("solicitation without an option", question({pod, group, 255}, gateway6, {}),
                           advertisement(pod, own, 0xe0000000)));
  cases.push_back(answered("unicast solicitation by a link-local address",
                           question({ip("fe80::5"), gateway6, 255}, gateway6, own),
                           advertisement(ip("fe80::5"), own, 0xe0000000)));
  cases.push_back(answered("duplicate detection of the gateway's address",
                           question({ip("::"), group, 255}, gateway6, {}),
                           advertisement(ip("ff02::1"), mac("33:33:00:00:00:01"), 0xa0000000)));
  cases.push_back(simple("solicitation from beyond a router", question({pod, group, 254}, gateway6, own),
                         PDL_VERDICT_stack_multicast));
  cases.push_back(simple("solicitation for another address",
                         question({pod, ip("ff02::1:ff00:2"), 255}, ip("fe80::2"), own), PDL_VERDICT_stack_multicast));
}

}  // namespace

std::vector<Case> pod_egress_frame_cases() {
  std::vector<Case> cases;
  const Addresses& a = addresses(Family::v4);
  const std::vector<Layer> udp{Ip{a.pod, a.outside}, Udp{1, 2}};
  cases.push_back(simple("no IP", from_pod() + std::vector<Layer>{Raw{50}}, PDL_VERDICT_not_ip));
  cases.push_back(simple("802.3 with a length", Ethernet{pod_mac(kVethA), host_mac(), 50} + std::vector<Layer>{Raw{50}},
                         PDL_VERDICT_not_ip));
  cases.push_back(
      simple("802.1Q in the frame", from_pod() + std::vector<Layer>{Vlan{5}, udp[0], udp[1]}, PDL_VERDICT_vlan));
  cases.push_back(simple("802.1ad in the frame", from_pod() + std::vector<Layer>{Vlan{5, 0x88a8}, udp[0], udp[1]},
                         PDL_VERDICT_vlan));
  add_arp(cases);
  add_solicitations(cases);
  return cases;
}

std::vector<Case> pod_egress_source_cases(Family family) {
  const Addresses& a = addresses(family);
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const std::vector<Layer>& layers, pdl_verdict verdict) {
    const bool dropped = verdict == PDL_VERDICT_spoofed || verdict == PDL_VERDICT_malformed;
    cases.push_back(simple(named(family, name), from_pod() + layers, verdict, dropped ? Fate::drop : Fate::stack));
  };
  const auto udp = [&](const IpAddress& src, const IpAddress& dst) {
    return std::vector<Layer>{Ip{src, dst}, Udp{1, 2}};
  };
  const std::uint16_t header = family == Family::v4 ? 20 : 0;

  add("version 5", {Ip{.src = a.pod, .dst = a.outside, .version = 5}, Udp{1, 2}}, PDL_VERDICT_malformed);
  add("longer than the frame",
      {Ip{.src = a.pod, .dst = a.outside, .length = static_cast<std::uint16_t>(header + 9)}, Udp{1, 2}},
      PDL_VERDICT_malformed);
  add("an outside source", udp(a.outside, a.nat_backend), PDL_VERDICT_spoofed);
  add("an outside source to an exempt address", udp(a.outside, a.exempt), PDL_VERDICT_spoofed);
  add("another pod's address", udp(a.other, a.outside), PDL_VERDICT_spoofed);
  add("the node's address", udp(a.node, a.outside), PDL_VERDICT_spoofed);
  add("a multicast source", udp(a.multicast, a.outside), PDL_VERDICT_spoofed);
  add("a link-local source to the outside", udp(a.link_local, a.outside), PDL_VERDICT_spoofed);
  add("the unspecified source to the outside", udp(a.unspecified, a.outside), PDL_VERDICT_spoofed);

  if (family == Family::v4) {
    const IpAddress all = ip("255.255.255.255");
    add("header length 4", {Ip{.src = a.pod, .dst = a.outside, .header_words = 4}, Udp{1, 2}}, PDL_VERDICT_malformed);
    add("total length below the header's", {Ip{.src = a.pod, .dst = a.outside, .length = 19}, Udp{1, 2}},
        PDL_VERDICT_malformed);
    add("header longer than the total length", {Ip{.src = a.pod, .dst = a.outside, .header_words = 15}, Udp{1, 2}},
        PDL_VERDICT_malformed);
    add("total length 0", {Ip{.src = a.pod, .dst = a.outside, .length = 0}, Udp{1, 2}}, PDL_VERDICT_malformed);
    add("DHCP", {Ip{a.unspecified, all}, Udp{68, 67}}, PDL_VERDICT_stack_broadcast);
    add("DHCP to one address", {Ip{a.unspecified, a.outside}, Udp{68, 67}}, PDL_VERDICT_spoofed);
    add("0.0.0.0 and no DHCP", {Ip{a.unspecified, all}, Udp{1068, 67}}, PDL_VERDICT_spoofed);
    add("0.0.0.0 and TCP", {Ip{a.unspecified, all}, Tcp{68, 67}}, PDL_VERDICT_spoofed);
    add("link-local to link-local", udp(a.link_local, ip("169.254.8.8")), PDL_VERDICT_spoofed);
    add("ICMP redirect", {Ip{a.pod, a.outside}, Icmp{.type = 5}, Ip{a.outside, a.pod}, Udp{1, 2}}, PDL_VERDICT_spoofed);
    add("router advertisement", {Ip{a.pod, a.multicast}, Icmp{.type = 9}}, PDL_VERDICT_spoofed);
    return cases;
  }
  const auto from_nobody = [&](std::uint8_t type, const IpAddress& dst) {
    return std::vector<Layer>{Ip{a.unspecified, dst, 255}, Icmp{.type = type}, Raw{16}};
  };
  add("duplicate detection", from_nobody(135, ip("ff02::1:ff00:5")), PDL_VERDICT_stack_multicast);
  add("router solicitation without an address", from_nobody(133, ip("ff02::2")), PDL_VERDICT_stack_multicast);
  add("MLD report without an address",
      {Ip{a.unspecified, ip("ff02::16"), 1}, Extension{0, 8}, Icmp{.type = 143}, Raw{20}}, PDL_VERDICT_stack_multicast);
  add("MLDv1 report without an address", from_nobody(131, ip("ff02::1:ff00:5")), PDL_VERDICT_stack_multicast);
  add("neighbour advertisement without an address", from_nobody(136, ip("ff02::1")), PDL_VERDICT_spoofed);
  add("echo without an address", from_nobody(128, ip("ff02::1")), PDL_VERDICT_spoofed);
  add("UDP without an address", udp(a.unspecified, a.multicast), PDL_VERDICT_spoofed);
  add("duplicate detection to one address", from_nobody(135, a.outside), PDL_VERDICT_spoofed);
  add("link-local to a group", udp(ip("fe80::5"), a.multicast), PDL_VERDICT_stack_multicast);
  add("link-local to link-local", udp(ip("fe80::5"), a.link_local), PDL_VERDICT_stack_link_local);
  add("link-local to another pod", udp(ip("fe80::5"), a.other), PDL_VERDICT_spoofed);
  add("router advertisement", {Ip{ip("fe80::5"), ip("ff02::1"), 255}, Icmp{.type = 134}, Raw{8}}, PDL_VERDICT_spoofed);
  add("router advertisement behind an extension header",
      {Ip{ip("fe80::5"), ip("ff02::1"), 255}, Extension{60, 8}, Icmp{.type = 134}, Raw{8}}, PDL_VERDICT_spoofed);
  add("redirect", {Ip{a.pod, a.link_local, 255}, Icmp{.type = 137}, Raw{32}}, PDL_VERDICT_spoofed);
  return cases;
}

}  // namespace poduplink::tests
