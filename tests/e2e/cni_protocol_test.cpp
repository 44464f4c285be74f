// SPDX-License-Identifier: Apache-2.0
// The plugin as a process: environment, standard streams, versions, keys that are none of its business, and what it
// leaves on files and links.
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>

#include "loader/base/file.h"
#include "maps/attachment.h"
#include "maps/paths.h"
#include "maps/record.h"
#include "tests/e2e/stand_in.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

constexpr const char* dual =
    R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"},
        {"address":"fd00:1::9:7/64","gateway":"fd00:1::1"}]})";

std::string plugin() { return program_folder() + "/poduplink"; }

Outcome shell(const std::string& script, const std::vector<std::string>& environment, const std::string& input = {}) {
  return value_of(
      run({.argv = {"/bin/sh", "-c", script}, .environment = environment, .clean_environment = true, .input = input}));
}

PluginAnswer answer_of(const std::string& verb, const std::string& config,
                       const std::vector<std::string>& environment) {
  std::vector<std::string> all = environment;
  all.push_back("CNI_COMMAND=" + verb);
  return read_answer({.verb = verb, .config = config}, shell("exec " + plugin(), all, config));
}

}  // namespace

TEST_CASE("A2: without a verb the plugin says what it is on standard error, and succeeds") {
  const Outcome outcome = shell("exec " + plugin(), {});
  CHECK(outcome.ok());
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, ContainsSubstring("poduplink") && ContainsSubstring("0.3.0") && ContainsSubstring("1.1.0"));
}

TEST_CASE("C1 C2 C3 C51 A4 A9: VERSION needs nothing, whoever asks and with whatever standard input") {
  const std::vector<std::string> dummies{"CNI_COMMAND=VERSION", "CNI_NETNS=dummy", "CNI_IFNAME=dummy", "CNI_PATH=dummy",
                                         "CNI_ARGS=a;;=b;c=d=e"};
  const std::vector<std::string> scripts{
      "exec " + plugin() + " </dev/null",
      "exec " + plugin() + " <&-",
      "cd / && exec " + plugin() + " 9</dev/null 8>/dev/null",
      "exec /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs " + plugin() + " </dev/null",
      "echo not json | " + plugin(),
      R"(echo '{"cniVersion":"9.9.9"}' | )" + plugin(),
      "exec setsid " + plugin() + " </dev/null",
  };
  for (const std::string& script : scripts) {
    for (const std::vector<std::string>& environment : {std::vector<std::string>{"CNI_COMMAND=VERSION"}, dummies}) {
      const PluginAnswer answer =
          read_answer({.verb = "VERSION", .config = R"({"cniVersion":"1.1.0"})"}, shell(script, environment));
      INFO(script << "\n" << answer.text());
      CHECK(answer.ok());
      CHECK_THAT(answer.process.out, StartsWith(R"({"cniVersion":"1.1.0")"));
    }
  }
  const PluginAnswer echoed = answer_of("VERSION", R"({"cniVersion":"0.4.0","name":"n"})", {});
  CHECK_THAT(echoed.process.out, StartsWith(R"({"cniVersion":"0.4.0")"));
}

