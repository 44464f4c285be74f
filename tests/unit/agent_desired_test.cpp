// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <functional>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "loader/desired.h"
#include "maps/tables.h"
#include "tests/unit/agent_world.h"

using namespace poduplink;
using namespace poduplink::test;
using Catch::Matchers::ContainsSubstring;

namespace {

AgentConfig config(const std::string& text) {
  auto parsed = parse_config(text);
  INFO((parsed ? "" : parsed.error().message));
  REQUIRE(parsed);
  return *parsed;
}

std::vector<int> links_with(const Desired& desired, pdl_role role) {
  std::vector<int> links;
  for (const DesiredUplink& one : desired.uplinks) {
    if (one.value.role == role) links.push_back(one.index);
  }
  return links;
}

const UplinkReport& line(const Desired& desired, const std::string& name) {
  const auto found = std::ranges::find_if(
      desired.report, [&](const UplinkReport& one) { return one.name == name || one.configured == name; });
  REQUIRE(found != desired.report.end());
  return *found;
}

// Three interfaces: eth0 bears the default route, eth1 and eth2 are uplinks.
World node() {
  World world;
  world.link(2, "eth0");
  world.link(3, "eth1");
  world.link(4, "eth2").mtu = 9000;
  world.address(1, "127.0.0.1/8").address(1, "::1/128");
  world.address(2, "10.1.0.4/24").address(3, "10.2.0.4/16").address(4, "10.3.0.4/24").address(3, "fe80::4/64");
  world.route("0.0.0.0/0", {{2, "10.1.0.1"}}).route("10.1.0.0/24", {{2, ""}});
  world.route("10.2.0.0/16", {{3, ""}}).route("fe80::/64", {{3, ""}}, 256);
  return world;
}

}  // namespace

TEST_CASE("configured uplinks are homes with their settings, and what else carries routes is transit") {
  const World world = node();
  const Desired desired = make_desired(
      config(R"({"uplinks": [{"name": "eth1", "gateway4": "10.2.0.1", "gateway6": "fe80::1", "strict": true},
                             {"mac": "02:00:00:00:00:04", "whenDown": "stack", "answerNeighbours": false, "onLink": false,
                              "linkLocal": ["169.254.169.254/32"]}]})"),
      world.snapshot, {});
  CHECK(desired.reasons.empty());
  CHECK(links_with(desired, PDL_ROLE_HOME) == std::vector{3, 4});
  CHECK(links_with(desired, PDL_ROLE_TRANSIT) == std::vector{2});
  const pdl_uplink& eth1 = desired.find(3)->value;
  CHECK(std::string(eth1.name) == "eth1");
  CHECK(eth1.mtu == 1500);
  CHECK(to_mac(eth1.mac) == mac(3));
  CHECK(eth1.state == PDL_STATE_UP);
  CHECK(eth1.when_down == PDL_WHEN_DOWN_DROP);
  CHECK(eth1.flags == (PDL_UPLINK_ANSWER_NEIGHBOURS | PDL_UPLINK_STRICT | PDL_UPLINK_ON_LINK));
  CHECK(IpAddress::v4(eth1.gateway4) == ip("10.2.0.1"));
  CHECK(IpAddress::v6(eth1.gateway6) == ip("fe80::1"));
  const pdl_uplink& eth2 = desired.find(4)->value;
  CHECK(eth2.mtu == 9000);
  CHECK(eth2.when_down == PDL_WHEN_DOWN_STACK);
  CHECK(eth2.flags == 0);
  REQUIRE(eth2.link_local_count == 1);
  CHECK(IpAddress::v4(eth2.link_local[0].addr) == ip("169.254.169.254"));
  CHECK(eth2.link_local[0].prefix_len == 32);
  const pdl_uplink& eth0 = desired.find(2)->value;
  CHECK(eth0.flags == PDL_UPLINK_PRIMARY);
  CHECK(IpAddress::v4(eth0.gateway4) == ip("10.1.0.1"));
  CHECK(line(desired, "eth0").how == "route 0.0.0.0/0 of the main table leaves by it");
  CHECK(line(desired, "eth1").role == "home");
}

TEST_CASE("the primary is reported first, whatever its index and its place in the configuration") {
  const World world = node();
  CHECK(make_desired(config(R"({"uplinks":[{"name":"eth2"},{"name":"eth1"},{"name":"eth0"}]})"), world.snapshot, {})
            .report.front()
            .name == "eth0");
  CHECK(make_desired(config(R"({"uplinks":[{"name":"eth2"},{"name":"eth1"}]})"), world.snapshot, {})
            .report.front()
            .name == "eth0");
}

