// SPDX-License-Identifier: Apache-2.0
// CHECK: silent where all is as ADD left it or as a later plugin may have changed it, and one named fault else.
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <functional>

#include "loader/base/file.h"
#include "loader/net/netns.h"
#include "loader/net/tc.h"
#include "maps/attachment.h"
#include "maps/paths.h"
#include "maps/podprog.h"
#include "maps/record.h"
#include "tests/e2e/stand_in.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr const char* dual =
    R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"},
        {"address":"fd00:1::9:7/64","gateway":"fd00:1::1"}],"routes":[{"dst":"203.0.113.0/24"}]})";

IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }

AttachmentId id_of(const Pod& pod) { return {"stub-ipam-eth1", pod.container_id, pod.options.if_name}; }

void change_entry(StandIn& node, const std::string& address, const std::function<void(pdl_pod&)>& change) {
  const Tables tables = value_of(node->tables());
  pdl_pod entry = value_of(tables.pods.find(ip(address))).value();
  change(entry);
  value_of(tables.pods.put(ip(address), entry));
}

}  // namespace

TEST_CASE("M5 M6: CHECK is content after ADD, again and again, and changes nothing") {
  StandIn node;
  const std::string mode = GENERATE("fast", "netfilter");
  const Pod pod = value_of(node->add_pod("p", stub_pod(dual, R"({"mode":")" + mode + "\"}", "0.4.0")));
  value_of(node->accept_changes({"pdl", "proxy", "group"}));
  const std::string before = value_of(read_file(record_path(node->run_dir(), attachment_hash(id_of(pod)))));
  value_of(node->check_pod("p"));
  value_of(node->check_pod("p"));
  CHECK(value_of(read_file(record_path(node->run_dir(), attachment_hash(id_of(pod))))) == before);
  CHECK(node.verbs() == "ADD CHECK CHECK");
  value_of(node->del_pod("p"));
  value_of(node->accept_changes({"pdl", "proxy", "group"}));
}

TEST_CASE("M3 M7 C64: CHECK bears what later plugins of the chain may do") {
  StandIn node;
  Pod pod = value_of(node->add_pod("p", stub_pod(dual)));
  // As `tuning` with a MAC, which flushes the permanent neighbours and is in the result that follows.
  value_of(pod.space->ip("link set eth0 address 02:0a:0b:0c:0d:0e"));
  std::string changed = pod.result.json;
  changed.replace(changed.find(pod.mac.text()), pod.mac.text().size(), "02:0a:0b:0c:0d:0e");
  value_of(pod.space->ip("address add 192.0.2.9/32 dev lo\nroute add 198.51.100.0/24 dev eth0"));
  changed = value_of(merged(changed, R"({"routes":[{"dst":"0.0.0.0/0"},{"dst":"172.31.0.0/16","gw":"172.31.0.1"}]})"));
  pod.result.json = changed;
  const PluginAnswer answer = value_of(node->call("CHECK", pod));
  INFO(answer.text());
  CHECK(answer.ok());
  value_of(node->del_pod("p"));
}