TEST_CASE(
    "A1 A3 A5 A6 A7 A8 B1 B2 B3 B4 B5 D1 F1 F2 F3 F4 F5: errors of environment and configuration have their codes") {
  struct Case {
    std::string verb;
    std::string config;
    std::vector<std::string> environment;
    unsigned code;
    std::string text;
  };
  const std::string good = R"({"cniVersion":"1.1.0","name":"n","type":"poduplink","ipam":{"type":"none"}})";
  const std::vector<std::string> whole{"CNI_CONTAINERID=c", "CNI_NETNS=/run/netns/nobody", "CNI_IFNAME=eth0",
                                       "CNI_PATH=/none"};
  const auto with = [&](const std::string& variable) {
    std::vector<std::string> changed = whole;
    for (std::string& one : changed) {
      if (variable.starts_with(one.substr(0, one.find('=') + 1))) one = variable;
    }
    return changed;
  };
  const std::vector<Case> cases = {
      {"add", good, whole, 4, "CNI_COMMAND"},
      {"FOO", good, whole, 4, "CNI_COMMAND"},
      {"ADD", good, {}, 4, "CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME"},
      {"CHECK", good, {"CNI_CONTAINERID=", "CNI_NETNS=", "CNI_IFNAME="}, 4, "CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME"},
      {"DEL", good, {}, 4, "CNI_CONTAINERID, CNI_IFNAME"},
      {"GC", good, {}, 4, "CNI_PATH"},
      {"ADD", good, with("CNI_CONTAINERID=-bad"), 4, "-bad"},
      {"ADD", good, with("CNI_CONTAINERID=a b"), 4, "a b"},
      {"ADD", good, with("CNI_IFNAME=a/b"), 4, "a/b"},
      {"ADD", good, with("CNI_IFNAME=sixteencharacter"), 4, "sixteencharacter"},
      {"ADD", good, with("CNI_IFNAME=.."), 4, ".."},
      {"ADD", "", whole, 6, ""},
      {"ADD", R"({"cniVersion":)", whole, 6, ""},
      {"ADD", "[]", whole, 6, "object"},
      {"ADD", "\xef\xbb\xbf" + good, whole, 6, ""},
      {"ADD", R"({"cniVersion":1,"name":"n"})", whole, 6, "cniVersion"},
      {"ADD", R"({"cniVersion":"1.0.0"})", whole, 7, "name"},
      {"ADD", R"({"cniVersion":"1.0.0","name":"a/b"})", whole, 7, "a/b"},
      {"ADD", R"({"name":"n"})", whole, 1, "cniVersion"},
      {"ADD", R"({"cniVersion":"9.0.0","name":"n"})", whole, 1, "9.0.0"},
      {"CHECK", R"({"cniVersion":"0.3.1","name":"n"})", whole, 1, "CHECK"},
      {"GC", R"({"cniVersion":"1.0.0","name":"n"})", whole, 1, "GC"},
      {"STATUS", R"({"cniVersion":"1.0.0","name":"n"})", whole, 1, "STATUS"},
  };
  for (const Case& one : cases) {
    const PluginAnswer answer = answer_of(one.verb, one.config, one.environment);
    INFO(one.verb << " " << one.config << "\n" << answer.text());
    CHECK(answer.faults.empty());
    CHECK(answer.process.status == 1);
    CHECK(answer.code == one.code);
    CHECK_THAT(answer.message + answer.details, ContainsSubstring(one.text));
  }
}

TEST_CASE("A13 E7 C47: a result larger than a pipe is written whole, and nothing else") {
  StandIn node;
  std::string servers;
  for (int i = 0; i < 5000; ++i) servers += formatted("{}\"2001:db8:1234:5678::{:x}\"", i == 0 ? "" : ",", i + 1);
  const std::string patch = R"({"dns":{"nameservers":[)" + servers + "]}}";
  const Pod pod = value_of(node->add_pod("p", stub_pod(dual, patch)));
  CHECK(pod.result.json.size() > 100000);
  value_of(node->del_pod("p"));
}

TEST_CASE("A8 F7 C48: when memory runs out there is one document, whether the exception is caught or not") {
#ifdef __SANITIZE_ADDRESS__
  SKIP("the sanitizer takes more address space than any limit leaves");
#endif
  std::string config = R"({"cniVersion":"1.1.0","name":"n","ipam":{"type":"none"},"list":[0)";
  for (int i = 0; i < 1'500'000; ++i) config += ",0";
  config += "]}";
  for (const std::string program : {"poduplink", "poduplink-ipam"}) {
    const std::string path = program_folder() + "/" + program;
    for (const std::string verb : {"ADD", "DEL", "CHECK", "GC", "STATUS"}) {
      for (const unsigned spare : {5000U, 20000U}) {  // KiB: while it is read, and once it is parsed
        const auto limit = std::filesystem::file_size(path) / 1024 + spare;
        const PluginAnswer answer = read_answer(
            {.verb = verb, .config = config},
            shell(formatted("ulimit -v {}; exec {}", limit, path),
                  {"CNI_COMMAND=" + verb, "CNI_CONTAINERID=c", "CNI_NETNS=/x", "CNI_IFNAME=eth0", "CNI_PATH=/x"},
                  config));
        INFO(program << " " << verb << " " << limit << ": " << answer.text().substr(0, 500));
        CHECK(answer.faults.empty());
        CHECK(answer.process.status == 1);
        CHECK(answer.code == 199);
      }
    }
  }
}

