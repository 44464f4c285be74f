// SPDX-License-Identifier: Apache-2.0
// Every step of ADD and DEL made to fail, and made the last one before SIGKILL: whatever came before it, DEL and GC
// each leave nothing, and a new ADD works.
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>

#include "tests/e2e/crash.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

Pod make_pod(StandIn& node, const std::string& mode, const std::string& patch = {}) {
  PodOptions options;
  options.uplink = 1;
  options.mode = mode;
  options.version = "1.1.0";
  options.patch = patch;
  Pod pod = value_of(node.make_pod("p", options));
  REQUIRE(plain(node, "ADD", pod).faults.empty());
  REQUIRE(plain(node, "DEL", pod).ok());
  return pod;
}

}  // namespace

TEST_CASE("Q3 J12 J14 H7 F7 C26 C28 C30 D54: ADD fails at any step, says so once, and leaves nothing") {
  StandIn node;
  const std::string mode = GENERATE("fast", "netfilter");
  const Pod pod = make_pod(node, mode);
  const std::vector<Step> steps = steps_of(node, "ADD", pod);
  require_cleared(node, pod, Cleaner::del);
  // RTM_NEWLINK, NEWROUTE, NEWADDR, NEWNEIGH; map update, the IPAM plugin, the result.
  require_has(steps, {"netlink 16", "netlink 24", "netlink 20", "netlink 28", "bpf 2", "clone", "rename", "write"});
  for (std::size_t at = 0; at < steps.size(); ++at) {
    if (mode == "netfilter" && !steps[at].change) continue;  // the same questions
    const PluginAnswer answer = faulty(node, "ADD", pod, at, "fail");
    INFO("step " << at << ": " << steps[at].name << "\n" << answer.text());
    if (answer.process.status == 0) {
      // One that ADD can do without.
      REQUIRE(answer.faults.empty());
    } else if (at + 1 < steps.size()) {
      REQUIRE(answer.faults.empty());
      REQUIRE(answer.code != 0);
      REQUIRE_CLEAN(*node);
    }
    require_cleared(node, pod, Cleaner::del);
    if (steps[at].change) require_new_add_works(node, pod);
  }
}

TEST_CASE("Q3 J14 C26 C9 C46 D53 G9: ADD is killed at any step, and DEL or GC leaves nothing") {
  StandIn node;
  const auto [by, mode] = GENERATE(table<Cleaner, std::string>({{Cleaner::del, "fast"}, {Cleaner::gc, "netfilter"}}));
  const Pod pod = make_pod(node, mode);
  const std::vector<Step> steps = steps_of(node, "ADD", pod);
  require_cleared(node, pod, by);
  for (std::size_t at = 0; at < steps.size(); ++at) {
    if (!steps[at].change) continue;  // the same as at the step before it
    const PluginAnswer answer = faulty(node, "ADD", pod, at, "kill");
    INFO("before step " << at << ": " << steps[at].name << "\n" << answer.text());
    REQUIRE(answer.process.status == 128 + SIGKILL);
    require_cleared(node, pod, by);
    require_new_add_works(node, pod);
  }
}

TEST_CASE("Q3 J14 K11 C8 C45: DEL fails or is killed at any step, and another DEL, or GC, leaves nothing") {
  StandIn node;
  const auto [by, mode] = GENERATE(table<Cleaner, std::string>({{Cleaner::del, "netfilter"}, {Cleaner::gc, "fast"}}));
  const Pod pod = make_pod(node, mode);
  REQUIRE(plain(node, "ADD", pod).ok());
  const std::vector<Step> steps = steps_of(node, "DEL", pod);
  REQUIRE_CLEAN(*node);
  require_has(steps, {"netlink 17", "bpf 3", "clone", "unlink"});
  for (std::size_t at = 0; at < steps.size(); ++at) {
    for (const std::string how : {"fail", "kill"}) {
      if (how == "kill" && !steps[at].change) continue;
      REQUIRE(plain(node, "ADD", pod).ok());
      const PluginAnswer answer = faulty(node, "DEL", pod, at, how);
      INFO(how << " at step " << at << ": " << steps[at].name << "\n" << answer.text());
      if (how == "kill") {
        REQUIRE(answer.process.status == 128 + SIGKILL);
      } else {
        REQUIRE(answer.faults.empty());
      }
      require_cleared(node, pod, by);
    }
  }
}

TEST_CASE("Q3 J12 H6: an ADD that is undoing its work fails or is killed at any step, and DEL leaves nothing") {
  StandIn node;
  // The last route of ADD is refused: what follows is the way back.
  const Pod pod = make_pod(node, "fast", R"({"ipam":{"routes":[{"dst":"203.0.113.0/24","priority":5}]}})");
  value_of(pod.space->ip("route add 203.0.113.0/24 dev lo metric 5"));
  const std::vector<Step> steps = steps_of(node, "ADD", pod);
  REQUIRE_CLEAN(*node);
  std::size_t first = steps.size();
  while (first > 0 && steps[first - 1].name != "netlink 24") --first;
  REQUIRE(first > 0);
  require_has({steps.begin() + static_cast<std::ptrdiff_t>(first), steps.end()},
              {"netlink 17", "bpf 3", "clone", "unlink"});
  for (std::size_t at = first; at < steps.size(); ++at) {
    for (const std::string how : {"fail", "kill"}) {
      if (how == "kill" && !steps[at].change) continue;
      const PluginAnswer answer = faulty(node, "ADD", pod, at, how);
      INFO(how << " at step " << at << ": " << steps[at].name << "\n" << answer.text());
      REQUIRE(answer.process.status == (how == "kill" ? 128 + SIGKILL : 1));
      require_cleared(node, pod, Cleaner::del);
    }
  }
}
