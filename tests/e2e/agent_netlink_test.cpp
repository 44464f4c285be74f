// SPDX-License-Identifier: Apache-2.0
// Uplinks that change their name, MAC, index and state under the agent's hands, and a kernel that tells of it in bits
// or not at all: a pod leaves by its own uplink afterwards, as before.
#include <algorithm>
#include <csignal>

#include <nlohmann/json.hpp>

#include "loader/net/link.h"
#include "tests/e2e/agent_probe.h"
#include "tests/harness/outside.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

std::optional<pdl_uplink> uplink_entry(const Lab& lab, int index) {
  return value_of(value_of(lab.tables()).uplinks.find(static_cast<std::uint32_t>(index)));
}

bool is_up(const Lab& lab, int index) {
  const auto entry = uplink_entry(lab, index);
  return entry && entry->state == PDL_STATE_UP;
}

int home_of(const Lab& lab, const Pod& pod) {
  const auto entry = value_of(value_of(lab.tables()).pods.find(*pod.v4));
  return entry ? static_cast<int>(entry->home) : 0;
}

// An echo out of this pod's home alone, from the uplink's MAC as it is now, and back; and CHECK has nothing to say.
void leaves_by_home(Lab& lab, const Pod& pod, const Outside& outside, const MacAddress& mac) {
  value_of(ping(*pod.space, {.to = Outside::echo(Family::v4)}));
  const auto wanted = both(received_from(*pod.v4), sent_to(Outside::address(Family::v4)));
  for (const unsigned number : lab.uplink_numbers()) {
    INFO(pod.name << " at gateway " << number);
    if (number != pod.uplink) CHECK(outside.at(number).count(received_from(*pod.v4)) == 0);
  }
  const auto frames = outside.at(pod.uplink).frames(wanted);
  REQUIRE_FALSE(frames.empty());
  CHECK(frames.back().packet.source_mac == mac);
  CHECK(frames.back().packet.ttl == forwarded_ttl);
  value_of(lab.check_pod(pod.name));
}

bool is_proxied(const Lab& lab, const std::string& interface, const IpAddress& address) {
  const std::string shown = value_of(lab.node().run_ok({"ip", "-6", "neighbour", "show", "proxy", "dev", interface}));
  return shown.find(address.text() + " ") != std::string::npos;
}

}  // namespace

TEST_CASE("An uplink that gets other names and MACs, one by one and at once, keeps its pods, also over a restart") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const int index = index_of(*lab, "eth2");
  const MacAddress first = lab->uplink(2).mac();
  std::vector<Pod> pods{value_of(lab->add_pod("a", {.ipam = Ipam::stub, .uplink = 2}))};
  const auto changes = [&](const std::string& commands, const std::string& name, const MacAddress& mac) {
    INFO(commands);
    value_of(lab->node().ip(commands));
    REQUIRE(in_time([&] {
      const auto entry = uplink_entry(*lab, index);
      return entry && entry->name == name && to_mac(entry->mac) == mac && entry->state == PDL_STATE_UP;
    }));
    // Its neighbours learn of another MAC by themselves, in time.
    value_of(lab->gateway(2).ip("neighbour flush dev eth0"));
    for (const Pod& pod : pods) {
      CHECK(in_time([&] { return home_of(*lab, pod) == index && is_proxied(*lab, name, *pod.v6); }));
      leaves_by_home(*lab, pod, outside, mac);
    }
  };
  const auto mac = [](const char* text) { return MacAddress::parse(text).value(); };
  changes("link set eth2 down\nlink set eth2 name wan\nlink set wan up", "wan", first);
  changes("link set wan address 02:00:00:00:aa:01", "wan", mac("02:00:00:00:aa:01"));
  pods.push_back(value_of(lab->add_pod("b", {.ipam = Ipam::stub, .uplink = 2, .patch = R"({"ipam": {"result":
      {"cniVersion": "1.0.0", "interfaces": [{"name": "wan"}],
       "ips": [{"address": "10.2.77.1/16", "gateway": "10.2.0.1"}, {"address": "fd00:2::77/64", "gateway": "fd00:2::1"}]}}})"})));
  value_of(lab->agent().kill_hard());
  value_of(lab->start_agent());
  changes("link set wan down\nlink set wan name far address 02:00:00:00:aa:02\nlink set far up", "far",
          mac("02:00:00:00:aa:02"));
  value_of(lab->agent().stop());
  value_of(lab->node().ip("link set far address 02:00:00:00:aa:03"));
  value_of(lab->start_agent());
  changes("link set far mtu 1400", "far", mac("02:00:00:00:aa:03"));
  changes(formatted("link set far mtu 1500\nlink set far address {}\nlink set far down\nlink set far name eth2\n"
                    "link set eth2 up",
                    first.text()),
          "eth2", first);
  for (const char* name : {"a", "b"}) value_of(lab->del_pod(name));
  value_of(lab->accept_changes({"eth2"}));  // going down cost eth2 its IPv6 addresses
  REQUIRE_CLOSED(*lab);
}