TEST_CASE("the node's own addresses are all but loopback, link-local and exempt ones") {
  World world = node();
  world.address(1, "10.9.9.9/32").address(4, "10.96.0.1/32").address(3, "2001:db8::4/64").address(2, "169.254.7.7/16");
  const Desired desired = make_desired(
      config(
          R"({"uplinks": [{"name": "eth1", "gateway4": "10.2.0.1", "gateway6": "fe80::1"}], "exempt": ["10.96.0.0/12"]})"),
      world.snapshot, {});
  std::vector<std::string> addresses;
  addresses.reserve(desired.nodes.size());
  for (const auto& [address, entry] : desired.nodes) addresses.push_back(address.text());
  CHECK(addresses == std::vector<std::string>{"10.1.0.4", "10.2.0.4", "10.3.0.4", "10.9.9.9", "2001:db8::4"});
  const pdl_node& of_uplink = desired.nodes.at(ip("10.2.0.4"));
  CHECK(of_uplink.ifindex == 3);
  CHECK(of_uplink.prefix_len == 16);
  CHECK(IpAddress::v4(of_uplink.gateway4) == ip("10.2.0.1"));
  CHECK(IpAddress::v6(desired.nodes.at(ip("2001:db8::4")).gateway6) == ip("fe80::1"));
  CHECK(IpAddress::v4(desired.nodes.at(ip("10.1.0.4")).gateway4).is_unspecified());
  REQUIRE(desired.exempt.size() == 1);
  CHECK(desired.exempt[0] == std::pair(prefix("10.96.0.0/12"), 0U));
}

TEST_CASE("an address on two interfaces is the uplink's") {
  World world = node();
  world.address(2, "10.2.0.4/32").address(1, "10.2.0.4/32");
  const Desired desired = make_desired(config(R"({"uplinks": [{"name": "eth1"}]})"), world.snapshot, {});
  CHECK(desired.nodes.at(ip("10.2.0.4")).ifindex == 3);
}

TEST_CASE("a full map of node addresses is a reason by name") {
  const World world = node();
  const Desired desired =
      make_desired(config(R"({"uplinks": [{"name": "eth1"}], "mapSizes": {"nodes": 2}})"), world.snapshot, {});
  REQUIRE(desired.reasons.size() == 1);
  CHECK_THAT(desired.reasons[0], ContainsSubstring("map nodes4 is full: 3 addresses"));
}

TEST_CASE("a missing uplink is named and hides no good one") {
  const World world = node();
  const Desired desired = make_desired(
      config(R"({"uplinks": [{"name": "eth1"}, {"name": "eth7"}, {"mac": "02:00:00:00:00:77"}]})"), world.snapshot, {});
  CHECK(desired.reasons.empty());
  CHECK(links_with(desired, PDL_ROLE_HOME) == std::vector{3});
  CHECK(line(desired, "eth7").state == "missing");
  CHECK(line(desired, "eth7").reason == "not found");
  CHECK(line(desired, "02:00:00:00:00:77").state == "missing");
}

TEST_CASE("no usable uplink at all is the reason, with each one's own") {
  const World world = node();
  const Desired desired = make_desired(
      config(R"({"uplinks": [{"name": "eth7"}, {"name": "eth1", "mac": "02:00:00:00:00:09"}]})"), world.snapshot, {});
  REQUIRE(desired.reasons.size() == 1);
  CHECK(desired.reasons[0] ==
        "no uplink is usable; eth7: not found; eth1: has the MAC 02:00:00:00:00:03, not 02:00:00:00:00:09");
}

namespace {

struct Refusal {
  const char* name;
  const char* reason;
  std::function<void(World&)> spoil;  // changes the node so that eth1 cannot be an uplink
};

}  // namespace

