// SPDX-License-Identifier: Apache-2.0
// What the IPAM plugin gets, how long it may take, and that standard output bears one document whatever happens.
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "loader/base/file.h"
#include "maps/attachment.h"
#include "maps/locks.h"
#include "maps/record.h"
#include "tests/e2e/stand_in.h"
#include "tests/harness/isolate.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr const char* one_address =
    R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"}]})";

// A program of the test's own in the first folder of CNI_PATH.
void put_plugin(StandIn& node, const std::string& name, const std::string& script) {
  value_of(write_file_atomically(node->folder() + "/cni-bin/" + name, "#!/bin/sh\n" + script, 0755));
}

std::vector<std::string> environment_of(StandIn& node, const std::string& verb, const Pod& pod) {
  return {"LC_ALL=C",
          "CNI_COMMAND=" + verb,
          "TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
          "CNI_CONTAINERID=" + pod.container_id,
          "EMPTY=",
          "CNI_NETNS=" + pod.space->path(),
          "CNI_IFNAME=" + pod.options.if_name,
          "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAME=a;X=a=b;;",
          "CNI_PATH=" + node->cni_path(),
          "http_proxy= with space=and equals",
          "PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
}

// A verb in the background, in the node. What it prints on standard output goes to `out`.
Background start_verb(StandIn& node, const std::string& verb, const Pod& pod, const std::string& out) {
  const std::string input = node->folder() + "/input";
  value_of(write_file_atomically(input, pod.config));
  const std::string shell = "exec " + program_folder() + "/poduplink <" + input + " 2>/dev/null";
  return value_of(Background::start({.argv = {"sh", "-c", shell},
                                     .environment = environment_of(node, verb, pod),
                                     .clean_environment = true,
                                     .netns_fd = node->node().fd()},
                                    out));
}

bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// Sends a signal once `condition` holds; the plugin has to end with one error document.
PluginAnswer stopped(StandIn& node, const std::string& verb, const Pod& pod, int signal,
                     const std::function<bool()>& condition) {
  const std::string out = node->folder() + "/answer";
  Background plugin = start_verb(node, verb, pod, out);
  CHECK(comes_true(condition));
  value_of(plugin.signal(signal));
  Outcome outcome;
  outcome.status = plugin.wait(std::chrono::seconds(30)).value_or(-1);
  outcome.out = value_of(read_file(out));
  value_of(remove_file(out));
  PluginAnswer answer = read_answer({.verb = verb, .config = pod.config}, std::move(outcome));
  INFO(verb << ": " << answer.text());
  CHECK(answer.faults.empty());
  return answer;
}

}  // namespace

TEST_CASE("H2 H3 H18 A10 C34 C35 P1: the IPAM plugin gets environment and standard input octet by octet") {
  StandIn node;
  const std::string folder = node->folder() + "/seen";
  put_plugin(node, "own-ipam",
             "cat /proc/$$/environ >" + folder + ".environment\nreadlink /proc/$$/ns/net >" + folder + ".netns\ncat >" +
                 folder + ".input\n[ $CNI_COMMAND = ADD ] || exit 0\necho '" + one_address + "'\n");
  Pod pod = value_of(node.make_pod("p", stub_pod(one_address, R"({"ipam":{"type":"own-ipam"}})", "1.1.0")));
  // Text that no program would print again as it is.
  pod.config.insert(1, " \"unknown\" :\t[1e3, 0.10, 9007199254740993, \"\\u003c\\/\"] ,\n");
  const std::string own_netns = value_of(node->node().run_ok({"readlink", "/proc/self/ns/net"}));
  for (const char* verb : {"ADD", "DEL", "GC", "STATUS"}) {
    INFO(verb);
    const std::vector<std::string> environment = environment_of(node, verb, pod);
    const Outcome outcome = value_of(node->run_plugin(environment, pod.config));
    INFO(outcome.text());
    CHECK(outcome.ok());
    std::string wanted;
    for (const std::string& variable : environment) wanted += variable + '\0';
    CHECK(value_of(read_file(folder + ".environment")) == wanted);
    CHECK(value_of(read_file(folder + ".input")) == pod.config);
    CHECK(value_of(read_file(folder + ".netns")) == own_netns);
  }
}

