// SPDX-License-Identifier: Apache-2.0
// Whose is it: a late verb, a used-again address, index, name or namespace never leads to what another attachment owns.
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>

#include "loader/base/file.h"
#include "maps/attachment.h"
#include "maps/record.h"
#include "tests/e2e/stand_in.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr const char* dual =
    R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"},
        {"address":"fd00:1::9:7/64","gateway":"fd00:1::1"}]})";

IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }

Pod added(StandIn& node, const std::string& name, const PodOptions& options) {
  Pod pod = value_of(node.make_pod(name, options));
  value_of(node->adopt(pod, value_of(node->call("ADD", pod))));
  return pod;
}

void require_intact(StandIn& node, const Pod& pod) {
  const PluginAnswer answer = value_of(node->call("CHECK", pod));
  INFO(pod.name << ": " << answer.text());
  CHECK(answer.ok());
}

std::string proxies(StandIn& node) { return value_of(node->node().run_ok({"ip", "neigh", "show", "proxy"})); }

}  // namespace

TEST_CASE("K7 D43 C18: a late DEL of a sandbox leaves the next sandbox of the same pod alone") {
  StandIn node;
  PodOptions options;
  options.uplink = 1;
  options.args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0";
  const Pod first = added(node, "first", options);
  const Pod second = added(node, "second", options);
  CHECK(first.v4 != second.v4);
  CHECK(value_of(node->call("DEL", first)).ok());
  require_intact(node, second);
  // Once more, when its address may be the next pod's.
  PodOptions same = options;
  same.patch = formatted(R"({{"runtimeConfig":{{"ips":["{}"]}}}})", first.v4->text());
  const Pod third = added(node, "third", same);
  CHECK(third.v4 == first.v4);
  CHECK(value_of(node->call("DEL", first)).ok());
  require_intact(node, second);
  require_intact(node, third);
  for (const Pod& pod : {second, third}) CHECK(value_of(node->call("DEL", pod)).ok());
}

TEST_CASE(
    "D43 D54 C14: a late DEL of a pod whose veth is gone leaves entry and proxy neighbour to the address's new pod") {
  StandIn node;
  const Pod gone = added(node, "gone", stub_pod(dual));
  value_of(node->node().ip("link delete " + gone.host_veth));
  const Pod heir = added(node, "heir", stub_pod(dual));
  CHECK_THAT(proxies(node), ContainsSubstring("fd00:1::9:7 dev eth1"));
  CHECK(value_of(node->call("DEL", gone)).ok());
  CHECK_THAT(proxies(node), ContainsSubstring("fd00:1::9:7 dev eth1"));
  require_intact(node, heir);
  const auto entry = value_of(value_of(node->tables()).pods.find(ip("fd00:1::9:7")));
  REQUIRE(entry);
  CHECK(entry->owner == attachment_hash({"stub-ipam-eth1", heir.container_id, "eth0"}));
  CHECK(value_of(node->call("DEL", heir)).ok());
  CHECK(proxies(node).empty());
}

TEST_CASE("K6: an interface that got the index of a pod's veth is not taken for it") {
  StandIn node;
  const std::string verb = GENERATE("DEL", "GC");
  const Pod pod = added(node, "p", stub_pod(dual, "", "1.1.0"));
  const int index = value_of(node.link_index(pod.host_veth));
  value_of(node->node().ip("link delete " + pod.host_veth));
  value_of(node->node().ip(formatted("link add other0 index {} type veth peer name other1", index)));
  REQUIRE(value_of(node.link_index("other0")) == index);
  const harness::Invocation gc{
      .verb = "GC", .if_name = "", .config = value_of(merged(pod.config, R"({"cni.dev/valid-attachments":[]})"))};
  const PluginAnswer answer = verb == "DEL" ? value_of(node->call("DEL", pod)) : value_of(node->invoke(gc));
  INFO(answer.text());
  CHECK(answer.ok());
  CHECK(value_of(node.link_index("other0")) == index);
  value_of(node->node().ip("link delete other0"));
  REQUIRE_CLEAN(*node);
}

TEST_CASE("I7 K6: an interface that got the index of a dead pod's veth does not keep the pod's address alive") {
  StandIn node;
  const Pod dead = added(node, "dead", stub_pod(dual));
  const int index = value_of(node.link_index(dead.host_veth));
  value_of(node->node().ip("link delete " + dead.host_veth));
  value_of(node->node().ip(formatted("link add other0 index {} type veth peer name other1", index)));
  const Pod heir = added(node, "heir", stub_pod(dual));
  require_intact(node, heir);
  value_of(node->node().ip("link delete other0"));
  for (const Pod& pod : {dead, heir}) CHECK(value_of(node->call("DEL", pod)).ok());
}