TEST_CASE("interfaces that cannot be uplinks are refused with the reason") {
  const std::vector<Refusal> refusals = {
      {"an L3 device", "no Ethernet interface",
       [](World& world) {
         world.snapshot.links[2].hardware_type = ARPHRD_NONE;
         world.snapshot.links[2].mac.reset();
       }},
      {"a bridge's port", "belongs to eth0", [](World& world) { world.snapshot.links[2].master = 2; }},
      {"strict rp_filter", "strict rp_filter", [](World& world) { world.snapshot.rp_filter[3] = 1; }},
      {"a VLAN of another uplink", "is stacked on eth2, which is an uplink too",
       [](World& world) {
         world.snapshot.links[2].kind = "vlan";
         world.snapshot.links[2].parent = 4;
       }},
      {"a macvlan on an interface with routes", "is stacked on eth0, by which a route",
       [](World& world) {
         world.snapshot.links[2].kind = "macvlan";
         world.snapshot.links[2].parent = 2;
       }},
  };
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.name);
    World world = node();
    refusal.spoil(world);
    const Desired desired =
        make_desired(config(R"({"uplinks": [{"name": "eth1"}, {"name": "eth2"}]})"), world.snapshot, {});
    CHECK(line(desired, "eth1").state == "refused");
    CHECK_THAT(line(desired, "eth1").reason, ContainsSubstring(refusal.reason));
    CHECK(links_with(desired, PDL_ROLE_HOME) == std::vector{4});
    CHECK(desired.reasons.empty());
  }
}

TEST_CASE("a VLAN uplink beside routes on its device is allowed: tagged packets pass the device's programs") {
  World world = node();
  world.snapshot.links[2].kind = "vlan";
  world.snapshot.links[2].parent = 2;
  const Desired desired = make_desired(config(R"({"uplinks": [{"name": "eth1"}]})"), world.snapshot, {});
  CHECK(links_with(desired, PDL_ROLE_HOME) == std::vector{3});
  CHECK(links_with(desired, PDL_ROLE_TRANSIT) == std::vector{2});
}

TEST_CASE("strict rp_filter is accepted where the agent may manage it, and loose is accepted anyway") {
  World world = node();
  world.snapshot.rp_filter[3] = 1;
  world.snapshot.rp_filter[4] = 2;
  const Desired desired = make_desired(
      config(R"({"uplinks": [{"name": "eth1", "manageRpFilter": true}, {"name": "eth2"}]})"), world.snapshot, {});
  CHECK(links_with(desired, PDL_ROLE_HOME) == std::vector{3, 4});
  CHECK(desired.manage_rp_filter == std::set{3});
}

TEST_CASE("a refused uplink that carries routes bears the programs as transit") {
  World world = node();
  world.snapshot.rp_filter[3] = 1;
  const Desired desired =
      make_desired(config(R"({"uplinks": [{"name": "eth1"}, {"name": "eth2"}]})"), world.snapshot, {});
  CHECK(links_with(desired, PDL_ROLE_TRANSIT) == std::vector{2, 3});
  CHECK(line(desired, "eth1").role == "transit");
  CHECK(line(desired, "eth1").state == "refused");
}

TEST_CASE("several interfaces with one MAC: the one that is not enslaved and has no parent of that MAC") {
  World world = node();
  Link& child = world.link(5, "eth1.7", "vlan");
  child.parent = 3;
  child.mac = mac(3);
  Link& slave = world.link(6, "eth8");
  slave.master = 3;
  slave.mac = mac(3);
  const AgentConfig by_mac = config(R"({"uplinks": [{"mac": "02:00:00:00:00:03"}]})");
  CHECK(links_with(make_desired(by_mac, world.snapshot, {}), PDL_ROLE_HOME) == std::vector{3});
  world.link(7, "twin").mac = mac(3);
  const Desired desired = make_desired(by_mac, world.snapshot, {});
  CHECK(links_with(desired, PDL_ROLE_HOME).empty());
  REQUIRE(desired.reasons.size() == 1);
  CHECK_THAT(desired.reasons[0], ContainsSubstring("eth1, eth1.7, eth8, twin"));
}

TEST_CASE("two items for one interface: the second is refused") {
  const World world = node();
  const Desired desired =
      make_desired(config(R"({"uplinks": [{"name": "eth1"}, {"mac": "02:00:00:00:00:03"}]})"), world.snapshot, {});
  CHECK(links_with(desired, PDL_ROLE_HOME) == std::vector{3});
  CHECK_THAT(desired.report[2].reason, ContainsSubstring("same interface as uplink eth1"));
}