TEST_CASE("B6 C4 G12 O2 O8 O9 P5 J11: keys and capabilities of others are no reason to fail") {
  StandIn node;
  const std::string patch =
      R"({"disableGC":true,"disableCheck":7,"loadOnlyInlinedPlugins":false,"cniVersions":["1.0.0"],
      "plugins":[],"capabilities":{"aliases":true},"args":{"labels":[{"key":"a","value":"b"}],"cni":{"labels":7,"ips":"none"}},
      "runtimeConfig":{"aliases":{"net":["a"]},"cgroupPath":"/kubelet","io.kubernetes.cri.pod-annotations":{"a":"b"},
                       "infinibandGUID":"c2:11:22:33:44:55:66:77","deviceID":"0000:00:1f.6","portMappings":[{"HostPort":0}]}})";
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual, patch)));
  value_of(pod.space->ip("link set lo down"));
  CHECK(value_of(node->call("ADD", pod)).ok());
  CHECK(value_of(node->call("DEL", pod)).ok());
}

TEST_CASE("K8 J7: DEL goes by what ADD wrote down, and asks the IPAM plugin that the configuration names now") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual, R"({"mode":"netfilter"})")));
  CHECK(value_of(node->call("ADD", pod)).ok());
  node.forget_calls();
  const std::string now = value_of(merged(
      pod.config,
      R"({"mode":"fast","uplink":"eth3","mtu":1300,"onLinkGateway":true,"requireUplink":false,"ipam":{"result":{}}})"));
  const PluginAnswer answer =
      value_of(node->invoke({.verb = "DEL", .container_id = pod.container_id, .netns = "", .config = now}));
  INFO(answer.text());
  CHECK(answer.ok());
  CHECK(node.verbs() == "DEL");
  REQUIRE_CLEAN(*node);
}

TEST_CASE("Q6 Q8: umask, locale, limits and terminal make no difference, and the log holds nothing of the arguments") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual)));
  const std::string secret = "s3cr3t-token";
  const std::vector<std::string> environment{"CNI_CONTAINERID=" + pod.container_id,
                                             "CNI_NETNS=" + pod.space->path(),
                                             "CNI_IFNAME=eth0",
                                             "CNI_PATH=" + node->cni_path(),
                                             "CNI_ARGS=IgnoreUnknown=1;TOKEN=" + secret,
                                             "LC_ALL=tr_TR.UTF-8",
                                             "TZ=Asia/Kolkata"};
  const auto verb = [&](const std::string& name) {
    std::vector<std::string> all = environment;
    all.push_back("CNI_COMMAND=" + name);
    const Outcome outcome =
        value_of(run({.argv = {"/bin/sh", "-c", "umask 0; ulimit -l 0 -n 40 -c 0; exec setsid " + plugin()},
                      .environment = all,
                      .clean_environment = true,
                      .input = pod.config,
                      .netns_fd = node->node().fd()}));
    INFO(outcome.text());
    CHECK(outcome.ok());
    CHECK(outcome.err.find(secret) == std::string::npos);
  };
  verb("ADD");
  using std::filesystem::perms;
  const auto mode = [](const std::string& path) { return std::filesystem::status(path).permissions() & perms::all; };
  const std::string record =
      record_path(node->run_dir(), attachment_hash({"stub-ipam-eth1", pod.container_id, "eth0"}));
  CHECK(mode(record) == (perms::owner_read | perms::owner_write));
  CHECK(mode(node->run_dir() + "/lock") == (perms::owner_read | perms::owner_write));
  CHECK(value_of(read_file(record)).find(secret) == std::string::npos);
  verb("DEL");
}

