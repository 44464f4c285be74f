// SPDX-License-Identifier: Apache-2.0
// A hostile pod and a hostile sender outside: whatever they forge, nobody else's packets go another way. The one known
// exception, a direct flow and a NATed one of the very same tuple, is shown as it is.
#include <algorithm>
#include <iterator>

#include <thread>

#include "tests/e2e/steps.h"
#include "tests/harness/conversation.h"
#include "tests/harness/event_reader.h"
#include "tests/harness/packet.h"

using namespace poduplink;
using namespace poduplink::harness;
using namespace poduplink::tests;
using Catch::Matchers::Equals;

namespace {

constexpr std::uint16_t victim_port = 5000;
constexpr std::uint8_t syn = 0x02;

// One pod's open connections to the outside by both transports, and all that another could wish to change.
struct Victim {
  Victim(const Lab& of, const Outside& watched, const Pod& its, Family its_family)
      : lab(&of),
        outside(&watched),
        pod(&its),
        family(its_family),
        self(address_of(its, its_family)),
        datagrams(value_of(Conversation::udp(*its.space, {self, victim_port}))),
        stream(value_of(Conversation::tcp(*its.space, {.to = Outside::echo(family), .from = self}))),
        stream_port(value_of(stream.local()).port),
        paths(paths_now()) {
    value_of(datagrams.forbid_fragments());
    value_of(datagrams.connect(Outside::echo(family)));
    still_well();
  }

  [[nodiscard]] std::string paths_now() const {
    return value_of(pod->space->run_ok({"ip", "-4", "route", "show", "table", "all"})) +
           value_of(pod->space->run_ok({"ip", "-6", "route", "show", "table", "all"})) + redirects_now() +
           value_of(pod->space->run_ok({"ip", "neighbour", "show", "nud", "permanent"}));
  }

  // What the pod's kernel learned by ICMP, and is no route.
  [[nodiscard]] std::string redirects_now() const {
    const std::string cached = value_of(pod->space->run_ok({"ip", "route", "show", "cache"})) +
                               value_of(pod->space->run_ok({"ip", "-6", "route", "show", "cache"}));
    return cached.find("redirected") == std::string::npos ? "" : cached;
  }

  // Both connections go on, both ways direct, by the home, with the MTU they had.
  void still_well() const {
    const VerdictsSince verdicts(*lab);
    CHECK(value_of(datagrams.exchange("datagram")) == "datagram");
    CHECK(value_of(stream.exchange("stream")) == "stream");
    INFO(verdicts.text());
    CHECK(verdicts().redirected >= 2);
    CHECK(verdicts().in_redirected >= 2);
    CHECK(verdicts().stack_nat + verdicts().in_stack_nat == 0);
    CHECK(value_of(datagrams.path_mtu()) == 1500);
    CHECK(value_of(stream.path_mtu()) == 1500);
    CHECK_THAT(lines_of(outside->faults_from(self, lab->uplink(2))), Equals(""));
    CHECK(paths_now() == paths);
  }

