// SPDX-License-Identifier: Apache-2.0
// The agent follows what happens to the node: routes, addresses, uplinks, neighbours.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "loader/net/netns.h"
#include "tests/e2e/agent_probe.h"
#include "tests/harness/traffic.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

using Names = std::vector<std::string>;

bool bears_ours(const Lab& lab, const std::string& interface) {
  return programs_on(lab, interface, TcHook::ingress) == Names{"uplink_ingress"} &&
         programs_on(lab, interface, TcHook::egress) == Names{"uplink_egress"};
}

pdl_pod entry(const Lab& lab, const IpAddress& address) {
  const auto found = value_of(value_of(lab.tables()).pods.find(address));
  REQUIRE(found);
  return *found;
}

std::optional<pdl_uplink> uplink_entry(const Lab& lab, int index) {
  return value_of(value_of(lab.tables()).uplinks.find(static_cast<std::uint32_t>(index)));
}

bool has_node_address(const Lab& lab, const std::string& address) {
  return value_of(value_of(lab.tables()).nodes.find(*IpAddress::parse(address))).has_value();
}

}  // namespace

TEST_CASE("A device becomes transit with its first route and is let go with its last") {
  auto lab = lab_with_agent({.uplinks = 1,
                             .node_setup = "link add side type veth peer name other\n"
                                           "link set side up\nlink set other up"});
  const int index = index_of(*lab, "side");
  CHECK(programs_on(*lab, "side", TcHook::egress).empty());
  value_of(lab->node().ip("route add 10.77.0.0/16 dev side"));
  CHECK(eventually([&] { return bears_ours(*lab, "side") && uplink_entry(*lab, index); }));
  CHECK(uplink_entry(*lab, index)->role == PDL_ROLE_TRANSIT);
  value_of(lab->node().ip("route del 10.77.0.0/16 dev side"));
  CHECK(eventually([&] { return programs_on(*lab, "side", TcHook::ingress).empty() && !uplink_entry(*lab, index); }));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D28: an address of the node that is added at run time is known, and forgotten when it goes") {
  auto lab = lab_with_agent({.uplinks = 1});
  value_of(lab->node().ip("address add 10.99.0.1/32 dev lo\naddress add 2001:db8:99::1/128 dev eth1 nodad"));
  CHECK(eventually([&] { return has_node_address(*lab, "10.99.0.1") && has_node_address(*lab, "2001:db8:99::1"); }));
  value_of(lab->node().ip("address del 10.99.0.1/32 dev lo\naddress del 2001:db8:99::1/128 dev eth1"));
  CHECK(eventually([&] { return !has_node_address(*lab, "10.99.0.1") && !has_node_address(*lab, "2001:db8:99::1"); }));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Exempt prefixes are published with the number of their item, and addresses in them are none of the node's") {
  auto lab = value_of(Lab::create({.uplinks = 1, .node_setup = "address add 10.96.0.1/32 dev lo"}));
  value_of(lab->start_agent(R"({"uplinks": [{"name": "eth1"}], "exempt": ["fd00:96::/108", "10.96.0.0/12"]})"));
  const auto entries = value_of(value_of(lab->tables()).exempt.entries());
  REQUIRE(entries.size() == 2);
  CHECK(entries[0] == std::pair(*Prefix::parse("10.96.0.0/12"), 1U));
  CHECK(entries[1] == std::pair(*Prefix::parse("fd00:96::/108"), 0U));
  CHECK_FALSE(has_node_address(*lab, "10.96.0.1"));
  value_of(lab->agent().stop());
  value_of(lab->start_agent());
  CHECK(value_of(value_of(lab->tables()).exempt.entries()).empty());
  CHECK(has_node_address(*lab, "10.96.0.1"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D68: An uplink goes down and comes up, is renamed and gets another MTU: its entry and its pods' follow") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pod pod = value_of(lab->add_pod("a", {.ipam = Ipam::stub, .uplink = 2}));
  const int index = index_of(*lab, "eth2");
  value_of(lab->gateway(2).ip("link set eth0 down"));
  CHECK(eventually([&] { return uplink_entry(*lab, index)->state == PDL_STATE_DOWN; }));
  CHECK(eventually([&] { return state_of(*lab, "eth2").at("state") == "down"; }));
  value_of(lab->gateway(2).ip("link set eth0 up"));
  CHECK(eventually([&] { return uplink_entry(*lab, index)->state == PDL_STATE_UP; }));
  value_of(lab->node().ip("link set eth2 mtu 1400"));
  CHECK(eventually([&] { return entry(*lab, *pod.v4).mtu == 1400 && entry(*lab, *pod.v6).mtu == 1400; }));
  value_of(lab->node().ip("link set eth2 down\nlink set eth2 name wan.2\nlink set wan.2 up"));
  CHECK(eventually([&] { return std::string(uplink_entry(*lab, index)->name) == "wan.2"; }));
  CHECK(eventually([&] { return state_of(*lab, "eth2").at("name") == "wan.2"; }));
  CHECK(bears_ours(*lab, "wan.2"));
  // The agent that starts now finds it under its new name all the same.
  value_of(lab->agent().kill_hard());
  value_of(lab->start_agent());
  CHECK(state_of(*lab, "eth2").at("name") == "wan.2");
  CHECK(entry(*lab, *pod.v4).home == static_cast<std::uint32_t>(index));
  value_of(lab->node().ip("link set wan.2 down\nlink set wan.2 name eth2\nlink set eth2 mtu 1500\nlink set eth2 up"));
  CHECK(eventually([&] { return entry(*lab, *pod.v4).mtu == 1500; }));
  value_of(lab->del_pod("a"));
  value_of(lab->accept_changes({"eth2"}));  // going down cost eth2 its IPv6 addresses
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A vanished uplink says so in its entry, and its pods heal when it returns under another index") {
  auto lab = value_of(Lab::create({.uplinks = 2,
                                   .node_setup = "link add nic type veth peer name far\n"
                                                 "link set nic address 02:00:00:00:09:02\n"
                                                 "link set nic up\nlink set far up"}));
  value_of(lab->start_agent(
      R"({"uplinks": [{"name": "eth1"}, {"name": "nic", "gateway4": "10.9.0.1", "whenDown": "stack"}]})"));
  const int old_index = index_of(*lab, "nic");
  const std::string result =
      R"({"cniVersion":"1.0.0","interfaces":[{"name":"nic"}],"ips":[{"address":"10.9.1.1/16","gateway":"10.9.0.1"}]})";
  const Pod pod = value_of(lab->add_pod("a", {.ipam = Ipam::stub, .stub_result = result}));
  CHECK(entry(*lab, *pod.v4).home == static_cast<std::uint32_t>(old_index));

  value_of(lab->node().ip("link del nic"));
  CHECK(eventually([&] { return uplink_entry(*lab, old_index)->state == PDL_STATE_DOWN; }));
  CHECK(uplink_entry(*lab, old_index)->when_down == PDL_WHEN_DOWN_STACK);
  CHECK(eventually([&] { return state_of(*lab, "nic").at("state") == "missing"; }));
  CHECK(agent_state(*lab).at("ready") == true);

  value_of(
      lab->node().ip("link add nic7 type veth peer name far\nlink set nic7 address 02:00:00:00:09:02\n"
                     "link set nic7 up\nlink set far up"));
  const int new_index = index_of(*lab, "nic7");
  REQUIRE(new_index != old_index);
  CHECK(eventually([&] { return entry(*lab, *pod.v4).home == static_cast<std::uint32_t>(new_index); }));
  CHECK(eventually([&] { return !uplink_entry(*lab, old_index) && bears_ours(*lab, "nic7"); }));
  value_of(lab->del_pod("a"));
  value_of(lab->node().ip("link del nic7"));
  value_of(lab->accept_changes({"nic", "far"}));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A missing uplink appears later and is managed then") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  value_of(lab->start_agent(R"({"uplinks": [{"name": "eth1"}, {"name": "hot"}]})"));
  CHECK(state_of(*lab, "hot").at("state") == "missing");
  CHECK(state_of(*lab, "hot").at("reason") == "not found");
  value_of(lab->node().ip("link add hot type veth peer name far\nlink set far up\nlink set hot up"));
  CHECK(eventually([&] { return state_of(*lab, "hot").at("state") == "up" && bears_ours(*lab, "hot"); }));
  value_of(lab->node().ip("link del hot"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("With gatewayMac the gateway is a permanent neighbour, pods' entries show it, and unloading removes it") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  value_of(lab->start_agent(
      R"({"uplinks": [{"name": "eth1", "gateway4": "10.1.0.1", "gateway6": "fd00:1::1", "gatewayMac": "02:00:00:00:01:01"}]})"));
  const auto shown = [&] {
    return value_of(lab->node().run_ok({"ip", "neighbour", "show", "dev", "eth1", "nud", "permanent"}));
  };
  CHECK(shown().find("10.1.0.1 lladdr 02:00:00:00:01:01") != std::string::npos);
  CHECK(shown().find("fd00:1::1 lladdr 02:00:00:00:01:01") != std::string::npos);
  const Pod pod = value_of(lab->add_pod("a", {.ipam = Ipam::stub, .uplink = 1}));
  CHECK(eventually([&] { return to_mac(entry(*lab, *pod.v4).gateway_mac) == lab->uplink(1).gateway_mac(); }));
  // Somebody removes it: it comes back.
  value_of(lab->node().ip("neighbour del 10.1.0.1 dev eth1"));
  CHECK(eventually([&] { return shown().find("10.1.0.1 lladdr") != std::string::npos; }));
  value_of(lab->del_pod("a"));
  value_of(lab->agent().stop());
  REQUIRE(value_of(lab->unload_agent()).ok());
  CHECK(shown().empty());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("The gateway's MAC in a pod's entry is the neighbour table's") {
  auto lab = lab_with_agent({.uplinks = 1});
  const Pod pod = value_of(lab->add_pod("a", {.ipam = Ipam::stub, .uplink = 1}));
  value_of(ping(*pod.space, {.to = {*IpAddress::parse(outside4)}}));
  CHECK(eventually([&] { return to_mac(entry(*lab, *pod.v4).gateway_mac) == lab->uplink(1).gateway_mac(); }));
  value_of(lab->gateway(1).ip("link set eth0 address 02:00:00:00:01:77"));
  value_of(lab->node().ip("neighbour flush dev eth1"));
  value_of(ping(*pod.space, {.to = {*IpAddress::parse(outside4)}}));
  CHECK(eventually([&] { return to_mac(entry(*lab, *pod.v4).gateway_mac).text() == "02:00:00:00:01:77"; }));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D24: strict rp_filter on an uplink is refused with the reason, and managed where that is allowed") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  value_of(lab->node().sysctl({"net.ipv4.conf.eth2.rp_filter=1"}));
  value_of(lab->accept_changes({"eth2/rp_filter"}));
  value_of(lab->start_agent());
  CHECK(state_of(*lab, "eth2").at("state") == "refused");
  CHECK(std::string(state_of(*lab, "eth2").at("reason")).find("strict rp_filter") != std::string::npos);
  CHECK(state_of(*lab, "eth1").at("state") == "up");
  value_of(lab->agent().stop());

  value_of(lab->start_agent(R"({"uplinks": [{"name": "eth1"}, {"name": "eth2", "manageRpFilter": true}]})"));
  CHECK(state_of(*lab, "eth2").at("state") == "up");
  const auto value = [&] { return value_of(lab->node().run_ok({"sysctl", "-n", "net.ipv4.conf.eth2.rp_filter"})); };
  CHECK(value() == "2\n");
  value_of(lab->agent().kill_hard());
  value_of(lab->start_agent(R"({"uplinks": [{"name": "eth1"}, {"name": "eth2", "manageRpFilter": true}]})"));
  CHECK(value() == "2\n");
  value_of(lab->agent().stop());
  REQUIRE(value_of(lab->unload_agent()).ok());
  CHECK(value() == "1\n");
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Full maps and the lack of any uplink keep the agent from being ready, by name") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  using namespace std::chrono_literals;
  const auto full = lab->start_agent(R"({"uplinks": [{"name": "eth1"}], "mapSizes": {"nodes": 1}})");
  // One IPv4 and one IPv6 address of eth1 fit; the next IPv4 one does not.
  value_of(full);
  value_of(lab->node().ip("address add 10.98.0.1/32 dev lo"));
  CHECK(eventually([&] { return agent_state(*lab).at("ready") == false; }));
  CHECK(agent_state(*lab).at("reasons").dump().find("nodes4") != std::string::npos);
  value_of(lab->node().ip("address del 10.98.0.1/32 dev lo"));
  CHECK(eventually([&] { return agent_state(*lab).at("ready") == true; }));
  value_of(lab->agent().stop());

  const auto none = lab->start_agent(R"({"uplinks": [{"name": "nowhere"}]})",
                                     15s);  // it is never ready; to say why takes a slow machine some
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("no uplink is usable; nowhere: not found") != std::string::npos);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Stacked uplinks are refused by name") {
  auto lab = value_of(
      Lab::create({.uplinks = 2, .node_setup = "link add link eth2 name child type macvlan\nlink set child up"}));
  value_of(lab->start_agent(R"({"uplinks": [{"name": "eth1"}, {"name": "eth2"}, {"name": "child"}]})"));
  CHECK(state_of(*lab, "child").at("state") == "refused");
  CHECK(std::string(state_of(*lab, "child").at("reason")).find("stacked on eth2") != std::string::npos);
  CHECK(state_of(*lab, "eth2").at("state") == "up");
  REQUIRE_CLOSED(*lab);
}