TEST_CASE("Q9 C19 D69 J8: both MACs are set by whoever made the link, so that nobody gives it others") {
  StandIn node;
  const Pod pod = value_of(node->add_pod("p", stub_pod(dual)));
  // NET_ADDR_SET: udev leaves such a MAC alone.
  for (const auto& [space, link] :
       {std::pair(&node->node(), pod.host_veth), std::pair<const Namespace*, std::string>(pod.space.get(), "eth0")}) {
    const std::string file = "/sys/class/net/" + link + "/addr_assign_type";
    CHECK(value_of(run_ok({.argv = {"ip", "netns", "exec", space->name(), "cat", file}})) == "3\n");
  }
  const auto entry = value_of(value_of(node->tables()).pods.find(IpAddress::parse("10.1.9.7").value()));
  REQUIRE(entry);
  CHECK(to_mac(entry->pod_mac) == pod.mac);
  value_of(node->del_pod("p"));
}

TEST_CASE("D64 D10 D02: a pod changes no link, rule or setting that the node had") {
  StandIn node;
  value_of(node->add_pod("p", stub_pod(dual)));
  for (const std::string& line : node->leftovers()) {
    INFO(line);
    CHECK_THAT(line, StartsWith("left behind:"));
    CHECK(line.find(" rule") == std::string::npos);
  }
  value_of(node->del_pod("p"));
}

TEST_CASE("D70: the pod's default gateway answers, should the pod have lost its neighbours") {
  auto lab = lab_with_agent({.uplinks = 1});
  const Pod pod = value_of(lab->add_pod("p"));
  value_of(pod.space->ip("neigh flush dev eth0 nud permanent"));
  value_of(pod.space->run_ok({"ping", "-c1", "-W5", "10.1.0.10"}));
  value_of(pod.space->run_ok({"ping", "-c1", "-W5", "fd00:1::10"}));
  const std::string neighbours = value_of(pod.space->run_ok({"ip", "neigh"}));
  CHECK_THAT(neighbours, ContainsSubstring("169.254.1.1 dev eth0 lladdr 02:70:6f:64:75:70") &&
                             ContainsSubstring("fe80::1 dev eth0 lladdr 02:70:6f:64:75:70"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("I13: an uplink that is down carries pods as its whenDown has it, and a vanished one is named") {
  StandIn node;
  pdl_uplink entry = value_of(node.uplink_entry("eth1"));
  entry.state = PDL_STATE_DOWN;
  value_of(node.set_uplink("eth1", entry));
  const Pod pod = value_of(node.make_pod("p", stub_pod(dual)));
  const PluginAnswer answer = value_of(node->call("ADD", pod));
  CHECK(answer.ok());
  CHECK_THAT(answer.process.err, ContainsSubstring("uplink eth1 is down"));
  CHECK(value_of(node->call("DEL", pod)).ok());
}

TEST_CASE("C5 C9 N3 D53: after a reboot, and where no DEL ever comes, GC frees what is left") {
  StandIn node;
  PodOptions options;
  options.version = "1.1.0";
  Pod pod = value_of(node->add_pod("p", options));
  const bool reboot = GENERATE(false, true);
  INFO("reboot: " << reboot);
  value_of(node->node().ip("link delete " + pod.host_veth));
  if (reboot) {
    // What lay in memory is gone; reservations lie on disk.
    std::filesystem::remove_all(records_dir(node->run_dir()));
    value_of(node.unpin());
    value_of(node.pin());
    value_of(node->node().ip(formatted("neigh delete proxy {} dev eth{}", pod.v6->text(), pod.uplink)));
  }
  value_of(node->forget_pod("p"));
  const std::string config = value_of(merged(pod.config, R"({"cni.dev/valid-attachments":[]})"));
  const PluginAnswer answer = value_of(node->invoke({.verb = "GC", .if_name = "", .config = config}));
  INFO(answer.text());
  CHECK(answer.ok());
  REQUIRE_CLEAN(*node);
}