TEST_CASE("an uplink is found again after a rename, a MAC change and a return under another index") {
  World world = node();
  const AgentConfig settings = config(R"({"uplinks": [{"name": "eth1", "whenDown": "stack"}]})");
  const Desired before = make_desired(settings, world.snapshot, {});
  REQUIRE(before.memory.at("eth1") == KnownUplink{"eth1", mac(3), 3, {}});

  world.snapshot.links[2].name = "wan1";
  const Desired renamed = make_desired(settings, world.snapshot, before.memory);
  CHECK(links_with(renamed, PDL_ROLE_HOME) == std::vector{3});
  CHECK(renamed.find(3)->name() == "wan1");

  world.snapshot.links[2].mac = mac(99);
  const Desired other_mac = make_desired(settings, world.snapshot, renamed.memory);
  CHECK(links_with(other_mac, PDL_ROLE_HOME) == std::vector{3});
  CHECK(other_mac.memory.at("eth1") ==
        KnownUplink{"wan1", mac(99), 3, {{"eth1", mac(3)}, {"wan1", mac(3)}}});  // what pods' records may say

  world.snapshot.links.erase(world.snapshot.links.begin() + 2);
  const Desired vanished = make_desired(settings, world.snapshot, other_mac.memory);
  REQUIRE(vanished.find(3) != nullptr);
  CHECK_FALSE(vanished.find(3)->present);
  CHECK(vanished.find(3)->value.state == PDL_STATE_DOWN);
  CHECK(vanished.find(3)->value.when_down == PDL_WHEN_DOWN_STACK);
  CHECK(line(vanished, "eth1").state == "missing");
  CHECK(vanished.reasons.size() == 1);

  world.link(12, "eth9").mac = mac(99);
  const Desired back = make_desired(settings, world.snapshot, vanished.memory);
  CHECK(links_with(back, PDL_ROLE_HOME) == std::vector{12});
  CHECK(back.reasons.empty());
}

TEST_CASE("an uplink that is listed by its MAC alone is followed when its MAC changes") {
  World world = node();
  const AgentConfig settings = config(R"({"uplinks": [{"mac": "02:00:00:00:00:03"}]})");
  const UplinkMemory memory = make_desired(settings, world.snapshot, {}).memory;
  world.snapshot.links[2].mac = mac(99);
  const Desired changed = make_desired(settings, world.snapshot, memory);
  CHECK(links_with(changed, PDL_ROLE_HOME) == std::vector{3});
  CHECK(changed.report[1].how == "configured, now with the MAC 02:00:00:00:00:63");
  CHECK(make_desired(settings, world.snapshot, {}).report[1].reason == "no interface has this MAC");
}

TEST_CASE("the entry of a vanished uplink never covers another interface with its index") {
  const World world = node();
  const UplinkMemory memory = {{"eth9", {"eth9", mac(99), 4}}};
  const Desired desired =
      make_desired(config(R"({"uplinks": [{"name": "eth9"}, {"name": "eth1"}]})"), world.snapshot, memory);
  CHECK(desired.find(4) == nullptr);
}

TEST_CASE("an uplink without carrier or administratively down is a home that is down") {
  World world = node();
  world.snapshot.links[2].flags = IFF_UP | IFF_BROADCAST;
  world.snapshot.links[3].flags = IFF_BROADCAST;
  const Desired desired =
      make_desired(config(R"({"uplinks": [{"name": "eth1"}, {"name": "eth2"}]})"), world.snapshot, {});
  CHECK(desired.find(3)->value.state == PDL_STATE_DOWN);
  CHECK(desired.find(4)->value.state == PDL_STATE_DOWN);
  CHECK(desired.reasons.empty());
}

TEST_CASE("transit follows every unicast route of the main table but those of pods, loopback and link-local ones") {
  World world = node();
  world.link(5, "pdl0123456789ab", "veth");
  world.link(6, "cni0", "bridge");
  world.link(7, "quiet");
  world.link(8, "other");
  Link& tunnel = world.link(9, "wg0", "wireguard");
  tunnel.hardware_type = ARPHRD_NONE;
  world.route("10.2.0.9/32", {{5, ""}}).route("fe80::/64", {{7, ""}}, 256).route("10.7.0.0/16", {{9, ""}});
  world.route("10.8.0.0/16", {{8, ""}});
  world.snapshot.routes.back().table = 100;
  world.route("10.4.0.0/16", {{2, "10.1.0.1"}, {6, "10.6.0.1"}});
  const Desired desired = make_desired(config(R"({"uplinks": [{"name": "eth1"}]})"), world.snapshot, {});
  CHECK(links_with(desired, PDL_ROLE_TRANSIT) == std::vector{2, 6});
}

