// SPDX-License-Identifier: Apache-2.0
// What goes wrong around the plugin: a named error, nothing half done, the IPAM plugin's address given back.
#include <fcntl.h>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "loader/base/file.h"
#include "maps/attachment.h"
#include "maps/bpf.h"
#include "maps/paths.h"
#include "maps/record.h"
#include "tests/e2e/stand_in.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr const char* dual =
    R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"},
        {"address":"fd00:1::9:7/64","gateway":"fd00:1::1"}]})";

AttachmentId id_of(const Pod& pod) { return {"stub-ipam-eth1", pod.container_id, pod.options.if_name}; }

std::string patched(const Pod& pod, const std::string& patch) {
  return patch.empty() ? pod.config : value_of(merged(pod.config, patch));
}

std::vector<std::string> environment_of(StandIn& node, const std::string& verb, const Pod& pod) {
  return {"CNI_COMMAND=" + verb,
          "CNI_CONTAINERID=" + pod.container_id,
          "CNI_NETNS=" + pod.space->path(),
          "CNI_IFNAME=" + pod.options.if_name,
          "CNI_PATH=" + node->cni_path(),
          "PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
}

// ADD that has to fail, with what it said; after it nothing is left but what the test put there.
PluginAnswer refused(StandIn& node, const Pod& pod) {
  node.forget_calls();
  const PluginAnswer answer = value_of(node->call("ADD", pod));
  INFO(answer.text());
  CHECK(answer.faults.empty());
  CHECK(answer.code != 0);
  CHECK(value_of(pod.space->run_ok({"ip", "-br", "link"})).find("eth0") == std::string::npos);
  CHECK(lines_of(node->leftovers()).empty());
  return answer;
}

void require_works(StandIn& node, const Pod& pod) {
  const PluginAnswer added = value_of(node->call("ADD", pod));
  INFO(added.text());
  CHECK(added.ok());
  CHECK(value_of(node->call("DEL", pod)).ok());
  REQUIRE_CLEAN(*node);
}

// The plugin in the background, in the node. What it prints goes to `log`.
Background start_plugin(StandIn& node, const std::string& verb, const Pod& pod, const std::string& log) {
  const std::string input = node->folder() + "/input";
  value_of(write_file_atomically(input, pod.config));
  const std::string shell = "exec " + program_folder() + "/poduplink <" + input;
  return value_of(Background::start({.argv = {"sh", "-c", shell},
                                     .environment = environment_of(node, verb, pod),
                                     .clean_environment = true,
                                     .netns_fd = node->node().fd()},
                                    log));
}

// A program of the test's own in the first folder of CNI_PATH.
void put_plugin(StandIn& node, const std::string& name, const std::string& script) {
  value_of(write_file_atomically(node->folder() + "/cni-bin/" + name, "#!/bin/sh\n" + script, 0755));
}

}  // namespace

TEST_CASE("H7: a full map is named, and the pod that did not fit leaves nothing") {
  StandIn node({.max_pods = 2});
  for (const char* host : {"1", "2"}) {
    const std::string result = formatted(
        R"({{"interfaces":[{{"name":"eth2"}}],"ips":[{{"address":"10.2.9.{}/16","gateway":"10.2.0.1"}}]}})", host);
    value_of(node->add_pod(std::string("p") + host, stub_pod(result)));
  }
  value_of(node->accept_changes({"pdl"}));
  const Pod pod = value_of(node.make_pod("late", stub_pod(dual)));
  node.forget_calls();
  const PluginAnswer answer = value_of(node->call("ADD", pod));
  INFO(answer.text());
  CHECK(answer.code == 101);
  CHECK_THAT(answer.message, ContainsSubstring("map pods4 is full (2 entries)"));
  CHECK(node.verbs() == "ADD DEL");
  CHECK(value_of(value_of(node->tables()).pods.entries()).size() == 2);
  CHECK(value_of(load_records(node->run_dir())).size() == 2);
  value_of(node->del_pod("p1"));
  const PluginAnswer fits = value_of(node->call("ADD", pod));
  CHECK(fits.ok());
  CHECK(value_of(node->call("DEL", pod)).ok());
  value_of(node->del_pod("p2"));
  // The lab compares with the node as it was before the two.
  value_of(node->accept_changes({"pdl"}));
}