TEST_CASE("H1: the IPAM plugin is the first file of its name in an absolute folder of CNI_PATH") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(one_address, R"({"ipam":{"type":"own-ipam"}})")));
  const std::string first = node->folder() + "/first";
  value_of(make_directories(first + "/own-ipam"));  // a folder of that name is no plugin
  put_plugin(node, "own-ipam", std::string("[ $CNI_COMMAND = DEL ] || echo '") + one_address + "'\n");
  const harness::Invocation add{
      .verb = "ADD", .container_id = pod.container_id, .netns = pod.space->path(), .config = pod.config};
  const auto with_path = [&](const std::string& path) {
    const Outcome outcome = value_of(
        node->run_plugin({"CNI_COMMAND=ADD", "CNI_CONTAINERID=" + pod.container_id, "CNI_NETNS=" + pod.space->path(),
                          "CNI_IFNAME=eth0", "CNI_PATH=" + path, "PATH=/usr/bin:/bin"},
                         pod.config));
    return read_answer(add, outcome);
  };
  const PluginAnswer found = with_path(":relative:" + first + ":" + node->folder() + "/cni-bin");
  INFO(found.text());
  CHECK(found.ok());
  CHECK(value_of(node->call("DEL", pod)).ok());
  const PluginAnswer missing = with_path(":.:" + first);
  CHECK(missing.code == 100);
  CHECK_THAT(missing.message, ContainsSubstring("own-ipam") && ContainsSubstring(first));
  value_of(node->node().run_ok({"rm", "-r", first}));
}

TEST_CASE("H13 H14 C27: an IPAM plugin that takes too long is ended with all its children, and released") {
  StandIn node;
  const std::string calls = node->folder() + "/calls";
  put_plugin(
      node, "own-ipam",
      "echo $CNI_COMMAND >>" + calls +
          "\n[ $CNI_COMMAND = DEL ] && exit 0\ntrap '' TERM\n(trap '' TERM; sleep 600) &\nsleep 600\nsleep 600\n");
  const Pod pod =
      value_of(node.make_pod("p", stub_pod(one_address, R"({"ipamTimeout":1,"ipam":{"type":"own-ipam"}})")));
  const PluginAnswer answer = value_of(node->call("ADD", pod));
  INFO(answer.text());
  CHECK(answer.faults.empty());
  CHECK(answer.code == 110);
  CHECK(value_of(read_file(calls)) == "ADD\nDEL\n");
  CHECK(comes_true([] { return value_of(other_processes()).find("sleep") == std::string::npos; }));
  value_of(remove_file(calls));
  REQUIRE_CLEAN(*node);
}