  const Lab* lab;
  const Outside* outside;
  const Pod* pod;
  Family family;
  IpAddress self;
  Conversation datagrams;
  Conversation stream;
  std::uint16_t stream_port;
  std::string paths;
};

// "Packet too big" of either family.
Icmp too_big(Family family, std::uint32_t mtu) { return family == Family::v4 ? Icmp{3, 4, mtu} : Icmp{2, 0, mtu}; }

// What sends a packet to the stack: an IPv4 option, an IPv6 routing header. `ip` and what follows it.
std::vector<Layer> with_options(Ip ip, const Layer& transport) {
  if (ip.src.is_v6()) return {ip, Extension{43}, transport};
  ip.option_words = 1;
  return {ip, transport};
}

std::vector<Layer> in_first_fragment(Ip ip, const Layer& transport) {
  if (ip.src.is_v6()) return {ip, Fragment{.offset = 0, .more = true}, transport, Raw(64)};
  ip.more_fragments = true;
  return {ip, transport, Raw(64)};
}

// Router advertisement and redirect of a family; `from` and `about` as the sender pleases.
std::vector<std::vector<Layer>> router_messages(const IpAddress& from, const Victim& victim, const IpAddress& gateway) {
  const Ip outer{.src = from, .dst = victim.self, .ttl = 255};
  const Ip quoted{victim.self, Outside::address(victim.family)};
  if (victim.family == Family::v4) {
    const auto octets = gateway.octets();
    const std::uint32_t rest =
        std::uint32_t{octets[0]} << 24U | std::uint32_t{octets[1]} << 16U | std::uint32_t{octets[2]} << 8U | octets[3];
    return {{outer, Icmp{9, 0, 0x01020708}, Raw(8)}, {outer, Icmp{5, 1, rest}, quoted, Udp{victim_port, echo_port}}};
  }
  Octets about(gateway.octets().begin(), gateway.octets().end());
  about.insert(about.end(), quoted.dst.octets().begin(), quoted.dst.octets().end());
  return {{outer, Icmp{134, 0, 0x40000708}, Raw(8)}, {outer, Icmp{137}, Raw(about)}};
}

// What a pod may try against another: the verdicts are `spoofed` for these …
std::vector<std::vector<Layer>> forged_sources(const Victim& victim, const Pod& hostile, const Lab& lab) {
  const Family family = victim.family;
  const IpAddress outside = Outside::address(family);
  const IpAddress gateway = family == Family::v4 ? lab.uplink(2).gateway4() : lab.uplink(2).gateway6();
  std::vector<std::vector<Layer>> frames{
      {Ip{victim.self, outside}, Udp{victim_port, echo_port}, Raw(20)},
      {Ip{victim.self, outside}, Tcp{victim.stream_port, echo_port, 0x04}},
      {Ip{outside, victim.self}, Udp{echo_port, victim_port}, Raw(20)},
      {Ip{address_of(lab.uplink(2), family), outside}, Udp{1, 2}},
      {Ip{gateway, victim.self}, too_big(family, 600), Ip{victim.self, outside}, Udp{victim_port, echo_port}},
      with_options({victim.self, outside}, Udp{victim_port, echo_port}),
      with_options({outside, victim.self}, Tcp{echo_port, victim.stream_port, syn}),
      in_first_fragment({victim.self, outside}, Udp{victim_port, echo_port}),
  };
  for (const IpAddress& from : {address_of(hostile, family), gateway})
    std::ranges::copy(router_messages(from, victim, address_of(hostile, family)), std::back_inserter(frames));
  return frames;
}

// … `malformed` for an error about a packet that it never got …
std::vector<Layer> foreign_error(const Victim& victim, const Pod& hostile) {
  return {Ip{address_of(hostile, victim.family), victim.self}, too_big(victim.family, 600),
          Ip{victim.self, Outside::address(victim.family)}, Udp{victim_port, echo_port}};
}

// … and claims to be the victim or its gateway at layer 2 go to the host, which has no reason to believe them.
std::vector<Layer> claim(const Victim& victim, const Pod& hostile, const IpAddress& address) {
  if (victim.family == Family::v4) return {Arp{2, hostile.mac, address, MacAddress(), address}};
  Octets body(address.octets().begin(), address.octets().end());
  body.insert(body.end(), {2, 1});
  body.insert(body.end(), hostile.mac.octets().begin(), hostile.mac.octets().end());
  return {Ip{.src = ip("fe80::bad"), .dst = ip("ff02::1"), .ttl = 255}, Icmp{136, 0, 0x20000000}, Raw(body)};
}

void send_from_pod(const Pod& pod, std::vector<Layer> layers, const MacAddress& to = MacAddress(PDL_HOST_MAC)) {
  layers.insert(layers.begin(), Ethernet{pod.mac, to});
  value_of(send_frame(*pod.space, "eth0", build(layers)));
}

void send_from_gateway(const Lab& lab, unsigned uplink, std::vector<Layer> layers) {
  layers.insert(layers.begin(), Ethernet{lab.uplink(uplink).gateway_mac(), lab.uplink(uplink).mac()});
  value_of(send_frame(lab.gateway(uplink), "eth0", build(layers)));
}

// Linux 6.1 takes an ICMP error about a flow that it does not have for true: asked of the node's own kernel, where
// poduplink has no part in it. Then a pod's kernel does so too, and nothing before it can know better.
bool kernel_believes_any_error(const Lab& lab) {
  const IpAddress self = lab.uplink(1).node4();
  const IpAddress far = ip("198.51.100.77");
  Conversation own = value_of(Conversation::udp(lab.node(), {self, victim_port}));
  value_of(own.forbid_fragments());
  value_of(own.connect({far, echo_port}));
  send_from_gateway(lab, 1, {Ip{far, self}, too_big(Family::v4, 600), Ip{self, far}, Udp{victim_port + 1, echo_port}});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  value_of(own.connect({far, echo_port}));  // a socket looks at its route again only when it uses it
  return value_of(own.path_mtu()) == 600;
}

// What an outside sender may try against a flow of the victim's; each by each uplink.
std::vector<std::vector<Layer>> forged_outside(const Victim& victim, const Pod& other, const Lab& lab) {
  const Family family = victim.family;
  const IpAddress outside = Outside::address(family);
  const IpAddress pod_gateway = ip(family == Family::v4 ? "169.254.1.1" : "fe80::1");
  std::vector<std::vector<Layer>> frames{
      {Ip{victim.self, victim.self}, Udp{victim_port, victim_port}},
      {Ip{address_of(lab.uplink(1), family), victim.self}, Udp{1, victim_port}},
      {Ip{address_of(other, family), victim.self}, Tcp{1, 2, syn}},
      with_options({outside, victim.self}, Tcp{echo_port, victim.stream_port, syn}),
      with_options({outside, victim.self}, Tcp{1000, 2000, syn}),
      in_first_fragment({outside, victim.self}, Udp{echo_port, victim_port}),
      // About another's packet.
      {Ip{outside, victim.self}, too_big(family, 600), Ip{address_of(other, family), outside}, Udp{victim_port, 7}},
      {Ip{outside, victim.self}, too_big(family, 600)},
  };
  if (!kernel_believes_any_error(lab))
    frames.push_back(
        {Ip{outside, victim.self}, too_big(family, 600), Ip{victim.self, outside}, Udp{victim_port + 1, echo_port}});
  if (family == Family::v6)
    frames.push_back({Ip{outside, victim.self}, Fragment{}, Tcp{echo_port, victim.stream_port, syn}});
  for (const IpAddress& from : {pod_gateway, outside})
    std::ranges::copy(router_messages(from, victim, address_of(lab.uplink(1), family)), std::back_inserter(frames));
  return frames;
}

}  // namespace

