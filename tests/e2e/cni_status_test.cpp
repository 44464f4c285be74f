// SPDX-License-Identifier: Apache-2.0
// STATUS, sent as libcni sends it: silent where an ADD could work, code 50 with the reason where not, and no
// change of anything.
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>

#include "loader/base/file.h"
#include "maps/agent_state.h"
#include "maps/bpf.h"
#include "maps/paths.h"
#include "tests/e2e/stand_in.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr const char* one_address =
    R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"}]})";

// The four variables of an attachment are set but empty.
PluginAnswer status(const Lab& lab, const std::string& config) {
  return value_of(lab.invoke({.verb = "STATUS", .if_name = "", .config = config}));
}

void require_available(const Lab& lab, const std::string& config) {
  const PluginAnswer answer = status(lab, config);
  INFO(answer.text());
  CHECK(answer.ok());
}

void require_unavailable(const Lab& lab, const std::string& config, const std::string& reason) {
  const PluginAnswer answer = status(lab, config);
  INFO(answer.text());
  CHECK(answer.faults.empty());
  CHECK(answer.code == 50);
  CHECK_THAT(answer.message, ContainsSubstring(reason));
}

void change_uplink(StandIn& node, const std::string& name, const std::function<void(pdl_uplink&)>& change) {
  pdl_uplink entry = value_of(node.uplink_entry(name));
  change(entry);
  value_of(node.set_uplink(name, entry));
}

void forget_uplink(StandIn& node, const std::string& name) {
  const auto index = static_cast<std::uint32_t>(value_of(node.link_index(name)));
  value_of(value_of(node->tables()).uplinks.erase(index));
}

}  // namespace

TEST_CASE("S1 S4: STATUS is silent where an ADD could work, and changes nothing") {
  StandIn node;
  const std::string config = node->pod_config(stub_pod(one_address, "", "1.1.0"));
  require_available(*node, config);
  CHECK(node.verbs() == "STATUS");
  CHECK(node.calls().front().input == config);
  REQUIRE_CLEAN(*node);
}

TEST_CASE("S2: STATUS is 50 where the datapath is not there or not ours") {
  StandIn node;
  const std::string config = node->pod_config(stub_pod(one_address, "", "1.1.0"));
  const std::string folder = version_dir(node->pin_dir(), PDL_ABI_VERSION);
  std::string reason;
  std::string patch = "{}";
  SECTION("nothing is pinned") {
    value_of(node.unpin());
    reason = "the agent has not run";
  }
  SECTION("no bpffs") {
    patch = R"({"pinDir":"/run/no-bpffs/poduplink"})";
    reason = "on no bpffs";
  }
  SECTION("another ABI") {
    std::filesystem::remove(current_link(node->pin_dir()));
    std::filesystem::create_symlink("v99", current_link(node->pin_dir()));
    reason = "ABI 99";
  }
  SECTION("a map is missing") {
    value_of(remove_file(map_pin(folder, "pods6")));
    reason = "pods6";
  }
  SECTION("a foreign map under our name") {
    value_of(remove_file(map_pin(folder, "pods4")));
    const Fd other = value_of(bpf::open_pinned(map_pin(folder, "uplinks")));
    value_of(bpf::pin(other.get(), map_pin(folder, "pods4")));
    reason = "pods4 is another map";
  }
  SECTION("the program is missing") {
    value_of(remove_file(program_pin(folder, "pod_egress")));
    reason = "pod_egress";
  }
  require_unavailable(*node, value_of(merged(config, patch)), reason);
  CHECK(node.verbs().empty());
  value_of(node.unpin());
  value_of(node.pin());
}

TEST_CASE("S2: STATUS is 50 where the agent's last word is that it is not ready") {
  StandIn node;
  const std::string config = node->pod_config(stub_pod(one_address, "", "1.1.0"));
  const std::string path = agent_state_path(node->run_dir());
  value_of(node.say({"eth0 cannot bear the programs: Operation not supported", "map nodes4 is full"}));
  require_unavailable(*node, config,
                      "the agent is not ready: eth0 cannot bear the programs: Operation not supported; map nodes4");
  // ADD is not kept from trying.
  const Pod pod = value_of(node.make_pod("p", stub_pod(one_address, "", "1.1.0")));
  CHECK(value_of(node->call("ADD", pod)).ok());
  CHECK(value_of(node->call("DEL", pod)).ok());
  value_of(remove_file(path));
  require_unavailable(*node, config, "there is no " + path);
  value_of(write_file_atomically(path, "{\"ready\":tr"));
  require_unavailable(*node, config, path);
  value_of(node.say());
  require_available(*node, config);
}

