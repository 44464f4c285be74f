// SPDX-License-Identifier: Apache-2.0
// Where direct packets go: every destination by the home, with the next hop, TTL and size that a router would choose.
// Each test names the reports from the field that it answers.
#include <set>

#include "tests/e2e/steps.h"
#include "tests/harness/conversation.h"
#include "tests/harness/packet.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::Equals;

namespace {

// Whom the node asked for on this wire by ARP or neighbour solicitation, pods' announcements apart.
std::set<std::string> asked_for(const Capture& wire, const MacAddress& by) {
  std::set<std::string> targets;
  for (const Frame& frame : wire.frames()) {
    const Decoded& packet = frame.packet;
    if (frame.outgoing || packet.source_mac != by) continue;
    if (packet.is_arp() && packet.arp_operation == 1 && packet.source != packet.destination)
      targets.insert(packet.destination->text());
    if (packet.is_ip() && packet.protocol == 58 && packet.icmp_type == 135 && frame.octets.size() >= 14 + 40 + 24)
      targets.insert(IpAddress::v6(std::span(frame.octets).subspan<14 + 40 + 8, 16>()).text());
  }
  return targets;
}

// Routes of the main table, pods' own apart.
std::string main_routes(const Namespace& node) {
  std::string kept;
  for (const char* family : {"-4", "-6"}) {
    std::string text = value_of(node.run_ok({"ip", family, "route", "show", "table", "main"}));
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      const std::string line = text.substr(0, end);
      if (line.find("dev pdl") == std::string::npos) kept += line + "\n";
      text.erase(0, end == std::string::npos ? end : end + 1);
    }
  }
  return kept;
}

std::string stub_result(const std::string& uplink, const std::string& address4, const std::string& address6) {
  return formatted(R"({{"cniVersion": "1.0.0", "interfaces": [{{"name": "{}"}}],
    "ips": [{{"address": "{}/16", "gateway": "169.254.7.1"}}, {{"address": "{}/64", "gateway": "fe80::7"}}],
    "routes": [{{"dst": "0.0.0.0/0"}}, {{"dst": "::/0"}}]}})",
                   uplink, address4, address6);
}

}  // namespace