TEST_CASE("A hostile pod's forgeries are dropped, told and counted, and another pod's flows go on as before") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Firewall firewall = value_of(Firewall::install(lab->node(), RuleKind::nftables, {}));
  const Pod pod = add_pod(*lab, "victim", {.uplink = 2});
  const Pod hostile = add_pod(*lab, "hostile", {.uplink = 1});
  const Capture at_victim = value_of(Capture::start(*pod.space, "eth0"));
  EventReader events = value_of(EventReader::open(*lab));
  for (const Family family : families) {
    const Victim victim(*lab, outside, pod, family);
    const std::size_t earlier = outside.at(2).count(received_from(victim.self));
    const VerdictsSince verdicts(*lab);
    events.clear();
    const auto spoofed = forged_sources(victim, hostile, *lab);
    for (const std::vector<Layer>& layers : spoofed) send_from_pod(hostile, layers);
    send_from_pod(hostile, foreign_error(victim, hostile));
    for (const IpAddress& address : {victim.self, ip(family == Family::v4 ? "169.254.1.1" : "fe80::1")})
      send_from_pod(hostile, claim(victim, hostile, address),
                    mac(family == Family::v4 ? "ff:ff:ff:ff:ff:ff" : "33:33:00:00:00:01"));
    INFO(verdicts.text());
    CHECK(verdicts().spoofed == spoofed.size());
    CHECK(verdicts().malformed == 1);
    const auto veth = static_cast<std::uint32_t>(link_index(lab->node(), hostile.host_veth));
    CHECK(events.read([&](const pdl_event& event) { return event.ifindex == veth; }).size() == spoofed.size() + 1);
    CHECK(outside.at(2).count(received_from(victim.self)) == earlier);
    CHECK(at_victim.count(received_from(address_of(hostile, family))) == 0);
    victim.still_well();
    // The two still talk, each as itself.
    const EchoServer in_victim = echo_in(pod);
    talk(*hostile.space, {victim.self, echo_port});
  }
  CHECK(value_of(firewall.invalid()) == 0);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A forging sender outside changes nobody's path, by the pod's home or by another uplink") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Firewall firewall = value_of(Firewall::install(lab->node(), RuleKind::nftables, {}));
  const Pod pod = add_pod(*lab, "victim", {.uplink = 2});
  const Pod other = add_pod(*lab, "other", {.uplink = 1});
  for (const Family family : families) {
    const Victim victim(*lab, outside, pod, family);
    const VerdictsSince verdicts(*lab);
    for (const unsigned uplink : {1U, 2U}) {
      for (const std::vector<Layer>& layers : forged_outside(victim, other, *lab))
        send_from_gateway(*lab, uplink, layers);
    }
    INFO(verdicts.text());
    // IPv4: two from the pod's own gateway, which a pod would believe.
    CHECK(verdicts().martian == (family == Family::v4 ? 8 : 4));
    CHECK(verdicts().in_from_pod == 2);
    CHECK(verdicts().in_malformed == 4);
    CHECK(verdicts().in_stack_options == 4);
    CHECK(verdicts().in_stack_fragment == (family == Family::v4 ? 2 : 4));
    // The stack has entries of the forged SYNs now, and none of them is NATed.
    const std::string entries =
        value_of(lab->node().run_ok({"conntrack", "-L", "-f", family == Family::v4 ? "ipv4" : "ipv6"}));
    CHECK(entries.find(formatted("dport={}", victim.stream_port)) != std::string::npos);
    const std::uint64_t invalid = value_of(firewall.invalid());
    victim.still_well();
    const EchoServer in_victim = echo_in(pod);
    talk(*other.space, {victim.self, echo_port});
    CHECK(value_of(firewall.invalid()) == invalid);
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Known limit: a direct flow and a call of a service with the same tuple collide, in fast mode alone") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  for (const Family family : families)
    value_of(lab->gateway(2).ip(
        formatted("address add {} dev lo{}", server_address(family).text(), family == Family::v4 ? "" : " nodad")));
  value_of(lab->start_agent(services_config(*lab)));
  for (const std::string mode : {"fast", "netfilter"}) {
    const Pod pod = add_pod(*lab, "pod", {.uplink = 2, .mode = mode});
    for (const Family family : families) {
      INFO(mode << ", " << server_address(family).text());
      const Endpoint service{service_address(family), service_port};
      const Endpoint server{server_address(family), server_port};
      (void)value_of(Firewall::install(lab->node(), RuleKind::nftables, {{service.address, service.port, server}}));
      const Conversation asking = value_of(Conversation::udp(*pod.space, {address_of(pod, family), victim_port}));
      const Conversation answering = value_of(Conversation::udp(lab->gateway(2), server));
      value_of(asking.send_to(server, "direct"));
      const Endpoint direct = value_of(answering.receive()).from;
      value_of(asking.send_to(service, "called"));
      const Endpoint called = value_of(answering.receive()).from;
      // The stack never saw the direct flow and took the same tuple for the call. In netfilter mode it saw both.
      CHECK((called.text() == direct.text()) == (mode == "fast"));
      // The direct flow is remembered until it is asked about again, within a second.
      CHECK(eventually([&] {
        value_of(answering.send_to(direct, "to the direct question"));
        return value_of(asking.receive()).from.text() == (mode == "fast" ? service : server).text();
      }));
    }
    value_of(lab->del_pod("pod"));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Known limit: a sender who forges a client's tuple to a NodePort turns that client's direct flow") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod pod = add_pod(*lab, "pod", {.uplink = 2});
  for (const Family family : families) {
    const Endpoint in_pod{address_of(pod, family), server_port};
    const Endpoint on_node{address_of(lab->uplink(1), family), 30080};
    (void)value_of(Firewall::install(lab->node(), RuleKind::nftables, {{{}, 30080, in_pod}}));
    const Conversation server = value_of(Conversation::udp(*pod.space, in_pod));
    const Conversation client = value_of(Conversation::udp(lab->gateway(2), {Outside::address(family), 6000}));
    const auto answered_by_home = [&] {
      value_of(client.send_to(in_pod, "question"));
      value_of(server.send_to(value_of(server.receive()).from, "answer"));
      CHECK(value_of(client.receive()).from.text() == in_pod.text());
    };
    answered_by_home();
    value_of(send_udp(lab->gateway(1), {.to = on_node, .from = Outside::address(family), .from_port = 6000}));
    const Endpoint forged = value_of(server.receive()).from;
    CHECK(forged.text() == value_of(client.local()).text());
    CHECK(eventually([&] {
      value_of(server.send_to(forged, "answer"));
      return outside.at(1).wait_for(received_from(on_node.address), 1, std::chrono::milliseconds(200));
    }));
    // It lasts as long as that entry of connection tracking.
    value_of(lab->node().run_ok({"conntrack", "-F"}));
    answered_by_home();
  }
  REQUIRE_CLOSED(*lab);
}
