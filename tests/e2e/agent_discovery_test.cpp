// SPDX-License-Identifier: Apache-2.0
// Uplinks that nobody listed: found by what the interfaces are, refused by name with the reason, used by pods whose
// IPAM plugin names no gateway. Bonds are what a test can make of the kinds that discovery takes.
#include <algorithm>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/e2e/agent_probe.h"
#include "tests/harness/outside.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

namespace {

bool kernel_makes(const std::string& kind) {
  Namespace probe = value_of(Namespace::create("pdl-probe"));
  const bool made = value_of(probe.run({"ip", "link", "add", "probe0", "type", kind})).ok();
  value_of(probe.remove());
  return made;
}

// A bond in the place of a lab's veth, with its name and MAC.
std::string bond_of(unsigned number, const std::string& name) {
  return formatted(
      "link add {0} address {2} type bond mode active-backup miimon 50\n"
      "link set port{1} down\nlink set port{1} master {0}\nlink set {0} up\n",
      name, number, Uplink{number}.mac().text());
}

// Uplinks 1…count are bonds without addresses, but for what `more` gives them.
std::unique_ptr<Lab> bonded_lab(unsigned count, const std::string& more) {
  std::string setup;
  for (unsigned i = 1; i <= count; ++i)
    setup += formatted("link set eth{0} down\nlink set eth{0} name port{0}\n{1}", i, bond_of(i, formatted("eth{}", i)));
  return value_of(Lab::create({.uplinks = count, .addressless = true, .node_setup = setup + more}));
}

std::string how(const Lab& lab, const std::string& interface) {
  const auto line = state_of(lab, interface);
  return line.is_null() ? "" : line.at("how").get<std::string>();
}

std::string refusal(const Lab& lab, const std::string& interface) {
  const auto line = state_of(lab, interface);
  return line.is_null() || line.at("state") != "refused" ? "" : line.at("reason").get<std::string>();
}

std::optional<pdl_uplink> uplink_entry(const Lab& lab, const std::string& interface) {
  return value_of(value_of(lab.tables()).uplinks.find(static_cast<std::uint32_t>(index_of(lab, interface))));
}

bool is_home(const Lab& lab, const std::string& interface, pdl_state state = PDL_STATE_UP) {
  const auto entry = uplink_entry(lab, interface);
  return entry && entry->role == PDL_ROLE_HOME && entry->state == state;
}

PodOptions without_gateway(const std::string& uplink, const std::string& address) {
  return {
      .ipam = Ipam::stub,
      .network = "net-" + uplink,
      .stub_result = formatted(R"({{"cniVersion":"1.0.0","interfaces":[{{"name":"{}"}}],"ips":[{{"address":"{}"}}]}})",
                               uplink, address)};
}

// One echo, out of this uplink alone, by its gateway's MAC, and back.
void leaves_by(const Lab& lab, const Pod& pod, unsigned uplink, const Outside& outside) {
  INFO(pod.name << " by eth" << uplink);
  value_of(ping(*pod.space, {.to = Outside::echo(Family::v4)}));
  CHECK_THAT(lines_of(outside.faults_from(*pod.v4, lab.uplink(uplink))), Equals(""));
}

PluginAnswer status(Lab& lab) {
  return value_of(lab.invoke({.verb = "STATUS", .if_name = "", .config = lab.pod_config({.version = "1.1.0"})}));
}

// What this kernel can make of software interfaces, all with an address that a gateway could be inferred from.
std::vector<std::pair<std::string, std::string>> add_software_links(const Lab& lab) {
  const std::vector<std::pair<std::string, std::string>> asked = {
      {"bridge", "link add ens1 type bridge"},
      {"veth", "link add ens2 type veth peer name ens3"},
      {"macvlan", "link add link eth2 name ens4 type macvlan"},
      {"vxlan", "link add ens5 type vxlan id 5 dstport 4789 remote 10.1.0.1 dev eth1"},
      {"tun", "tuntap add ens6 mode tap"},
      {"ifb", "link add ens7 type ifb"},
      {"dummy", "link add ens8 type dummy"},
      {"vlan", "link add link eth2 name ens9 type vlan id 9"},
      {"vrf", "link add ens10 type vrf table 10"},
      {"ipvlan", "link add link eth2 name ens11 type ipvlan"},
      {"netkit", "link add ens12 address 02:00:00:00:12:12 type netkit mode l2 peer name ens13"},
      {"geneve", "link add ens14 type geneve id 14 remote 10.1.0.1"},
      {"gretap", "link add ens15 type gretap local 10.1.0.10 remote 10.1.0.1"},
      {"macsec", "link add link eth2 name ens16 type macsec"},
      // The one without a kind. The first command fails where the kernel has none.
      {"",
       "l2tp add tunnel tunnel_id 17 peer_tunnel_id 17 encap udp local 10.1.0.10 remote 10.1.0.1 udp_sport 1701 "
       "udp_dport 1701\nl2tp add session name ens17 tunnel_id 17 session_id 17 peer_session_id 17"},
  };
  std::vector<std::pair<std::string, std::string>> made;
  for (const auto& [kind, command] : asked) {
    const std::size_t place = command.find("ens");
    const std::string name = command.substr(place, command.find(' ', place) - place);
    if (!lab.node().ip(command)) continue;
    value_of(lab.node().ip(formatted("link set {0} up\naddress add 10.{1}.0.9/24 dev {0}", name, 100 + made.size())));
    made.emplace_back(name, kind);
  }
  value_of(lab.node().ip("link add ens20 type veth peer name ens21\nlink set ens20 master ens1\nlink set ens20 up"));
  // The kernel tells of carriers within a second.
  std::string seen;
  unsigned same = 0;
  REQUIRE(eventually(
      [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        const std::string now = value_of(lab.node().run_ok({"ip", "link"}));
        same = now == seen ? same + 1 : 0;
        seen = now;
        return same > 12;
      },
      patience));
  return made;
}

}  // namespace

