// SPDX-License-Identifier: Apache-2.0
// Every step of ADD and DEL of an external network made to fail, and made the last one before SIGKILL: the pod's first
// network is as it was, to the last field of its routes.
#include <algorithm>
#include <catch2/generators/catch_generators.hpp>
#include <csignal>

#include "tests/e2e/crash.h"
#include "tests/e2e/external_node.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::Equals;

namespace {

// A first network with all that routes can have, and what its plugin would have said of it.
Pod make_pod(StandIn& node) {
  PodOptions options;
  options.uplink = external_uplink;
  options.version = "1.1.0";
  options.patch = formatted(R"({{"external":{{"ifName":"{}","clusterCIDRs":{}}}}})", external_name, cluster_cidrs);
  Pod pod = value_of(node.make_pod("p", options));
  value_of(
      pod.space->ip("link add eth0 mtu 1400 address 02:00:00:00:f1:01 type veth peer name peer0\n"
                    "link set eth0 up\nlink set peer0 up\naddress add 10.244.1.5/24 dev eth0\n"
                    "address add fd00:244:1::5/64 dev eth0 nodad\n"
                    "route add default via 10.244.1.1 dev eth0 src 10.244.1.5 mtu 1300 advmss 1200 initcwnd 20\n"
                    "route add default via 10.244.1.2 dev eth0 metric 100 proto bird\n"
                    "route add default via fd00:244:1::1 dev eth0 metric 1024 hoplimit 60 pref high\n"
                    "route add default via fd00:244:1::2 dev eth0 metric 2000 mtu 1300\n"
                    "route add 192.168.9.0/24 via 10.244.1.3 dev eth0 metric 7\nroute add blackhole 192.168.10.0/24"));
  pod.config =
      value_of(with_previous_result(pod.config, formatted(R"({{"cniVersion":"1.1.0","interfaces":[{{"name":"eth0",
      "mac":"02:00:00:00:f1:01","sandbox":"{}"}}],"ips":[{{"address":"10.244.1.5/24","interface":0}},
      {{"address":"fd00:244:1::5/64","interface":0}}]}})",
                                                          pod.space->path())));
  return pod;
}

// The first ADD makes folders; and there is something to compare with.
void require_works(StandIn& node, const Pod& pod) {
  require_settled(*pod.space);
  const PluginAnswer added = plain(node, "ADD", pod);
  INFO(added.text());
  REQUIRE(added.ok());
  REQUIRE(plain(node, "DEL", pod).ok());
}

Snapshot look(const Pod& pod) { return value_of(take_snapshot(*pod.space, {"eth0"})); }

void require_as_before(const Pod& pod, const Snapshot& before) {
  REQUIRE_THAT(lines_of(differences(before, look(pod))), Equals(""));
}

// From the veth on: what comes before has nothing to do with the pod, and is cni_crash_test's.
std::size_t first_of(const std::vector<Step>& steps, const char* name) {
  const auto found = std::ranges::find(steps, name, &Step::name);
  REQUIRE(found != steps.end());
  return static_cast<std::size_t>(found - steps.begin());
}

}  // namespace

TEST_CASE(
    "J12 J14 C26 D54: ADD of an external network fails or is killed at any step, and the first network is as it was") {
  StandIn node({.lab = {.uplinks = external_uplink}});
  const Pod pod = make_pod(node);
  require_works(node, pod);
  const Snapshot before = look(pod);
  const std::vector<Step> steps = steps_of(node, "ADD", pod);
  std::string all;
  for (const Step& step : steps) all += (step.change ? "change " : "look ") + step.name + "\n";
  INFO(all);
  // RTM_NEWRULE, RTM_DELROUTE of the former default routes.
  require_has(steps, {"netlink 16", "netlink 24", "netlink 32", "netlink 25"});
  require_cleared(node, pod, Cleaner::del, external_name);
  require_as_before(pod, before);
  for (std::size_t at = first_of(steps, "netlink 16"); at < steps.size(); ++at) {
    if (!steps[at].change) continue;
    for (const std::string how : {"fail", "kill"}) {
      const PluginAnswer answer = faulty(node, "ADD", pod, at, how);
      INFO(how << " at step " << at << ": " << steps[at].name << "\n" << answer.text());
      if (how == "kill") {
        REQUIRE(answer.process.status == 128 + SIGKILL);
      } else if (answer.process.status != 0 && at + 1 < steps.size()) {
        REQUIRE(answer.faults.empty());
        require_as_before(pod, before);
      }
      require_cleared(node, pod, at % 2 == 0 ? Cleaner::del : Cleaner::gc, external_name);
      if (how == "kill") require_as_before(pod, before);
    }
  }
  require_as_before(pod, before);
}

TEST_CASE(
    "J14 K11 C8: DEL of an external network fails or is killed at any step, and the next one puts the first network "
    "back") {
  StandIn node({.lab = {.uplinks = external_uplink}});
  const Pod pod = make_pod(node);
  require_works(node, pod);
  const Snapshot before = look(pod);
  REQUIRE(plain(node, "ADD", pod).ok());
  const std::vector<Step> steps = steps_of(node, "DEL", pod);
  require_as_before(pod, before);
  require_has(steps, {"netlink 17", "netlink 24", "netlink 25", "netlink 33"});
  // From the record that says so, to the one that is removed; questions too, whose failure could pass for an answer.
  for (std::size_t at = 0; at < steps.size(); ++at) {
    for (const std::string how : {"fail", "kill"}) {
      if (!steps[at].change && (how == "kill" || !steps[at].name.starts_with("setns"))) continue;
      REQUIRE(plain(node, "ADD", pod).ok());
      const PluginAnswer answer = faulty(node, "DEL", pod, at, how);
      INFO(how << " at step " << at << ": " << steps[at].name << "\n" << answer.text());
      REQUIRE(answer.faults.empty() == (how == "fail"));
      require_cleared(node, pod, at % 2 == 0 ? Cleaner::gc : Cleaner::del, external_name);
      require_as_before(pod, before);
    }
  }
}
