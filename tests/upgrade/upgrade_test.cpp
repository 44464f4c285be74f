// SPDX-License-Identifier: Apache-2.0
// The agent is killed, restarted and upgraded while pods talk: not one packet is lost, none leaves elsewhere.
#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "tests/e2e/agent_probe.h"
#include "tests/harness/outside.h"
#include "tests/upgrade/stream.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

namespace {

using Names = std::vector<std::string>;

constexpr unsigned packets_a_second = 50'000;  // of each of two pods

AgentStart start_of(const Lab& lab, const std::string& program) {
  return {.argv = {program_folder() + "/" + program, "--config", lab.folder() + "/agent.json", "--pin-dir",
                   lab.pin_dir(), "--run-dir", lab.run_dir()},
          .netns_fd = lab.node().fd(),
          .notify_path = lab.folder() + "/notify",
          .log_path = lab.folder() + "/agent.log"};
}

constexpr const char* this_build = "poduplinkd";
constexpr const char* other_build = "tests/poduplinkd-other";
constexpr const char* next_abi = "tests/poduplinkd-next";

struct Pods {
  Pod one, two, filtered;
};

Pods add_pods(Lab& lab) {
  Pods pods{value_of(lab.add_pod("one", {.uplink = 1})), value_of(lab.add_pod("two", {.uplink = 2})),
            value_of(lab.add_pod("filtered", {.uplink = 2, .mode = "netfilter"}))};
  // So that checksums can be looked at where the packets arrive.
  for (const Pod* pod : {&pods.one, &pods.two, &pods.filtered}) value_of(disable_offloads(*pod->space, "eth0"));
  return pods;
}

// Each interface bears each of our programs once, and nothing else of ours.
void bears_ours_once(const Lab& lab, const Pods& pods) {
  for (const unsigned number : lab.uplink_numbers()) {
    const std::string name = lab.uplink(number).name();
    INFO(name);
    CHECK(programs_on(lab, name, TcHook::ingress) == Names{"uplink_ingress"});
    CHECK(programs_on(lab, name, TcHook::egress) == Names{"uplink_egress"});
  }
  for (const Pod* pod : {&pods.one, &pods.two, &pods.filtered}) {
    INFO(pod->name);
    CHECK(programs_on(lab, pod->host_veth, TcHook::ingress) == Names{"pod_egress"});
  }
}

void leaves_by_home(const Lab& lab, const Pod& pod, const Outside& outside) {
  for (const Family family : {Family::v4, Family::v6}) {
    INFO(pod.name << " to " << Outside::address(family).text());
    value_of(ping(*pod.space, {.to = Outside::echo(family)}));
    const IpAddress from = family == Family::v4 ? pod.v4.value() : pod.v6.value();
    CHECK_THAT(lines_of(outside.faults_from(from, lab.uplink(pod.uplink))), Equals(""));
  }
}

std::string version_in_force(const Lab& lab) { return formatted("v{}", value_of(current_abi(lab.pin_dir()))); }

}  // namespace