TEST_CASE(
    "D01, D06: to its own subnet, another uplink's and beyond, a pod leaves by its home and asks for next hops alone") {
  auto lab = lab_with_agent({.uplinks = 2});
  // A host beside the gateway of either uplink, behind the same wire.
  for (const unsigned number : lab->uplink_numbers())
    value_of(lab->gateway(number).ip(
        formatted("address add 10.{0}.0.99/32 dev eth0\naddress add fd00:{0}::99/128 dev eth0 nodad", number)));
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod pod = add_pod(*lab, "pod", {.uplink = 2});
  value_of(lab->node().run_ok({"ip", "neighbour", "flush", "all"}));
  for (const char* to : {"10.2.0.99", "fd00:2::99", "10.1.0.99", "fd00:1::99", outside4, outside6}) {
    const IpAddress target = *IpAddress::parse(to);
    const IpAddress self = address_of(pod, target.family());
    INFO(to);
    value_of(send_udp(*pod.space, {.to = {target, 9}}));
    CHECK(outside.at(2).wait_for(both(received_from(self), sent_to(target))));
    CHECK_THAT(lines_of(outside.faults_from(self, lab->uplink(2))), Equals(""));
  }
  CHECK(asked_for(outside.at(2), lab->uplink(2).mac()) ==
        std::set<std::string>{"10.2.0.1", "10.2.0.99", "fd00:2::1", "fd00:2::99"});
  CHECK(asked_for(outside.at(1), lab->uplink(1).mac()).empty());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D10: agent and pods put nothing into the main table but each pod's own route") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  const std::string before = main_routes(lab->node());
  value_of(lab->start_agent());
  for (const unsigned uplink : {1U, 2U}) (void)add_pod(*lab, formatted("pod-{}", uplink), {.uplink = uplink});
  CHECK(main_routes(lab->node()) == before);
  CHECK(value_of(lab->node().run_ok({"ip", "route", "show", "table", "main"})).find("dev pdl") != std::string::npos);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D12: an entry is of one address: neighbours in its subnet with another home, or with none, keep their way") {
  auto lab = lab_with_agent({.uplinks = 2});
  // The gateways of both uplinks answer for the next hops that these results name.
  for (const unsigned number : lab->uplink_numbers())
    value_of(lab->gateway(number).ip("address add 169.254.7.1/32 dev eth0\naddress add fe80::7/128 dev eth0 nodad"));
  const Outside outside = value_of(Outside::watch(*lab));
  const auto add = [&](const char* name, unsigned uplink, const char* host) {
    return add_pod(*lab, name,
                   {.ipam = Ipam::stub,
                    .uplink = uplink,
                    .patch = R"({"onLinkGateway": true})",
                    .stub_result = stub_result(formatted("eth{}", uplink), formatted("10.77.0.{}", host),
                                               formatted("fd00:77::{}", host))});
  };
  const Pod one = add("one", 1, "4");
  const Pod two = add("two", 2, "5");
  for (const Family family : families) {
    value_of(send_udp(*one.space, {.to = Outside::echo(family)}));
    value_of(send_udp(*two.space, {.to = Outside::echo(family)}));
    CHECK(outside.at(1).wait_for(received_from(address_of(one, family))));
    CHECK(outside.at(2).wait_for(received_from(address_of(two, family))));
    nothing_from(address_of(one, family), outside, 2);
    nothing_from(address_of(two, family), outside, 1);
    // An address between the two that is no pod's, sent by the node.
    const IpAddress plain = *IpAddress::parse(family == Family::v4 ? "10.77.0.6" : "fd00:77::6");
    value_of(lab->node().ip(formatted("address add {} dev lo", plain.text()) + (family == Family::v4 ? "" : " nodad")));
    value_of(send_udp(lab->node(), {.to = Outside::echo(family), .from = plain}));
    CHECK(outside.at(1).wait_for(received_from(plain)));
    nothing_from(plain, outside, 2);
    value_of(lab->node().ip(formatted("address del {} dev lo", plain.text())));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D50: a pod that takes over an address is announced on its uplink, so that neighbours forget the old one") {
  auto lab = lab_with_agent({.uplinks = 2});
  // What a neighbour remembers of the address's last owner.
  value_of(
      lab->gateway(2).ip("neighbour add 10.2.1.1 lladdr 02:00:00:00:00:99 dev eth0 nud reachable\n"
                         "neighbour add fd00:2::1:1 lladdr 02:00:00:00:00:99 dev eth0 nud reachable"));
  const Pod pod = add_pod(*lab, "pod", {.uplink = 2});
  const EchoServer in_pod = echo_in(pod);
  for (const Family family : families) {
    const IpAddress self = address_of(pod, family);
    REQUIRE(self.text() == (family == Family::v4 ? "10.2.1.1" : "fd00:2::1:1"));
    CHECK(eventually([&] {
      return value_of(lab->gateway(2).run_ok({"ip", "neighbour", "show", self.text()})).find("02:00:00:00:02:02") !=
             std::string::npos;
    }));
    CHECK(value_of(exchange_udp(lab->gateway(2), {.to = {self, echo_port}})) == "poduplink");
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D82: the MTU that counts is the home's, also when it shrinks while the pod runs") {
  auto lab = lab_with_agent({.uplinks = 2, .mtu = {{1, 1500}, {2, 1500}}});
  const Pod first = add_pod(*lab, "first", {.uplink = 1});
  const Pod second = add_pod(*lab, "second", {.uplink = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  value_of(lab->node().ip("link set eth2 mtu 1400"));
  const auto index = static_cast<std::uint32_t>(link_index(lab->node(), "eth2"));
  REQUIRE(eventually([&] { return value_of(value_of(lab->tables()).uplinks.find(index))->mtu == 1400; }));
  for (const Family family : families) {
    const unsigned headers = family == Family::v4 ? 28 : 48;
    const auto send = [&](const Pod& pod, unsigned size) {
      const Conversation talking = value_of(Conversation::udp(*pod.space, {address_of(pod, family), 0}));
      value_of(talking.forbid_fragments());
      value_of(talking.send_to({Outside::address(family), 9}, std::string(size - headers, 'm')));
    };
    const VerdictsSince verdicts(*lab);
    send(second, 1401);
    send(second, 1400);
    send(first, 1500);
    CHECK(outside.at(1).wait_for(received_from(address_of(first, family))));
    REQUIRE(outside.at(2).wait_for(received_from(address_of(second, family))));
    CHECK(outside.at(2).count(both(received_from(address_of(second, family)),
                                   [](const Frame& frame) { return frame.packet.is_udp(); })) == 1);
    CHECK(verdicts().too_big == 1);
    CHECK(verdicts().redirected == 2);
  }
  value_of(lab->node().ip("link set eth2 mtu 1500"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D83: a redirected packet loses one hop, and one without hops left is answered by the node") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  for (const char* mode : {"fast", "netfilter"}) {
    const Pod pod = add_pod(*lab, "pod", {.uplink = 2, .mode = mode});
    const Capture in_pod = value_of(Capture::start(*pod.space, "eth0"));
    for (const Family family : families) {
      INFO(mode << ", " << address_of(pod, family).text());
      // The sockets that asked are closed when the answers come, which the pod says by ICMP.
      const auto out =
          both(received_from(address_of(pod, family)), [](const Frame& frame) { return frame.packet.is_udp(); });
      for (const int ttl : {64, 2}) {
        const auto left =
            both(out, [ttl](const Frame& frame) { return frame.packet.ttl + 1 == static_cast<unsigned>(ttl); });
        value_of(send_udp(*pod.space, {.to = Outside::echo(family), .ttl = ttl}));
        CHECK(outside.at(2).wait_for(left));
      }
      const std::size_t before = outside.at(2).count(out);
      value_of(send_udp(*pod.space, {.to = Outside::echo(family), .ttl = 1}));
      CHECK(in_pod.wait_for([&](const Frame& frame) {
        const Decoded& packet = frame.packet;
        return !frame.outgoing && packet.is_icmp() && packet.icmp_type == (family == Family::v4 ? 11 : 3) &&
               (packet.source == address_of(lab->uplink(1), family) ||
                packet.source == address_of(lab->uplink(2), family));
      }));
      CHECK(outside.at(2).count(out) == before);
    }
    value_of(lab->del_pod("pod"));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D89: the metadata address goes by the uplink that claims it, and else to the host, which may refuse it") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  for (const unsigned number : lab->uplink_numbers())
    value_of(lab->gateway(number).ip("address add 169.254.169.254/32 dev lo"));
  value_of(
      lab->start_agent(R"({"uplinks": [{"name": "eth1"}, {"name": "eth2", "linkLocal": ["169.254.169.254/32"]}]})"));
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod claimed = add_pod(*lab, "claimed", {.uplink = 2});
  const Pod plain = add_pod(*lab, "plain", {.uplink = 1});
  const Endpoint metadata{*IpAddress::parse("169.254.169.254"), 80};
  const VerdictsSince verdicts(*lab);
  value_of(send_udp(*claimed.space, {.to = metadata}));
  CHECK(outside.at(2).wait_for(both(received_from(*claimed.v4), sent_to(metadata.address))));
  nothing_from(*claimed.v4, outside, 1);
  value_of(send_udp(*plain.space, {.to = metadata}));
  CHECK(outside.at(1).wait_for(both(received_from(*plain.v4), sent_to(metadata.address))));
  CHECK(verdicts().redirected == 1);
  CHECK(verdicts().stack_link_local == 1);
  value_of(
      lab->node().nft("table ip rules { counter refused { }; chain forward { type filter hook forward priority 0; "
                      "ip daddr 169.254.169.254 counter name refused drop; }; }"));
  value_of(send_udp(*plain.space, {.to = metadata}));
  CHECK(eventually([&] {
    return value_of(lab->node().run_ok({"nft", "list", "counter", "ip", "rules", "refused"})).find("packets 1 ") !=
           std::string::npos;
  }));
  CHECK(outside.at(1).count(received_from(*plain.v4)) == 1);
  REQUIRE_CLOSED(*lab);
}