TEST_CASE("F7 C48: a signal leaves one error document and nothing else, wherever it comes") {
  StandIn node;
  const int signal = GENERATE(SIGTERM, SIGINT, SIGHUP);
  Pod pod = value_of(node.make_pod("p", stub_pod(one_address, R"({"ipam":{"behave":{"ADD":"hang"}}})", "1.1.0")));
  const auto asked = [&](const char* verb) { return [&node, verb] { return node.verbs().ends_with(verb); }; };
  SECTION("while the IPAM plugin runs") {
    CHECK(stopped(node, "ADD", pod, signal, asked("ADD")).code == 11);
    CHECK(node.verbs() == "ADD DEL");
  }
  SECTION("while it waits for another verb of the attachment") {
    const AttachmentId id{"stub-ipam-eth1", pod.container_id, "eth0"};
    value_of(make_directories(node->run_dir()));
    const auto lock = value_of(AttachmentLock::try_take(node->run_dir(), attachment_hash(id)));
    REQUIRE(lock);
    // There is nothing to wait for that could be seen from outside.
    const auto in_a_while = [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      return true;
    };
    for (const char* verb : {"ADD", "DEL"}) CHECK(stopped(node, verb, pod, signal, in_a_while).code == 11);
    CHECK(node.verbs().empty());
  }
  SECTION("while DEL waits for the IPAM plugin, and the next DEL finishes") {
    const std::string config = pod.config;
    pod.config = value_of(merged(config, R"({"ipam":{"behave":{"ADD":""}}})"));
    CHECK(value_of(node->call("ADD", pod)).ok());
    pod.config = value_of(merged(config, R"({"ipam":{"behave":{"DEL":"hang"}}})"));
    CHECK(stopped(node, "DEL", pod, signal, asked("DEL")).code == 11);
    // GC would still know whose address it is.
    CHECK(value_of(load_records(node->run_dir())).size() == 1);
    pod.config = config;
    CHECK(value_of(node->call("DEL", pod)).ok());
  }
  SECTION("while STATUS or GC waits for it") {
    pod.config = value_of(merged(pod.config, R"({"ipam":{"behave":{"STATUS":"hang","GC":"hang"}}})"));
    CHECK(stopped(node, "STATUS", pod, signal, asked("STATUS")).code == 50);
    CHECK(stopped(node, "GC", pod, signal, asked("GC")).code == 11);
  }
  CHECK_FALSE(node->node().run_ok({"pgrep", "-x", "stub-ipam"}));
  REQUIRE_CLEAN(*node);
}

TEST_CASE("H5 H8 D4 C32: an IPAM plugin that does not know the version says so by its own code, and nothing is made") {
  StandIn node;
  PodOptions options;
  options.ipam = Ipam::host_local;
  options.version = "1.1.0";
  const Pod pod = value_of(node.make_pod("p", options));
  const PluginAnswer answer = value_of(node->call("ADD", pod));
  INFO(answer.text());
  CHECK(answer.faults.empty());
  CHECK(answer.code == 1);
  CHECK_THAT(answer.message, ContainsSubstring("ipam host-local"));
  CHECK(value_of(pod.space->run_ok({"ip", "-br", "link"})).find("eth0") == std::string::npos);
  REQUIRE_CLEAN(*node);
  // Nor does its DEL.
  CHECK(value_of(node->call("DEL", pod)).code == 1);
  const std::string known = value_of(merged(pod.config, R"({"cniVersion":"1.0.0"})"));
  CHECK(value_of(node->invoke({.verb = "DEL", .container_id = pod.container_id, .netns = "", .config = known})).ok());
}

TEST_CASE("H10 C33: an IPAM result of another known version, or of none, is taken") {
  StandIn node;
  const std::string old_form =
      R"({"cniVersion":"0.4.0","interfaces":[{"name":"eth1"}],"ips":[{"version":"4","address":"10.1.9.7/16","gateway":"10.1.0.1"}]})";
  for (const std::string& result : {std::string(one_address), old_form}) {
    const Pod pod = value_of(node->add_pod("p", stub_pod(result, "", "1.1.0")));
    CHECK(pod.v4->text() == "10.1.9.7");
    value_of(node->del_pod("p"));
  }
}

TEST_CASE("C25: an exhausted IPAM plugin leaves no interface behind") {
  StandIn node;
  const std::string one =
      R"({"ipam":{"pools":[{"uplink":"eth1","ranges":["10.1.9.7"],"prefix":16,"gateway":"10.1.0.1"}],"routes":null}})";
  const auto options = [&] {
    PodOptions made;
    made.v6 = false;
    made.patch = one;
    return made;
  };
  value_of(node->add_pod("first", options()));
  value_of(node->accept_changes({"pdl"}));
  const std::size_t links = value_of(node->node().run_ok({"ip", "-o", "link"})).size();
  const Pod second = value_of(node.make_pod("second", options()));
  const PluginAnswer answer = value_of(node->call("ADD", second));
  CHECK(answer.code == 120);
  CHECK(value_of(node->node().run_ok({"ip", "-o", "link"})).size() == links);
  CHECK(value_of(node->call("DEL", second)).ok());
  value_of(node->del_pod("first"));
  value_of(node->accept_changes({"pdl"}));
}