TEST_CASE("D44, D46: 20 restarts and 5 upgrades under load lose no packet, and each hook bears one program of ours") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pods pods = add_pods(*lab);
  const auto first = value_of(Stream::start(*lab, pods.one, packets_a_second));
  const auto second = value_of(Stream::start(*lab, pods.two, packets_a_second));
  for (int round = 0; round < 20; ++round) {
    if (round % 2 == 0) {
      value_of(lab->agent().kill_hard());
    } else {
      value_of(lab->agent().stop());
    }
    value_of(lab->agent().start(start_of(*lab, this_build)));
  }
  for (int round = 0; round < 5; ++round) {
    value_of(lab->agent().kill_hard());
    value_of(lab->agent().start(start_of(*lab, round % 2 == 0 ? other_build : this_build)));
  }
  all_arrived(*first, *lab, pods.one);
  all_arrived(*second, *lab, pods.two);
  bears_ours_once(*lab, pods);
  CHECK(value_of(value_of(lab->tables()).pods.entries()).size() == 6);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("An upgrade to another ABI and back takes entries, counters and links along and loses no packet") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pods pods = add_pods(*lab);
  const auto before = value_of(value_of(lab->tables()).pods.entries());
  const auto all_leave_by_home = [&] {
    const Outside outside = value_of(Outside::watch(*lab));
    for (const Pod* pod : {&pods.one, &pods.two, &pods.filtered}) leaves_by_home(*lab, *pod, outside);
  };
  all_leave_by_home();
  const __u64 redirected = value_of(value_of(lab->tables()).stats.verdicts()).redirected;
  REQUIRE(redirected > 0);
  const auto first = value_of(Stream::start(*lab, pods.one, packets_a_second));
  const auto second = value_of(Stream::start(*lab, pods.two, packets_a_second));

  value_of(lab->agent().stop());
  value_of(lab->agent().start(start_of(*lab, next_abi)));
  CHECK(version_in_force(*lab) == "v2");
  CHECK(value_of(list_directory(lab->pin_dir())) == Names{"current", "v2"});
  bears_ours_once(*lab, pods);
  // Not captured: no capture keeps up with the streams, which are counted.
  for (const Pod* pod : {&pods.one, &pods.two, &pods.filtered}) {
    for (const Family family : {Family::v4, Family::v6}) value_of(ping(*pod->space, {.to = Outside::echo(family)}));
  }
  // This build's plugin knows the maps of its own ABI alone.
  const Pod later = value_of(lab->make_pod("later", {.uplink = 1}));
  const PluginAnswer answer = value_of(lab->call("ADD", later));
  CHECK_FALSE(answer.ok());
  CHECK(answer.code == 11);

  value_of(lab->agent().kill_hard());
  value_of(lab->agent().start(start_of(*lab, this_build)));
  CHECK(version_in_force(*lab) == "v1");
  CHECK(value_of(list_directory(lab->pin_dir())) == Names{"current", "v1"});
  all_arrived(*first, *lab, pods.one);
  all_arrived(*second, *lab, pods.two);
  bears_ours_once(*lab, pods);
  all_leave_by_home();
  const Tables tables = value_of(lab->tables());
  CHECK(value_of(tables.pods.entries()).size() == before.size());
  for (const auto& [address, entry] : before) {
    INFO(address.text());
    const auto now = value_of(tables.pods.find(address));
    REQUIRE(now);
    CHECK(now->home == entry.home);
    CHECK(now->veth == entry.veth);
    CHECK(now->owner == entry.owner);
    CHECK(now->mode == entry.mode);
  }
  CHECK(value_of(tables.stats.verdicts()).redirected > redirected);
  value_of(later.space->remove());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("An upgrade that cannot be done leaves the version before in force") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Pods pods = add_pods(*lab);
  value_of(lab->agent().stop());

  SECTION("since a name is taken by something else") {
    value_of(make_directories(lab->pin_dir() + "/v2"));
    const Fd foreign = load_foreign_program("foreign");
    value_of(bpf::pin(foreign.get(), lab->pin_dir() + "/v2/pods4"));
    const auto started = lab->agent().start(start_of(*lab, next_abi));
    REQUIRE_FALSE(started);
    CHECK_THAT(started.error().message, ContainsSubstring("v2/pods4"));
    value_of(remove_file(lab->pin_dir() + "/v2/pods4"));
    REQUIRE(::rmdir((lab->pin_dir() + "/v2").c_str()) == 0);
  }
  SECTION("since a hook cannot be switched") {
    // A foreign qdisc has taken the place of ours on one veth.
    const std::string& veth = pods.one.host_veth;
    value_of(lab->node().run_ok({"tc", "qdisc", "del", "dev", veth, "clsact"}));
    value_of(lab->node().run_ok({"tc", "qdisc", "add", "dev", veth, "ingress"}));
    const auto started = lab->agent().start(start_of(*lab, next_abi));
    REQUIRE_FALSE(started);
    CHECK_THAT(started.error().message, ContainsSubstring(veth));
    value_of(lab->node().run_ok({"tc", "qdisc", "del", "dev", veth, "ingress"}));
  }
  CHECK(version_in_force(*lab) == "v1");
  CHECK(value_of(list_directory(lab->pin_dir())) == Names{"current", "v1"});
  for (const Pod* pod : {&pods.two, &pods.filtered}) leaves_by_home(*lab, *pod, outside);
  // And a pod that is added now by the plugin of the version before works.
  const Pod later = value_of(lab->add_pod("later", {.uplink = 1}));
  value_of(disable_offloads(*later.space, "eth0"));
  leaves_by_home(*lab, later, outside);
  value_of(lab->agent().start(start_of(*lab, this_build)));
  bears_ours_once(*lab, pods);
  for (const Pod* pod : {&pods.one, &pods.two, &pods.filtered}) leaves_by_home(*lab, *pod, outside);
  REQUIRE_CLOSED(*lab);
}