TEST_CASE("M1 M2 M4 M7 C62: CHECK names what is missing or changed") {
  StandIn node;
  Pod pod = value_of(node->add_pod("p", stub_pod(dual)));
  const std::string veth = pod.host_veth;
  unsigned code = 107;
  std::string text;
  SECTION("the container's interface") {
    value_of(pod.space->ip("link set eth0 down\nlink set eth0 name moved"));
    text = "no interface eth0";
  }
  SECTION("its state") {
    value_of(pod.space->ip("link set eth0 down"));
    text = "is down";
  }
  SECTION("its MAC") {
    value_of(pod.space->ip("link set eth0 address 02:0a:0b:0c:0d:0e"));
    text = "has MAC 02:0a:0b:0c:0d:0e";
  }
  SECTION("its MTU, where the version has it") {
    pod.result.json = value_of(merged(pod.result.json, R"({"cniVersion":"1.1.0","interfaces":[{"name":"x"},
        {"name":"eth0","sandbox":")" + pod.space->path() + R"(","mtu":1234}]})"));
    text = "MTU";
  }
  SECTION("an address") {
    value_of(pod.space->ip("address delete 10.1.9.7/32 dev eth0"));
    text = "lacks address 10.1.9.7";
  }
  SECTION("the default route") {
    value_of(pod.space->ip("route delete ::/0"));
    text = "::/0";
  }
  SECTION("a route of the IPAM plugin") {
    value_of(pod.space->ip("route delete 203.0.113.0/24"));
    text = "203.0.113.0/24";
  }
  SECTION("the way to the gateway") {
    value_of(pod.space->ip("route delete 169.254.1.1/32"));
    text = "169.254.1.1/32";
  }
  SECTION("the host side's state") {
    value_of(node->node().ip("link set " + veth + " down"));
    text = "down";
  }
  SECTION("the host's route") {
    value_of(node->node().ip("route delete 10.1.9.7/32"));
    text = "host lacks the route to 10.1.9.7/32";
  }
  SECTION("the program") {
    value_of(node->node().run_ok({"tc", "filter", "delete", "dev", veth, "ingress"}));
    text = "pod_egress is not attached";
  }
  SECTION("an entry") {
    value_of(value_of(node->tables()).pods.erase(ip("10.1.9.7")));
    text = "no entry for address 10.1.9.7";
  }
  SECTION("an entry's owner") {
    change_entry(node, "10.1.9.7", [](pdl_pod& entry) { entry.owner = 1; });
    text = "another pod's";
  }
  SECTION("an entry's veth") {
    change_entry(node, "10.1.9.7", [](pdl_pod& entry) { entry.veth = 1; });
    text = "another veth";
  }
  SECTION("an entry's home") {
    const auto other = static_cast<std::uint32_t>(value_of(node.link_index("eth2")));
    change_entry(node, "fd00:1::9:7", [other](pdl_pod& entry) { entry.home = other; });
    text = "another home";
  }
  SECTION("an entry's gateway") {
    change_entry(node, "10.1.9.7", [](pdl_pod& entry) { entry.gateway4[3] = 99; });
    text = "another gateway";
  }
  SECTION("an entry's mode") {
    change_entry(node, "10.1.9.7", [](pdl_pod& entry) { entry.mode = PDL_MODE_NETFILTER; });
    text = "another mode";
  }
  SECTION("the uplink") {
    const auto index = static_cast<std::uint32_t>(value_of(node.link_index("eth1")));
    value_of(value_of(node->tables()).uplinks.erase(index));
    text = "uplink eth1";
  }
  SECTION("the proxy neighbour") {
    value_of(node->node().ip("neighbour delete proxy fd00:1::9:7 dev eth1"));
    text = "proxy neighbour for fd00:1::9:7";
  }
  SECTION("the record") {
    value_of(remove_file(record_path(node->run_dir(), attachment_hash(id_of(pod)))));
    text = "no record";
  }
  SECTION("the end of ADD") {
    Record record = value_of(load_record(node->run_dir(), id_of(pod))).value();
    record.state = RecordState::adding;
    value_of(store_record(node->run_dir(), record));
    text = "never finished";
  }
  SECTION("the maps") {
    value_of(node.unpin());
    code = 102;
    text = "the agent has not run";
  }
  SECTION("prevResult") {
    pod.result.json.clear();
    code = 7;
    text = "'prevResult' is missing";
  }
  SECTION("an interface in prevResult") {
    pod.result.json = value_of(merged(pod.result.json, R"({"ips":[{"address":"10.1.9.7/32","interface":5}]})"));
    code = 7;
    text = "interfaces[5]";
  }
  SECTION("the sandbox of prevResult") {
    const std::string path = pod.space->path();
    pod.result.json.replace(pod.result.json.find(path), path.size(), "/run/netns/other");
    text = "sandbox /run/netns/other";
  }
  SECTION("the IPAM plugin's consent") {
    pod.config = value_of(merged(pod.config, R"({"ipam":{"behave":{"CHECK":"fail"}}})"));
    code = 111;
    text = "ipam stub-ipam";
  }
  const PluginAnswer answer = value_of(node->call("CHECK", pod));
  INFO(answer.text());
  CHECK(answer.faults.empty());
  CHECK(answer.code == code);
  CHECK_THAT(answer.message, ContainsSubstring(text));
  const PluginAnswer deleted = value_of(node->call("DEL", pod));
  INFO(deleted.text());
  CHECK(deleted.ok());
  value_of(node->forget_pod("p"));
  if (text == "another pod's") value_of(value_of(node->tables()).pods.erase(ip("10.1.9.7")));
  REQUIRE_CLEAN(*node);
  if (!std::filesystem::exists(node->pin_dir())) value_of(node.pin());
}