TEST_CASE(
    "D02: uplinks have the numbers of route tables, also one that returns under another, and no table is touched") {
  const auto nic = [](int index) {
    return formatted(
        "link add nic{0} index {0} type veth peer name eth0 netns pdl-lab-gw2\n"
        "link set nic{0} address 02:00:00:00:02:02\nlink set nic{0} up\naddress add 10.2.0.10/16 dev nic{0}",
        index);
  };
  auto lab = value_of(Lab::create({.uplinks = 2}));
  const auto replug = [&](int from, int to) {
    value_of(lab->node().ip(from == 0 ? "link del eth2" : formatted("link del nic{}", from)));
    value_of(lab->node().ip(nic(to)));
    value_of(lab->gateway(2).ip(
        "link set eth0 address 02:00:00:00:02:01\nlink set eth0 up\naddress add 10.2.0.1/16 dev eth0"));
  };
  replug(0, 253);
  value_of(lab->start_agent(R"({"uplinks": [{"name": "eth1"}, {"mac": "02:00:00:00:02:02"}]})"));
  const Pod pod = value_of(lab->add_pod("a", {.ipam = Ipam::stub, .uplink = 2}));
  const auto routes = [&] {
    return value_of(lab->node().run_ok({"ip", "route", "show", "table", "all", "type", "unicast"}));
  };
  for (const int index : {254, 255}) {
    replug(index - 1, index);
    REQUIRE(in_time([&] { return home_of(*lab, pod) == index && is_up(*lab, index); }));
    CHECK(in_time([&] { return is_proxied(*lab, formatted("nic{}", index), *pod.v6); }));
    const Outside outside = value_of(Outside::watch(*lab));
    leaves_by_home(*lab, pod, outside, lab->uplink(2).mac());
    CHECK_THAT(routes(), ContainsSubstring("default via 10.1.0.1 dev eth1"));
    CHECK_THAT(routes(), !ContainsSubstring(" table "));
  }
  value_of(lab->del_pod("a"));
  value_of(lab->accept_changes({"eth2", "nic"}));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("What happened while the kernel's events were lost is found all the same") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod pod = value_of(lab->add_pod("a", {.ipam = Ipam::stub, .uplink = 2}));
  const int index = index_of(*lab, "eth2");
  value_of(lab->agent().kill(SIGSTOP));
  value_of(
      lab->node().ip("link set eth2 down\nlink set eth2 name wan\nlink set wan up\naddress add 10.99.0.1/32 dev lo"));
  // More than the socket holds, and the last of it says nothing of what came first.
  std::string flood;
  for (int i = 0; i < 12000; ++i)
    flood += formatted("address {} 10.98.{}.{}/32 dev lo\n", i % 2 == 0 ? "add" : "del", i / 2 / 250, i / 2 % 250);
  value_of(lab->node().ip(flood));
  value_of(lab->agent().kill(SIGCONT));
  CHECK(in_time([&] { return lab->agent().log().find("netlink events were lost") != std::string::npos; }));
  CHECK(in_time([&] { return state_of(*lab, "eth2").at("name") == "wan"; }));
  const auto nodes = [&] { return value_of(lab->tables()).nodes; };
  CHECK(in_time([&] { return value_of(nodes().find(*IpAddress::parse("10.99.0.1"))).has_value(); }));
  CHECK_FALSE(value_of(nodes().find(*IpAddress::parse("10.98.0.1"))));
  CHECK(home_of(*lab, pod) == index);
  leaves_by_home(*lab, pod, outside, lab->uplink(2).mac());
  value_of(
      lab->node().ip("address del 10.99.0.1/32 dev lo\nlink set wan down\nlink set wan name eth2\nlink set eth2 up"));
  CHECK(in_time([&] { return state_of(*lab, "eth2").at("name") == "eth2"; }));
  value_of(lab->del_pod("a"));
  value_of(lab->accept_changes({"eth2"}));  // going down cost eth2 its IPv6 addresses
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("An agent that starts while interfaces, addresses and routes come and go without end sees what is there") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  // Every list that is read meanwhile changes under the reader.
  std::string batch;
  for (int round = 0; round < 2000; ++round) {
    for (int i = 1; i <= 8; ++i)
      batch += formatted(
          "link add churn{0} type veth peer name other{0}\nlink set churn{0} up\n"
          "address add 10.77.{0}.1/24 dev churn{0}\n",
          i);
    for (int i = 1; i <= 8; ++i) batch += formatted("link del churn{}\n", i);
  }
  const std::string file = lab->folder() + "/churn";
  value_of(write_file_atomically(file, batch));
  auto churn = value_of(
      Background::start({.argv = {"ip", "-batch", file}, .netns_fd = lab->node().fd()}, lab->folder() + "/churn.log"));
  value_of(lab->start_agent({}, patience));
  const Pod pod = value_of(lab->add_pod("a", {.ipam = Ipam::stub, .uplink = 2}));
  value_of(lab->node().ip("address add 10.99.0.1/32 dev lo"));
  const auto nodes = [&] { return value_of(lab->tables()).nodes; };
  CHECK(in_time([&] { return value_of(nodes().find(*IpAddress::parse("10.99.0.1"))).has_value(); }));
  CHECK(churn.running());
  value_of(churn.signal(SIGKILL));
  REQUIRE(churn.wait(patience));
  Netlink netlink = value_of(Netlink::open_in(lab->node().fd()));
  for (const Link& link : value_of(dump_links(netlink))) {
    if (link.name.starts_with("churn")) value_of(delete_link(netlink, link.index));
  }
  value_of(lab->node().ip("address del 10.99.0.1/32 dev lo"));
  CHECK(in_time([&] {
    return !value_of(nodes().find(*IpAddress::parse("10.99.0.1"))) &&
           !value_of(nodes().find(*IpAddress::parse("10.77.1.1"))) && agent_state(*lab).at("ready") == true;
  }));
  const Outside outside = value_of(Outside::watch(*lab));
  leaves_by_home(*lab, pod, outside, lab->uplink(2).mac());
  REQUIRE_CLOSED(*lab);
}