TEST_CASE("pins that are missing or wrong are named before the IPAM plugin is asked") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual)));
  const std::string folder = version_dir(node->pin_dir(), PDL_ABI_VERSION);
  unsigned code = 0;
  std::string text;
  std::string patch;
  SECTION("the agent has not run") {
    value_of(node.unpin());
    code = 102;
    text = "the agent has not run";
  }
  SECTION("no bpffs") {
    patch = R"({"pinDir":"/run/no-bpffs/poduplink"})";
    code = 101;
    text = "on no bpffs";
  }
  SECTION("another ABI") {
    std::filesystem::remove(current_link(node->pin_dir()));
    std::filesystem::create_symlink("v99", current_link(node->pin_dir()));
    code = 11;
    text = "ABI 99";
  }
  SECTION("a foreign map under our name") {
    std::filesystem::remove(map_pin(folder, "pods4"));
    const Fd other = value_of(bpf::open_pinned(map_pin(folder, "uplinks")));
    value_of(bpf::pin(other.get(), map_pin(folder, "pods4")));
    code = 101;
    text = "pods4 is another map";
  }
  SECTION("a program under a map's name") {
    std::filesystem::remove(map_pin(folder, "pods4"));
    const Fd other = value_of(bpf::open_pinned(program_pin(folder, "pod_egress")));
    value_of(bpf::pin(other.get(), map_pin(folder, "pods4")));
    code = 101;
    text = "pods4: is no map but anon_inode:bpf-prog";
  }
  node.forget_calls();
  Pod changed = pod;
  changed.config = patched(pod, patch);
  const PluginAnswer answer = value_of(node->call("ADD", changed));
  INFO(answer.text());
  CHECK(answer.faults.empty());
  CHECK(answer.code == code);
  CHECK_THAT(answer.message, ContainsSubstring(text));
  CHECK(node.verbs().empty());
  CHECK(value_of(load_records(node->run_dir())).empty());
  CHECK(value_of(node->call("DEL", changed)).ok());
  value_of(node.unpin());
  value_of(node.pin());
}

TEST_CASE("a program pin that is missing or none is named, and undone") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual)));
  const std::string pin = program_pin(version_dir(node->pin_dir(), PDL_ABI_VERSION), "pod_egress");
  std::filesystem::remove(pin);
  SECTION("missing") {}
  SECTION("a map") {
    const Fd map = value_of(bpf::open_pinned(map_pin(version_dir(node->pin_dir(), PDL_ABI_VERSION), "uplinks")));
    value_of(bpf::pin(map.get(), pin));
  }
  const PluginAnswer answer = refused(node, pod);
  CHECK(answer.code == 101);
  CHECK_THAT(answer.message, ContainsSubstring("pod_egress"));
  CHECK(node.verbs() == "ADD DEL");
}

TEST_CASE("missing capabilities are named, and nothing is done") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual)));
  for (const std::string missing : {"net_admin", "sys_admin"}) {
    std::vector<std::string> argv{"setpriv", "--bounding-set=-" + missing, "--inh-caps=-" + missing, "env", "-i"};
    for (const std::string& variable : environment_of(node, "ADD", pod)) argv.push_back(variable);
    argv.push_back(program_folder() + "/poduplink");
    const Outcome outcome = value_of(node->node().run(argv, pod.config));
    INFO(outcome.text());
    CHECK(outcome.status == 1);
    std::string name = "CAP_" + missing;
    for (char& c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    CHECK_THAT(outcome.out, ContainsSubstring("lacks capabilities: " + name));
    CHECK(node.verbs().empty());
    REQUIRE_CLEAN(*node);
  }
}

TEST_CASE("H7 J12: a failure at any step undoes those before it") {
  StandIn node;
  Pod pod = value_of(node.make_pod("p", stub_pod(dual)));
  const std::string veth = host_veth_name(id_of(pod));
  SECTION("the host veth's name is taken") {
    value_of(node->node().ip("link add " + veth + " type veth peer name other0"));
    value_of(node->accept_changes({veth, "other0"}));
    CHECK(refused(node, pod).code == 105);
    value_of(node->node().ip("link delete " + veth));
    value_of(node->accept_changes({veth, "other0"}));
  }
  SECTION("the record cannot be written") {
    value_of(write_file_atomically(records_dir(node->run_dir()), "a file, no folder"));
    node.forget_calls();
    CHECK(value_of(node->call("ADD", pod)).code == 108);
    value_of(remove_file(records_dir(node->run_dir())));
    CHECK(node.verbs().empty());
  }
  SECTION("the address has a host route by another interface") {
    value_of(node->node().ip("route add 10.1.9.7/32 dev eth3"));
    value_of(node->accept_changes({"10.1.9.7"}));
    const PluginAnswer answer = refused(node, pod);
    CHECK(answer.code == 106);
    CHECK_THAT(answer.message, ContainsSubstring("10.1.9.7/32"));
    value_of(node->node().ip("route delete 10.1.9.7/32 dev eth3"));
    value_of(node->accept_changes({"10.1.9.7"}));
  }
  SECTION("a route does not fit into the container") {
    value_of(pod.space->ip("route add 203.0.113.0/24 dev lo metric 5"));
    pod.config = patched(pod, R"({"ipam":{"result":{"routes":[{"dst":"203.0.113.0/24","priority":5}]}}})");
    const PluginAnswer answer = refused(node, pod);
    CHECK(answer.code == 105);
    CHECK_THAT(answer.message, ContainsSubstring("203.0.113.0/24"));
    value_of(pod.space->ip("route delete 203.0.113.0/24 dev lo metric 5"));
    pod.config = patched(pod, R"({"ipam":{"result":{"routes":null}}})");
  }
  if (!node.verbs().empty()) CHECK(node.verbs() == "ADD DEL");
  require_works(node, pod);
}