TEST_CASE("gatewayMac asks for a permanent neighbour for each known gateway") {
  World world = node();
  world.route("0.0.0.0/0", {{3, "10.2.0.1"}}, 500);
  const Desired desired = make_desired(
      config(R"({"uplinks": [{"name": "eth1", "gateway6": "fe80::1", "gatewayMac": "12:34:56:78:9a:bc"}]})"),
      world.snapshot, {});
  const MacAddress gateway = MacAddress::parse("12:34:56:78:9a:bc").value();
  CHECK(desired.neighbours == std::set<PermanentNeighbour>{{3, ip("10.2.0.1"), gateway}, {3, ip("fe80::1"), gateway}});
}

TEST_CASE("discovered uplinks are homes and stay so when they go down or come back under another index") {
  World world = node();
  const Desired before = make_desired(AgentConfig{}, world.snapshot, {});
  CHECK(links_with(before, PDL_ROLE_HOME) == std::vector{2, 3, 4});
  CHECK((before.find(2)->value.flags & (PDL_UPLINK_DISCOVERED | PDL_UPLINK_PRIMARY)) ==
        (PDL_UPLINK_DISCOVERED | PDL_UPLINK_PRIMARY));
  CHECK(line(before, "eth2").how == "discovered: gateway inferred as 10.3.0.1");

  world.snapshot.links[3].flags = IFF_BROADCAST;
  const Desired down = make_desired(AgentConfig{}, world.snapshot, before.memory);
  REQUIRE(down.find(4) != nullptr);
  CHECK(down.find(4)->value.state == PDL_STATE_DOWN);

  world.snapshot.links.erase(world.snapshot.links.begin() + 3);
  const Desired gone = make_desired(AgentConfig{}, world.snapshot, down.memory);
  CHECK_FALSE(gone.find(4)->present);
  world.link(11, "eth2").mac = mac(4);
  const Desired back = make_desired(AgentConfig{}, world.snapshot, gone.memory);
  REQUIRE(back.find(11) != nullptr);
  CHECK(back.find(11)->is_home());
}

TEST_CASE("what was discovered and became a bridge's port is refused, once, and so is the bridge with its MAC") {
  World world = node();
  const UplinkMemory memory = make_desired(AgentConfig{}, world.snapshot, {}).memory;
  world.snapshot.links[3].master = 5;
  world.link(5, "br0", "bridge").mac = mac(4);
  const Desired now = make_desired(AgentConfig{}, world.snapshot, memory);
  CHECK(links_with(now, PDL_ROLE_HOME) == std::vector{2, 3});
  CHECK(line(now, "eth2").reason == "belongs to br0");
  CHECK(line(now, "br0").state == "refused");
  CHECK(now.report.size() == 4);
}

TEST_CASE("what was discovered and went is missing, and nothing made in software takes its place by its MAC") {
  World world = node();
  const UplinkMemory memory = make_desired(AgentConfig{}, world.snapshot, {}).memory;
  world.snapshot.links.erase(world.snapshot.links.begin() + 3);
  world.link(5, "tap0", "tun").mac = mac(4);
  const Desired now = make_desired(AgentConfig{}, world.snapshot, memory);
  CHECK(line(now, "eth2").state == "missing");
  CHECK(line(now, "tap0").state == "refused");
  REQUIRE(now.find(4) != nullptr);
  CHECK_FALSE(now.find(4)->present);
  CHECK(now.find(5) == nullptr);
}

TEST_CASE("a bond that takes its first slave's MAC is the uplink in its place, and stays so when it goes down") {
  World world = node();
  const UplinkMemory memory = make_desired(AgentConfig{}, world.snapshot, {}).memory;
  world.snapshot.links[3].master = 5;
  world.link(5, "bond0", "bond").mac = mac(4);
  world.address(5, "10.3.0.4/24");
  const Desired bonded = make_desired(AgentConfig{}, world.snapshot, memory);
  CHECK(links_with(bonded, PDL_ROLE_HOME) == std::vector{2, 3, 5});
  CHECK(line(bonded, "eth2").reason == "belongs to bond0");
  world.snapshot.links.back().flags = IFF_BROADCAST;
  const Desired down = make_desired(AgentConfig{}, world.snapshot, bonded.memory);
  CHECK(links_with(down, PDL_ROLE_HOME) == std::vector{2, 3, 5});
  CHECK(line(down, "bond0").state == "down");
}