TEST_CASE("Without any usable uplink the agent says at once why, interface by interface, and nothing can be added") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  const auto software = add_software_links(*lab);
  REQUIRE(software.size() >= 6);
  // The module of gretap, where it is one, brings devices of its own into every namespace.
  value_of(lab->accept_changes({"ens", "eth2", "l3mdev", "gre", "erspan"}));

  Result<> started;
  std::thread starter([&] { started = lab->start_agent("{}", 2 * patience); });
  const bool told = in_time([&] {
    const auto state = agent_state(*lab);
    return !state.is_null() && state.at("ready") == false;
  });
  // Told to use what is there, it does.
  const auto state = agent_state(*lab);
  const auto asked = told ? status(*lab) : PluginAnswer();
  const auto listed = write_file_atomically(lab->folder() + "/agent.json", lab->default_agent_config());
  starter.join();
  REQUIRE(told);
  CHECK(asked.code == 50);
  CHECK_THAT(asked.text(), ContainsSubstring("no uplink was discovered"));
  CHECK_THAT(state.at("reasons").dump(), ContainsSubstring("no uplink was discovered") &&
                                             ContainsSubstring("eth1: virtual interface of kind veth"));
  value_of(listed);
  value_of(started);
  CHECK(status(*lab).ok());

  value_of(write_file_atomically(lab->folder() + "/agent.json", "{}"));
  REQUIRE(in_time([&] { return agent_state(*lab).at("ready") == false; }));
  for (const auto& [name, kind] : software) {
    INFO(name << " of kind " << kind);
    CHECK(refusal(*lab, name) == formatted("virtual interface {}; list it in 'uplinks' if it is one",
                                           kind.empty() ? "without a device beneath" : "of kind " + kind));
    const auto entry = uplink_entry(*lab, name);
    CHECK((!entry || entry->role == PDL_ROLE_TRANSIT));  // for its connected route
  }
  CHECK_THAT(refusal(*lab, "ens20"), ContainsSubstring("kind veth"));
  CHECK(refusal(*lab, "lo").empty());
  CHECK(uplink_entry(*lab, "eth1")->role == PDL_ROLE_TRANSIT);
  value_of(lab->agent().stop());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Uplinks are discovered in passes, and pods leave by them to the gateway that is known or inferred") {
  if (!kernel_makes("bond")) SKIP("this kernel has no bonds, and hardware belongs to the machine");
  auto lab = bonded_lab(4,
                        "address add 10.1.0.10/16 dev eth1\nroute add default via 10.1.0.1 dev eth1 metric 100\n"
                        "address add 10.1.0.12/16 dev eth2\n"
                        "address add 10.3.0.10/16 dev eth3\naddress add 10.3.64.1/24 dev lo\n"
                        "address add 10.4.0.10/16 dev eth4\nroute add default via 10.4.0.1 dev eth4 metric 200\n"
                        "link add idle type bond\nlink add link eth1 name eth1.7 type vlan id 7\nlink set eth1.7 up\n"
                        "address add 10.7.0.10/16 dev eth1.7");
  value_of(lab->gateway(2).ip("address add 10.1.0.1/16 dev eth0"));
  value_of(lab->gateway(3).ip("address add 10.3.128.129/25 dev eth0"));
  value_of(lab->start_agent(R"({"steerNode": true})"));
  CHECK(how(*lab, "eth1") == "discovered: own default route by 10.1.0.1");
  CHECK(how(*lab, "eth2") == "discovered: same subnet 10.1.0.0/16 as the primary");
  CHECK(how(*lab, "eth3") == "discovered: gateway inferred as 10.3.0.1");
  CHECK(how(*lab, "eth4") == "discovered: own default route by 10.4.0.1");
  std::vector<std::string> order;
  const auto state = agent_state(*lab);
  for (const auto& line : state.at("uplinks")) {
    if (line.at("role") == "home") order.push_back(line.at("name"));
  }
  CHECK(order == std::vector<std::string>{"eth1", "eth4", "eth2", "eth3"});
  CHECK(refusal(*lab, "port1") == "virtual interface of kind veth; list it in 'uplinks' if it is one");
  CHECK(refusal(*lab, "idle") == "is down");
  CHECK_THAT(refusal(*lab, "eth1.7"), ContainsSubstring("kind vlan"));
  for (const char* name : {"eth1", "eth2", "eth3", "eth4"}) {
    const pdl_uplink entry = uplink_entry(*lab, name).value();
    CHECK((entry.flags & PDL_UPLINK_DISCOVERED) != 0);
    CHECK(((entry.flags & PDL_UPLINK_PRIMARY) != 0) == (std::string(name) == "eth1"));
  }

  struct Case {
    unsigned uplink;
    const char* address;
    const char* gateway;
  };
  const Outside outside = value_of(Outside::watch(*lab));
  for (const Case& one :
       {Case{1, "10.1.9.1/16", "10.1.0.1"}, Case{2, "10.1.9.2/16", "10.1.0.1"}, Case{3, "10.3.9.3/16", "10.3.0.1"},
        Case{3, "10.3.128.130/25", "10.3.128.129"}, Case{4, "10.4.9.4/16", "10.4.0.1"}}) {
    const Pod pod = value_of(lab->add_pod("a", without_gateway(formatted("eth{}", one.uplink), one.address)));
    const auto entry = value_of(value_of(lab->tables()).pods.find(*pod.v4));
    REQUIRE(entry);
    CHECK(IpAddress::v4(entry->gateway4).text() == one.gateway);
    leaves_by(*lab, pod, one.uplink, outside);
    value_of(lab->del_pod("a"));
  }
  // The node's own address, too, where it has to be steered.
  value_of(send_udp(lab->node(), {.to = Outside::echo(Family::v4), .from = *IpAddress::parse("10.3.0.10")}));
  CHECK(outside.at(3).wait_for(
      both(received_from(*IpAddress::parse("10.3.0.10")), sent_to(Outside::address(Family::v4)))));

  for (const auto& [address, reason] : {std::pair("10.3.9.9/31", "has no gateway"),
                                        {"10.3.9.9/32", "has no gateway"},
                                        {"10.3.0.1/16", "has no gateway"},
                                        {"10.3.64.9/24", "is an address of this node"},
                                        {"fd00:3::9/64", "has no gateway"}}) {
    INFO(address);
    const Pod pod = value_of(lab->make_pod("b", without_gateway("eth3", address)));
    const PluginAnswer refused = value_of(lab->call("ADD", pod));
    CHECK_FALSE(refused.ok());
    CHECK_THAT(refused.message + refused.details, ContainsSubstring(reason));
    value_of(pod.space->remove());
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A discovered uplink stays one: down, over restarts, under another index and name; equal MACs are refused") {
  if (!kernel_makes("bond")) SKIP("this kernel has no bonds, and hardware belongs to the machine");
  auto lab = bonded_lab(2,
                        "address add 10.1.0.10/16 dev eth1\nroute add default via 10.1.0.1 dev eth1\n"
                        "address add 10.2.0.10/16 dev eth2");
  value_of(lab->start_agent("{}"));
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod pod = value_of(lab->add_pod("a", without_gateway("eth2", "10.2.9.1/16")));
  leaves_by(*lab, pod, 2, outside);

  value_of(lab->node().ip("link set eth2 down"));
  REQUIRE(in_time([&] { return is_home(*lab, "eth2", PDL_STATE_DOWN); }));
  value_of(lab->agent().kill_hard());
  value_of(lab->start_agent("{}"));
  CHECK(is_home(*lab, "eth2", PDL_STATE_DOWN));
  CHECK(how(*lab, "eth2") == "discovered before");
  value_of(send_ping(*pod.space, {.to = Outside::echo(Family::v4)}));
  value_of(lab->node().ip("link set eth2 up"));
  REQUIRE(in_time([&] { return is_home(*lab, "eth2"); }));
  leaves_by(*lab, pod, 2, outside);

  value_of(lab->node().ip("link del eth2"));
  REQUIRE(in_time([&] { return state_of(*lab, "eth2").at("state") == "missing"; }));
  CHECK(agent_state(*lab).at("ready") == true);
  value_of(lab->node().ip(bond_of(2, "wan") + "address add 10.2.0.10/16 dev wan"));
  REQUIRE(in_time([&] { return is_home(*lab, "wan"); }));
  leaves_by(*lab, pod, 2, outside);

  // One more with its MAC, and one that appears: the first is refused, the second is found.
  value_of(lab->node().ip(
      formatted("link add twin address {} type bond\nlink set twin up\naddress add 10.3.0.10/16 dev twin\n"
                "link add hot type bond\nlink set hot up\naddress add 10.5.0.10/16 dev hot",
                lab->uplink(2).mac().text())));
  CHECK(in_time([&] { return refusal(*lab, "twin").find("of uplink wan") != std::string::npos; }));
  CHECK(in_time([&] { return how(*lab, "hot") == "discovered: gateway inferred as 10.5.0.1"; }));
  // A bridge's port is none any more, and the bridge is none.
  value_of(lab->node().ip("link add br0 type bridge\nlink set hot master br0"));
  CHECK(in_time([&] { return refusal(*lab, "hot") == "belongs to br0"; }));
  CHECK_THAT(refusal(*lab, "br0"), ContainsSubstring("kind bridge"));
  CHECK(is_home(*lab, "wan"));
  CHECK(is_home(*lab, "eth1"));
  leaves_by(*lab, pod, 2, outside);
  value_of(lab->del_pod("a"));
  value_of(lab->accept_changes({"eth2", "port2", "wan", "twin", "hot", "br0"}));
  REQUIRE_CLOSED(*lab);
}