TEST_CASE("A13 H7: a result that nobody reads is undone") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual)));
  std::vector<std::string> argv{"env", "-i"};
  for (const std::string& variable : environment_of(node, "ADD", pod)) argv.push_back(variable);
  SECTION("standard output is closed") {
    for (const char* part : {"sh", "-c", "exec \"$0\" >&-"}) argv.emplace_back(part);
  }
  SECTION("the reader is gone") {
    for (const char* part : {"bash", "-c", "set -o pipefail; { sleep 0.3; \"$0\"; } | true"}) argv.emplace_back(part);
  }
  argv.push_back(program_folder() + "/poduplink");
  const Outcome outcome = value_of(node->node().run(argv, pod.config));
  INFO(outcome.text());
  CHECK(outcome.status != 0);
  CHECK(node.verbs() == "ADD DEL");
  REQUIRE_CLEAN(*node);
  require_works(node, pod);
}

TEST_CASE("H4 H5 H6 H14 H16 F8 C27 C28: an IPAM plugin that misbehaves is reported, and its address given back once") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual)));
  struct Case {
    const char* behaviour;
    unsigned code;
    const char* text;
  };
  for (const auto& [behaviour, code, text] :
       {Case{"fail", 111, "ipam stub-ipam: stub-ipam: told to fail"}, Case{"garbage", 104, "ipam stub-ipam"},
        Case{"empty", 104, "ipam stub-ipam"}, Case{"silent", 100, "exit status 3"}, Case{"crash", 100, "signal 6"},
        Case{"hang", 110, "no answer within 1 s"}}) {
    INFO(behaviour);
    Pod changed = pod;
    changed.config = patched(pod, formatted(R"({{"ipamTimeout":1,"ipam":{{"behave":{{"ADD":"{}"}}}}}})", behaviour));
    const PluginAnswer answer = refused(node, changed);
    CHECK(answer.code == code);
    CHECK_THAT(answer.message, ContainsSubstring(text));
    CHECK(node.verbs() == "ADD DEL");
    CHECK(node.calls().back().input == changed.config);
  }
  // No fault of its own: much on standard error, and a child that keeps its pipes.
  Pod noisy = pod;
  noisy.config = patched(pod, R"({"ipam":{"behave":{"ADD":"noise","DEL":"noise"}}})");
  const PluginAnswer loud = value_of(node->call("ADD", noisy));
  CHECK(loud.ok());
  CHECK(loud.process.err.size() >= std::size_t{1} << 20);
  CHECK(value_of(node->call("DEL", noisy)).ok());

  put_plugin(node, "lingering-ipam", "sleep 3 &\nexec " + program_folder() + "/tests/stub-ipam\n");
  Pod lingering = pod;
  lingering.config = patched(pod, R"({"ipam":{"type":"lingering-ipam"}})");
  const PluginAnswer added = value_of(node->call("ADD", lingering));
  CHECK(added.ok());
  CHECK_FALSE(added.process.held_open);
  CHECK(added.process.duration < std::chrono::milliseconds(1500));
  CHECK(value_of(node->call("DEL", lingering)).ok());
  std::this_thread::sleep_for(std::chrono::seconds(3));  // for the children of both verbs
}