TEST_CASE(
    "of discovered interfaces with one MAC the known one is the uplink, else the first, and the others are refused") {
  World world = node();
  world.snapshot.links[3].mac = mac(3);  // eth2 has eth1's
  const Desired fresh = make_desired(AgentConfig{}, world.snapshot, {});
  CHECK(links_with(fresh, PDL_ROLE_HOME) == std::vector{2, 3});
  CHECK_THAT(line(fresh, "eth2").reason, ContainsSubstring("has the MAC 02:00:00:00:00:03 of uplink eth1"));
  const UplinkMemory eth2_first = {{"discovered " + mac(3).text(), {"eth2", mac(3), 4}}};
  const Desired known = make_desired(AgentConfig{}, world.snapshot, eth2_first);
  CHECK(links_with(known, PDL_ROLE_HOME) == std::vector{2, 4});
  CHECK_THAT(line(known, "eth1").reason, ContainsSubstring("of uplink eth2"));
}

TEST_CASE("the node's own address on a discovered uplink without a default route has the inferred gateway") {
  const World world = node();
  const Desired discovered = make_desired(AgentConfig{}, world.snapshot, {});
  CHECK(IpAddress::v4(discovered.nodes.at(ip("10.2.0.4")).gateway4) == ip("10.2.0.1"));
  CHECK(IpAddress::v4(discovered.nodes.at(ip("10.1.0.4")).gateway4) == ip("10.1.0.1"));
  const Desired listed = make_desired(config(R"({"uplinks": [{"name": "eth1"}]})"), world.snapshot, {});
  CHECK(IpAddress::v4(listed.nodes.at(ip("10.2.0.4")).gateway4).is_unspecified());
}

TEST_CASE("strict rp_filter on a discovered uplink is refused with what can be done") {
  World world = node();
  world.snapshot.rp_filter[4] = 1;
  CHECK_THAT(line(make_desired(AgentConfig{}, world.snapshot, {}), "eth2").reason,
             ContainsSubstring("list it in 'uplinks' with 'manageRpFilter'"));
}

TEST_CASE("an uplink that gets another name and another MAC at once is the same as long as its link has not gone") {
  World world = node();
  const AgentConfig settings = config(R"({"uplinks": [{"name": "eth1"}, {"name": "eth2"}]})");
  const UplinkMemory memory = make_desired(settings, world.snapshot, {}).memory;
  world.snapshot.links[2].name = "wan1";
  world.snapshot.links[2].mac = mac(99);
  CHECK(line(make_desired(settings, world.snapshot, memory), "eth1").state == "missing");
  world.snapshot.lasting = {1, 2, 3, 4};
  CHECK(links_with(make_desired(settings, world.snapshot, memory), PDL_ROLE_HOME) == std::vector{3, 4});
}

TEST_CASE("D31: each switch of an uplink changes its own setting and nothing else") {
  World world = node();
  const auto of = [&](const std::string& setting) {
    const Desired desired = make_desired(
        config(R"({"uplinks": [{"name": "eth1", "gateway4": "10.2.0.1")" + setting + "}]}"), world.snapshot, {});
    REQUIRE(desired.find(3) != nullptr);
    return std::pair(desired.find(3)->value, std::pair(desired.manage_rp_filter, desired.neighbours));
  };
  const auto [plain, plain_rest] = of("");
  const auto changed = [&](const std::string& setting, const std::function<void(pdl_uplink&)>& change) {
    INFO(setting);
    const auto [value, rest] = of(setting);
    pdl_uplink expected = plain;
    change(expected);
    CHECK(std::memcmp(&value, &expected, sizeof(value)) == 0);
    return rest;
  };
  const auto flips = [](unsigned flag) { return [flag](pdl_uplink& one) { one.flags ^= static_cast<__u8>(flag); }; };
  const auto same = [](pdl_uplink&) {};
  CHECK(changed(R"(, "onLink": false)", flips(PDL_UPLINK_ON_LINK)) == plain_rest);
  CHECK(changed(R"(, "answerNeighbours": false)", flips(PDL_UPLINK_ANSWER_NEIGHBOURS)) == plain_rest);
  CHECK(changed(R"(, "strict": true)", flips(PDL_UPLINK_STRICT)) == plain_rest);
  CHECK(changed(R"(, "whenDown": "stack")", [](pdl_uplink& one) { one.when_down = PDL_WHEN_DOWN_STACK; }) ==
        plain_rest);
  CHECK(changed(R"(, "manageRpFilter": true)", same) == std::pair(std::set{3}, plain_rest.second));
  CHECK(changed(R"(, "gatewayMac": "02:00:00:00:00:77")", same).first == plain_rest.first);
}