TEST_CASE("K6 J5: CNI_NETNS that leads to a foreign namespace costs nobody an interface") {
  StandIn node;
  const Pod pod = added(node, "p", stub_pod(dual));
  const PodOptions options =
      stub_pod(R"({"interfaces":[{"name":"eth2"}],"ips":[{"address":"10.2.9.7/16","gateway":"10.2.0.1"}]})");
  const Pod other = added(node, "other", options);
  const auto del_in = [&](const std::string& netns, const std::string& if_name) {
    const PluginAnswer answer = value_of(node->invoke(
        {.verb = "DEL", .container_id = "stranger", .netns = netns, .if_name = if_name, .config = pod.config}));
    INFO(answer.text());
    CHECK(answer.ok());
  };
  del_in(other.space->path(), "eth0");
  del_in(node->node().path(), "eth1");
  del_in("/proc/self/ns/net", "eth1");
  del_in(node->node().path(), pod.host_veth);
  require_intact(node, pod);
  require_intact(node, other);
  // The right attachment, whose namespace's path is another container's by now.
  const PluginAnswer moved = value_of(node->invoke(
      {.verb = "DEL", .container_id = pod.container_id, .netns = other.space->path(), .config = pod.config}));
  CHECK(moved.ok());
  require_intact(node, other);
  CHECK(value_of(pod.space->run_ok({"ip", "-br", "link"})).find("eth0") == std::string::npos);
  CHECK(value_of(node->call("DEL", other)).ok());
}

TEST_CASE("J15 G3 J6: two interfaces of one container and two networks are four attachments") {
  StandIn node;
  PodOptions options;
  options.uplink = 1;
  options.version = "1.1.0";
  std::vector<Pod> pods;
  const Pod base = value_of(node.make_pod("p", options));
  for (const std::string network : {"one", "two"}) {
    for (const std::string if_name : {"net0", "net1"}) {
      Pod pod = base;
      pod.options.if_name = network == "one" ? if_name : if_name + "b";
      pod.config = value_of(merged(base.config, R"({"name":")" + network + "\"}"));
      if (network == "two") {  // its IPAM plugin does not know of the other network's addresses
        const std::string pool =
            R"({"ipam":{"pools":[{"uplink":"eth2","ranges":["10.2.1.1-10.2.1.9"],"prefix":16,"gateway":"10.2.0.1"}],
            "routes":[]}})";
        pod.config = value_of(merged(pod.config, pool));
      }
      const PluginAnswer answer = value_of(node->call("ADD", pod));
      INFO(answer.text());
      REQUIRE(answer.ok());
      pod.result = *answer.result;
      pods.push_back(pod);
    }
  }
  CHECK(value_of(load_records(node->run_dir())).size() == 4);
  for (const Pod& pod : pods) require_intact(node, pod);
  // GC of one network with one of its two.
  const std::string list =
      formatted(R"({{"cni.dev/valid-attachments":[{{"containerID":"{}","ifname":"net1"}}]}})", base.container_id);
  const PluginAnswer collected =
      value_of(node->invoke({.verb = "GC", .if_name = "", .config = value_of(merged(pods[0].config, list))}));
  INFO(collected.text());
  CHECK(collected.ok());
  for (std::size_t i = 1; i < pods.size(); ++i) require_intact(node, pods[i]);
  CHECK(value_of(base.space->run_ok({"ip", "-br", "link"})).find("net0 ") == std::string::npos);
  CHECK(value_of(node->call("DEL", pods[1])).ok());
  for (std::size_t i = 2; i < pods.size(); ++i) require_intact(node, pods[i]);
  for (std::size_t i = 2; i < pods.size(); ++i) CHECK(value_of(node->call("DEL", pods[i])).ok());
}

TEST_CASE("J3: every path of a namespace is taken as it is, and said again verbatim") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual)));
  Background holder = value_of(
      Background::start({.argv = {"sleep", "600"}, .netns_fd = pod.space->fd()}, node->folder() + "/holder.log"));
  const std::string link = node->folder() + "/cni-9f7f6f9f-link";
  value_of(node->node().run_ok({"ln", "-s", pod.space->path(), link}));
  for (const std::string& path :
       {pod.space->path(), link, formatted("/proc/{}/ns/net", holder.pid()),
        formatted("/proc/{}/task/{}/ns/net", holder.pid(), holder.pid()), "/run/netns/../netns/" + pod.space->name()}) {
    INFO(path);
    const harness::Invocation add{.verb = "ADD", .container_id = pod.container_id, .netns = path, .config = pod.config};
    const PluginAnswer answer = value_of(node->invoke(add));
    INFO(answer.text());
    CHECK(answer.ok());
    CHECK(value_of(node->call("DEL", pod)).ok());
  }
  value_of(node->node().run_ok({"rm", link}));
  value_of(holder.signal(9));
  holder.wait(std::chrono::seconds(10));
  value_of(remove_file(node->folder() + "/holder.log"));
}