TEST_CASE("H15 H17: an IPAM plugin that cannot be run, floods, or does not read its input") {
  StandIn node;
  Pod pod = value_of(node.make_pod("p", stub_pod(dual, R"({"ipam":{"type":"own-ipam"}})")));
  SECTION("is not executable") {
    put_plugin(node, "own-ipam", "");
    std::filesystem::permissions(node->folder() + "/cni-bin/own-ipam", std::filesystem::perms::owner_read);
    const PluginAnswer answer = refused(node, pod);
    CHECK(answer.code == 100);
    CHECK_THAT(answer.message, ContainsSubstring("own-ipam: Permission denied"));
  }
  SECTION("prints without end") {
    put_plugin(node, "own-ipam", "[ $CNI_COMMAND = DEL ] || exec yes\n");
    const PluginAnswer answer = refused(node, pod);
    CHECK(answer.code == 100);
    CHECK_THAT(answer.message, ContainsSubstring("octets"));
    CHECK(answer.process.duration < std::chrono::seconds(5));
  }
  SECTION("does not read its input") {
    put_plugin(node, "own-ipam",
               R"(exec <&-
[ $CNI_COMMAND = DEL ] || echo '{"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"}]}'
)");
    pod.config = patched(pod, R"({"padding":")" + std::string(300000, 'x') + "\"}");
    require_works(node, pod);
  }
  SECTION("is being written to at first") {
    const std::string path = node->folder() + "/cni-bin/own-ipam";
    std::filesystem::copy_file(program_folder() + "/tests/stub-ipam", path);
    std::optional<Fd> writer(value_of(open_file(path, O_WRONLY)));
    std::thread closer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      writer.reset();
    });
    const PluginAnswer answer = value_of(node->call("ADD", pod));
    closer.join();
    INFO(answer.text());
    CHECK(answer.ok());
    CHECK(value_of(node->call("DEL", pod)).ok());
  }
}

TEST_CASE("K4 C15 C16 C35 D97: the interface is gone before the address is given back, and the environment is ours") {
  StandIn node;
  put_plugin(node, "own-ipam",
             R"(exec 9>>"$PDL_TEST_LOG"
echo "$CNI_COMMAND $(ip -br link | grep -c '^pdl') $CNI_ARGS|$PDL_EXTRA|$CNI_NETNS" >&9
[ $CNI_COMMAND = DEL ] || echo '{"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"}]}'
)");
  const std::string log = node->folder() + "/order";
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual, R"({"ipam":{"type":"own-ipam"}})")));
  for (const char* verb : {"ADD", "DEL"}) {
    const PluginAnswer answer = value_of(node->invoke({.verb = verb,
                                                       .container_id = pod.container_id,
                                                       .netns = pod.space->path(),
                                                       .args = "IgnoreUnknown=1;X=a=b;",
                                                       .config = pod.config},
                                                      {"PDL_EXTRA= two words", "PDL_TEST_LOG=" + log}));
    INFO(answer.text());
    CHECK(answer.ok());
  }
  const std::string rest = " 0 IgnoreUnknown=1;X=a=b;| two words|" + pod.space->path() + "\n";
  CHECK(value_of(read_file(log)) == "ADD" + rest + "DEL" + rest);
  value_of(remove_file(log));
}

TEST_CASE("K10 Q2: DEL waits for an ADD of the same attachment and wins") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual, R"({"ipam":{"behave":{"ADD":"slow"}}})")));
  PluginAnswer added;
  std::thread adder([&] { added = value_of(node->call("ADD", pod)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const PluginAnswer deleted = value_of(node->call("DEL", pod));
  adder.join();
  CHECK(added.process.ok());  // its interface may be gone by the time it is looked at
  CHECK(deleted.ok());
  CHECK(node.verbs() == "ADD DEL");
  REQUIRE_CLEAN(*node);
}

TEST_CASE("F7: asked to stop, ADD undoes what it did") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual, R"({"ipam":{"behave":{"ADD":"hang"}}})")));
  const std::string log = node->folder() + "/plugin.log";
  Background plugin = start_plugin(node, "ADD", pod, log);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  value_of(plugin.signal(SIGTERM));
  CHECK(plugin.wait(std::chrono::seconds(5)) == 1);
  CHECK_THAT(value_of(read_file(log)), ContainsSubstring("\"code\":11"));
  CHECK(node.verbs() == "ADD DEL");
  value_of(remove_file(log));
  REQUIRE_CLEAN(*node);
}

TEST_CASE("Q3 C26: killed at any moment, ADD leaves what DEL can clear, and can be repeated") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual)));
  const std::string log = node->folder() + "/plugin.log";
  unsigned cut_short = 0;
  for (int delay = 0; delay < 6000; delay += 300) {
    Background plugin = start_plugin(node, "ADD", pod, log);
    std::this_thread::sleep_for(std::chrono::microseconds(delay));
    if (const auto killed = plugin.signal(SIGKILL); !killed) UNSCOPED_INFO(killed.error().message);  // over already
    if (plugin.wait(std::chrono::seconds(5)) == 128 + SIGKILL) ++cut_short;
    INFO("killed after " << delay << " us");
    const PluginAnswer deleted = value_of(node->call("DEL", pod));
    INFO(deleted.text());
    REQUIRE(deleted.ok());
    value_of(remove_file(log));
    REQUIRE_CLEAN(*node);
  }
  CHECK(cut_short > 3);
  require_works(node, pod);
}
