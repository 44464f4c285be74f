// SPDX-License-Identifier: Apache-2.0
// GC, sent as libcni sends it.
#include <thread>

#include "maps/attachment.h"
#include "tests/e2e/stand_in.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

PodOptions pod_on(unsigned host, const std::string& network, const std::string& patch = {}) {
  PodOptions options = stub_pod(
      formatted(R"({{"interfaces":[{{"name":"eth1"}}],"ips":[{{"address":"10.1.9.{}/16","gateway":"10.1.0.1"}}]}})",
                host),
      patch, "1.1.0");
  options.network = network;
  return options;
}

// A verb without an attachment; the four variables of one are set but empty.
PluginAnswer call(StandIn& node, const std::string& verb, const std::string& config) {
  return value_of(node->invoke({.verb = verb, .if_name = "", .config = config}));
}

PluginAnswer collect(StandIn& node, const std::string& network, const std::string& patch) {
  return call(node, "GC", value_of(merged(node->pod_config(pod_on(0, network)), patch)));
}

std::string valid(const std::vector<Pod>& pods) {
  std::string list;
  for (const Pod& pod : pods) {
    list += formatted(R"({}{{"containerID":"{}","ifname":"eth0"}})", list.empty() ? "" : ",", pod.container_id);
  }
  return R"({"cni.dev/valid-attachments":[)" + list + R"(],"cni.dev/attachments":[)" + list + "]}";
}

Pod added(StandIn& node, const std::string& name, const PodOptions& options) {
  Pod pod = value_of(node.make_pod(name, options));
  value_of(node->adopt(pod, value_of(node->call("ADD", pod))));
  return pod;
}

std::size_t entries(StandIn& node) { return value_of(value_of(node->tables()).pods.entries()).size(); }

}  // namespace

TEST_CASE(
    "G1 G2 G4 G5 G6 G11 C9 C46: GC removes what the list lacks, in its own network alone, and frees the addresses") {
  StandIn node;
  const Pod kept = added(node, "kept", pod_on(1, "one"));
  const Pod stale = added(node, "stale", pod_on(2, "one"));
  const Pod other = added(node, "other", pod_on(3, "two"));
  node.forget_calls();

  // Without the key nothing can be said of any attachment.
  CHECK(collect(node, "one", "{}").ok());
  CHECK(entries(node) == 3);
  CHECK(node.verbs() == "GC");

  node.forget_calls();
  const PluginAnswer answer = collect(node, "one", valid({kept}));
  INFO(answer.text());
  CHECK(answer.ok());
  CHECK(node.verbs() == "DEL GC");
  CHECK(node.calls().front().container_id == stale.container_id);
  CHECK(entries(node) == 2);
  CHECK(value_of(node->call("CHECK", kept)).ok());
  CHECK(value_of(node->call("CHECK", other)).ok());
  CHECK(value_of(node->call("DEL", stale)).ok());

  // What CRI-O sends when it starts without pods.
  CHECK(collect(node, "one", R"({"cni.dev/valid-attachments":[]})").ok());
  CHECK(entries(node) == 1);
  CHECK(value_of(node->call("DEL", other)).ok());
}

TEST_CASE("G7 G8 G9: GC goes on after an error, and reports it") {
  StandIn node;
  const Pod first = added(node, "first", pod_on(1, "one"));
  const Pod second = added(node, "second", pod_on(2, "one"));
  value_of(node->node().ip("link delete " + second.host_veth));
  node.forget_calls();
  const PluginAnswer answer =
      collect(node, "one", R"({"cni.dev/valid-attachments":[],"ipam":{"behave":{"DEL":"fail"}}})");
  INFO(answer.text());
  CHECK(answer.code == 111);
  CHECK(node.verbs() == "DEL DEL GC");
  CHECK(entries(node) == 0);
  for (const Pod& pod : {first, second}) CHECK(value_of(node->call("DEL", pod)).ok());
}

TEST_CASE("G10: GC leaves an attachment alone that is being added") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", pod_on(1, "one", R"({"ipam":{"behave":{"ADD":"slow"}}})")));
  PluginAnswer answer;
  std::thread adder([&] { answer = value_of(node->call("ADD", pod)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  CHECK(collect(node, "one", R"({"cni.dev/valid-attachments":[]})").ok());
  adder.join();
  CHECK(answer.ok());
  CHECK(node.verbs() == "ADD GC");
  CHECK(entries(node) == 1);
  CHECK(value_of(node->call("DEL", pod)).ok());
}