TEST_CASE("S2: STATUS is 50 where no uplink could carry a pod") {
  StandIn node({.lab = {.uplinks = 2}});
  const std::string config = node->pod_config(stub_pod(one_address, "", "1.1.0"));
  const auto also = [&](const char* patch) { return value_of(merged(config, patch)); };
  const auto down = [](pdl_uplink& entry) { entry.state = PDL_STATE_DOWN; };
  change_uplink(node, "eth2", down);
  require_available(*node, config);
  require_unavailable(*node, also(R"({"uplink":"eth2"})"), "no uplink can be used: eth2 is down");
  require_unavailable(*node, also(R"({"uplink":"eth9"})"), "eth9");
  SECTION("all are down, as the maps have it") {
    change_uplink(node, "eth1", down);
    require_unavailable(*node, config, "no uplink can be used: eth1 is down; eth2 is down");
    // Then its packets go by the host's own routing.
    change_uplink(node, "eth2", [](pdl_uplink& entry) { entry.when_down = PDL_WHEN_DOWN_STACK; });
    require_available(*node, config);
  }
  SECTION("the last one is down, and no agent noticed") {
    value_of(node->node().ip("link set eth1 down"));
    require_unavailable(*node, config, "eth1 is down");
    value_of(node->node().ip("link set eth1 up"));
    const auto settled = [&] {
      const std::string shown = value_of(node->node().run_ok({"ip", "address", "show", "dev", "eth1"}));
      return shown.find("state UP") != std::string::npos && shown.find("fe80::") != std::string::npos;
    };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!settled() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    value_of(node->accept_changes({"eth1"}));
  }
  SECTION("none is managed, but for transit") {
    forget_uplink(node, "eth1");
    value_of(node.manage(2, PDL_ROLE_TRANSIT));
    require_unavailable(*node, config, "the agent manages none");
    require_available(*node, also(R"({"requireUplink":false})"));
  }
}

TEST_CASE("S2 S3: STATUS is 50 where the IPAM plugin is missing or cannot serve") {
  StandIn node;
  const std::string config = node->pod_config(stub_pod(one_address, "", "1.1.0"));
  const auto also = [&](const std::string& patch) { return value_of(merged(config, patch)); };
  require_unavailable(*node, also(R"({"ipam":{"type":"no-such-ipam"}})"), "no-such-ipam");
  require_unavailable(*node, also(R"({"ipam":null})"), "'ipam'");
  const PluginAnswer failing = status(*node, also(R"({"ipam":{"behave":{"STATUS":"fail"}}})"));
  CHECK(failing.code == 50);
  CHECK_THAT(failing.message, ContainsSubstring("ipam stub-ipam: stub-ipam: told to fail"));
  CHECK_THAT(failing.details, ContainsSubstring("111"));
  require_unavailable(*node, also(R"({"ipam":{"behave":{"STATUS":"crash"}}})"), "signal 6");
  require_unavailable(*node, also(R"({"ipamTimeout":1,"ipam":{"behave":{"STATUS":"hang"}}})"), "no answer within 1 s");
  // One of the time before 1.1.0: its ADD would refuse the configuration's version too.
  require_unavailable(*node, also(R"({"ipam":{"type":"host-local","result":null}})"), "ipam host-local");
  // 51 is the IPAM plugin's to say.
  value_of(write_file_atomically(node->folder() + "/cni-bin/limited-ipam",
                                 "#!/bin/sh\necho '{\"cniVersion\":\"1.1.0\",\"code\":51,\"msg\":\"half\"}'\nexit 1\n",
                                 0755));
  const PluginAnswer limited = status(*node, also(R"({"ipam":{"type":"limited-ipam"}})"));
  CHECK(limited.code == 51);
  CHECK(limited.message == "ipam limited-ipam: half");
}

TEST_CASE("D1 S5: STATUS needs 1.1.0, and refuses a wrong key as ADD does") {
  StandIn node;
  const std::string config = node->pod_config(stub_pod(one_address, "", "1.1.0"));
  CHECK(status(*node, value_of(merged(config, R"({"cniVersion":"1.0.0"})"))).code == 1);
  const PluginAnswer wrong = status(*node, value_of(merged(config, R"({"mtu":"big"})")));
  CHECK(wrong.code == 7);
  CHECK_THAT(wrong.message, ContainsSubstring("'mtu'"));
  CHECK(node.verbs().empty());
}

TEST_CASE("S2: STATUS beside the agent: while it runs, after it was killed, and where a device cannot be attached") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  const std::string config = lab->pod_config(stub_pod("", "", "1.1.0"));
  require_unavailable(*lab, config, "the agent has not run");
  value_of(lab->start_agent());
  require_available(*lab, config);
  value_of(lab->agent().kill_hard());
  require_available(*lab, config);

  // A device of a route that cannot bear the programs: a foreign qdisc has the place that clsact needs.
  value_of(
      lab->node().ip("link add dev transit0 type veth peer name transit1\nlink set transit1 up\n"
                     "link set transit0 up\naddress add 192.0.2.1/24 dev transit0"));
  value_of(lab->node().run_ok({"tc", "qdisc", "add", "dev", "transit0", "ingress"}));
  Background agent = value_of(Background::start(
      {.argv = {program_folder() + "/poduplinkd", "--force-clsact", "--config", lab->folder() + "/agent.json",
                "--pin-dir", lab->pin_dir(), "--run-dir", lab->run_dir()},
       .netns_fd = lab->node().fd()},
      lab->folder() + "/second-agent.log"));
  const auto not_ready = [&] {
    const auto state = value_of(load_agent_state(lab->run_dir()));
    return state && !state->ready;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!not_ready() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  require_unavailable(*lab, config, "the agent is not ready: transit0 cannot bear the programs");
  value_of(agent.signal(SIGTERM));
  CHECK(agent.wait(std::chrono::seconds(20)) == 0);
  // Its last word holds.
  require_unavailable(*lab, config, "transit0 cannot bear the programs");
  value_of(lab->node().ip("link delete transit0"));
  value_of(lab->start_agent());
  require_available(*lab, config);
  REQUIRE_CLOSED(*lab);
}
