// SPDX-License-Identifier: Apache-2.0
// poduplink as the first plugin of a list: Debian's portmap, tuning, firewall and bandwidth behind it, called as libcni
// calls them, with the real agent on the node.
#include <algorithm>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <ranges>
#include <thread>

#include "maps/podprog.h"
#include "tests/harness/outside.h"
#include "tests/harness/require.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

// A list of plugins: ours with `pod`, the others by type and configuration.
class Chain {
 public:
  Chain(Lab& lab, Pod pod) : lab_(lab), pod_(std::move(pod)) {}

  void append(const std::string& type, const std::string& config) { others_.emplace_back(type, config); }

  // ADD in order; each gets the result of the one before it.
  void add() {
    const PluginAnswer first = value_of(lab_.call("ADD", pod_));
    INFO(first.text());
    REQUIRE(first.ok());
    value_of(lab_.adopt(pod_, first));
    final_ = pod_.result.json;
    for (const auto& [type, config] : others_) final_ = run(type, "ADD", config);
  }

  void check() {
    check_ours();
    for (const auto& [type, config] : others_) run(type, "CHECK", config);
  }

  // Debian's portmap looks for rules that it did not make (IPv6 ones for IPv4) and fails its own CHECK.
  void check_ours() {
    pod_.result.json = final_;  // libcni sends the last result to every plugin
    const PluginAnswer ours = value_of(lab_.call("CHECK", pod_));
    INFO(ours.text());
    CHECK(ours.ok());
  }

  void del() {
    for (const auto& [type, config] : std::views::reverse(others_)) run(type, "DEL", config);
    pod_.result.json = final_;
    const PluginAnswer ours = value_of(lab_.call("DEL", pod_));
    INFO(ours.text());
    CHECK(ours.ok());
    value_of(pod_.space->remove());
  }

  [[nodiscard]] const Pod& pod() const { return pod_; }
  [[nodiscard]] const std::string& result() const { return final_; }

 private:
  std::string run(const std::string& type, const std::string& verb, const std::string& config) {
    std::string whole = value_of(
        merged(config, formatted(R"({{"cniVersion":"{}","name":"chain","type":"{}"}})", pod_.options.version, type)));
    whole = value_of(with_previous_result(whole, final_));
    const Outcome outcome =
        value_of(harness::run({.argv = {"/usr/lib/cni/" + type},
                               .environment = {"CNI_COMMAND=" + verb, "CNI_CONTAINERID=" + pod_.container_id,
                                               "CNI_NETNS=" + pod_.space->path(), "CNI_IFNAME=eth0",
                                               "CNI_PATH=/usr/lib/cni", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
                               .clean_environment = true,
                               .input = whole,
                               .netns_fd = lab_.node().fd()}));
    INFO(type << " " << verb << ": " << outcome.text());
    REQUIRE(outcome.ok());
    return outcome.out;
  }

  Lab& lab_;
  Pod pod_;
  std::string final_;
  std::vector<std::pair<std::string, std::string>> others_;
};

Pod pod_on(Lab& lab, unsigned uplink, const std::string& mode, const std::string& version = "1.0.0",
           const std::string& patch = {}) {
  PodOptions options;
  options.uplink = uplink;
  options.mode = mode;
  options.version = version;
  options.patch = patch;
  return value_of(lab.make_pod("p", options));
}

void require_leaves_by_its_own(const Pod& pod, const Outside& outside) {
  for (const Family family : {Family::v4, Family::v6}) {
    CHECK(value_of(exchange_udp(*pod.space, {.to = Outside::echo(family)})) == "poduplink");
    const IpAddress source = family == Family::v4 ? *pod.v4 : *pod.v6;
    for (const auto& [number, count] : outside.count_from(source)) CHECK((count > 0) == (number == pod.uplink));
  }
}

// Rules and chains that the plugins made once and leave for the next pod are theirs.
void accept_leftovers_of_others(Lab& lab) { value_of(lab.node().run_ok({"nft", "flush", "ruleset"})); }

}  // namespace

TEST_CASE("N2 E11 O4: portmap behind it maps a port of the node, in both modes and all versions that it knows") {
  const std::string mode = GENERATE("fast", "netfilter");
  auto lab = lab_with_agent({.uplinks = 2});
  for (const std::string version : {"0.3.1", "0.4.0", "1.0.0"}) {
    INFO(mode << " " << version);
    Chain chain(*lab, pod_on(*lab, 2, mode, version, R"({"capabilities":{"portMappings":true},"runtimeConfig":
        {"portMappings":[{"HostPort":8080,"ContainerPort":7,"Protocol":"TCP","HostIP":""}]}})"));
    chain.append("portmap", R"({"capabilities":{"portMappings":true},"snat":false,"runtimeConfig":
        {"portMappings":[{"hostPort":8080,"containerPort":7,"protocol":"tcp","hostIP":""}]}})");
    chain.add();
    const EchoServer server = value_of(EchoServer::start(*chain.pod().space, {{*chain.pod().v4, 7}}));
    // From the pod's own uplink and from the other one.
    for (const unsigned number : lab->uplink_numbers()) {
      INFO("from gateway " << number);
      CHECK(value_of(exchange_tcp(lab->gateway(number), {.to = {lab->uplink(number).node4(), 8080}})) == "poduplink");
    }
    {
      const Outside outside = value_of(Outside::watch(*lab));
      require_leaves_by_its_own(chain.pod(), outside);
    }
    if (version != "0.3.1") chain.check_ours();
    chain.del();
    REQUIRE_CLEAN(*lab);
  }
  accept_leftovers_of_others(*lab);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("N2 M3 M5 C64 O6: tuning behind it may change MAC and sysctls, and the pod is reached all the same") {
  const std::string mode = GENERATE("fast", "netfilter");
  auto lab = lab_with_agent({.uplinks = 2});
  Chain chain(*lab, pod_on(*lab, 2, mode));
  chain.append("tuning", R"({"mac":"02:0a:0b:0c:0d:0e","sysctl":{"net.ipv4.conf.eth0.arp_filter":"1"}})");
  chain.add();
  CHECK_THAT(chain.result(), ContainsSubstring("02:0a:0b:0c:0d:0e"));
  chain.check();
  const Outside outside = value_of(Outside::watch(*lab));
  require_leaves_by_its_own(chain.pod(), outside);
  // From outside, and from the node.
  const EchoServer server = value_of(EchoServer::start(*chain.pod().space, {{*chain.pod().v4, 7}}));
  CHECK(value_of(exchange_udp(lab->gateway(2), {.to = {*chain.pod().v4, 7}})) == "poduplink");
  CHECK(value_of(exchange_udp(lab->node(), {.to = {*chain.pod().v4, 7}})) == "poduplink");
  chain.check();
  chain.del();
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("N2: firewall behind it lets the pod through a node that forwards nothing else") {
  auto lab = lab_with_agent({.uplinks = 2});
  value_of(lab->node().run_ok({"iptables", "-P", "FORWARD", "DROP"}));
  Chain chain(*lab, pod_on(*lab, 2, "netfilter"));
  SECTION("without it nothing passes") {
    chain.add();
    CHECK_FALSE(exchange_udp(*chain.pod().space, {.to = Outside::echo(Family::v4)}, std::chrono::milliseconds(500)));
  }
  SECTION("with it") {
    chain.append("firewall", R"({"backend":"iptables"})");
    chain.add();
    chain.check();
    const Outside outside = value_of(Outside::watch(*lab));
    CHECK(value_of(exchange_udp(*chain.pod().space, {.to = Outside::echo(Family::v4)})) == "poduplink");
    for (const auto& [number, count] : outside.count_from(*chain.pod().v4)) CHECK((count > 0) == (number == 2));
  }
  chain.del();
  accept_leftovers_of_others(*lab);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("N2 O3: bandwidth behind it limits a netfilter-mode pod, both ways") {
  auto lab = lab_with_agent({.uplinks = 2});
  constexpr std::size_t sent = 300;
  constexpr std::size_t octets = 1000;
  constexpr std::size_t burst = 40000;      // octets
  constexpr std::size_t rate = 400000 / 8;  // octets a second
  const std::string limits = R"({"ingressRate":400000,"ingressBurst":320000,"egressRate":400000,"egressBurst":320000})";
  const bool limited = GENERATE(false, true);
  Chain chain(*lab,
              pod_on(*lab, 2, "netfilter", "1.0.0",
                     limited ? R"({"capabilities":{"bandwidth":true},"runtimeConfig":{"bandwidth":)" + limits + "}}"
                             : std::string("{}")));
  if (limited && !bpf::have_tcx()) {
    // There our filter and bandwidth's qdisc exclude each other.
    const PluginAnswer answer = value_of(lab->call("ADD", chain.pod()));
    CHECK(answer.code == 2);
    CHECK_THAT(answer.message, ContainsSubstring("bandwidth") && ContainsSubstring("has no tcx"));
    value_of(chain.pod().space->remove());
    REQUIRE_CLOSED(*lab);
    return;
  }
  if (limited) chain.append("bandwidth", R"({"runtimeConfig":{"bandwidth":)" + limits + "}}");
  chain.add();
  const Pod& pod = chain.pod();
  const auto send_all = [&](const Namespace& from, const Endpoint& to, const Capture& seen, const FrameTest& test) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < sent; ++i) value_of(send_udp(from, {.to = to, .payload = std::string(octets, 'x')}));
    // What waits in the shaper comes too; 25 ms of it is all that bandwidth allows.
    if (limited) {
      CHECK(seen.wait_for(test, burst / (octets + 42) / 2));
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    } else {
      CHECK(seen.wait_for(test, sent));
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    const std::size_t arrived = seen.count(test);
    INFO(arrived << " of " << sent << " in " << taken.count() << " s");
    if (limited) {
      // However slow the machine: no more than the bucket and what ran into it meanwhile.
      CHECK(static_cast<double>(arrived * octets) <= 1.2 * (burst + rate * taken.count()));
    } else {
      CHECK(arrived == sent);
    }
  };
  const IpAddress outside = Outside::address(Family::v4);
  {
    INFO("out of the pod");
    const Capture far = value_of(Capture::start(lab->gateway(2), "eth0"));
    send_all(*pod.space, {outside, 9}, far, both(received_from(*pod.v4), sent_to(outside)));
  }
  {
    INFO("into the pod");
    const Capture inside = value_of(Capture::start(*pod.space, "eth0"));
    send_all(lab->gateway(2), {*pod.v4, 9}, inside, sent_to(*pod.v4));
  }
  if (limited) chain.check();
  chain.del();
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("O3: bandwidth in fast mode is refused, in the casing of either kind of runtime, and no rate is none") {
  auto lab = lab_with_agent({.uplinks = 1});
  for (const std::string limits : {R"({"ingressRate":1000,"ingressBurst":4294967295})",
                                   R"({"IngressRate":0,"EgressRate":9,"EgressBurst":34359738359})"}) {
    Pod pod = pod_on(*lab, 1, "fast", "1.0.0", R"({"runtimeConfig":{"bandwidth":)" + limits + "}}");
    const PluginAnswer answer = value_of(lab->call("ADD", pod));
    CHECK(answer.code == 2);
    CHECK_THAT(answer.message, ContainsSubstring("bandwidth"));
    pod.config =
        value_of(merged(pod.config, R"({"runtimeConfig":{"bandwidth":{"IngressRate":0,"ingressRate":0,"EgressRate":null,
        "ingressBurst":null,"IngressBurst":5,"egressRate":0,"EgressBurst":null}}})"));
    CHECK(value_of(lab->call("ADD", pod)).ok());
    CHECK(value_of(lab->call("DEL", pod)).ok());
    value_of(pod.space->remove());
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("O1 O5 P4: MAC and address are taken from capabilities in either casing, and from CNI_ARGS") {
  auto lab = lab_with_agent({.uplinks = 2});
  struct Case {
    std::string patch;
    std::string args;
  };
  for (const auto& [patch, args] :
       {Case{R"({"runtimeConfig":{"mac":"02:0a:0b:0c:0d:0e","ips":["10.2.1.77"]}})", ""},
        Case{R"({"runtimeConfig":{"Mac":"02:0A:0B:0C:0D:0E","IPs":["10.2.1.77/16"]}})", ""},
        Case{R"({"args":{"cni":{"mac":"02:0a:0b:0c:0d:0e","ips":["10.2.1.77"]}}})", "MAC=02:00:00:00:00:99"},
        Case{"{}", "IgnoreUnknown=1;K8S_POD_NAME=web;IP=10.2.1.77;MAC=02:0a:0b:0c:0d:0e"}}) {
    INFO(patch << " " << args);
    PodOptions options;
    options.patch = patch;
    options.args = args;
    const Pod pod = value_of(lab->add_pod("p", options));
    CHECK(pod.mac.text() == "02:0a:0b:0c:0d:0e");
    CHECK(pod.v4->text() == "10.2.1.77");
    CHECK(pod.uplink == 2);
    value_of(lab->del_pod("p"));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("O1 O5: ipRanges of the runtime reach Debian's host-local, in the casing of either kind of runtime") {
  auto lab = lab_with_agent({.uplinks = 2});
  for (
      const std::string ranges :
      {R"({"ipRanges":[[{"subnet":"10.2.0.0/16","rangeStart":"10.2.2.70","rangeEnd":"10.2.2.79","gateway":"10.2.0.1"}]]})",
       R"({"IPRanges":[[{"Subnet":"10.2.0.0/16","RangeStart":"10.2.2.70","RangeEnd":"10.2.2.79","Gateway":"10.2.0.1"}]]})"}) {
    INFO(ranges);
    PodOptions options;
    options.ipam = Ipam::host_local;
    options.uplink = 2;
    options.patch =
        R"({"capabilities":{"ipRanges":true},"ipam":{"ranges":null,"routes":null},"runtimeConfig":)" + ranges + "}";
    const Pod pod = value_of(lab->add_pod("p", options));
    CHECK(pod.v4->text().starts_with("10.2.2.7"));
    CHECK_FALSE(pod.v6);
    value_of(lab->check_pod("p"));
    const Outside outside = value_of(Outside::watch(*lab));
    CHECK(value_of(exchange_udp(*pod.space, {.to = Outside::echo(Family::v4)})) == "poduplink");
    for (const auto& [number, count] : outside.count_from(*pod.v4)) CHECK((count > 0) == (number == 2));
    value_of(lab->del_pod("p"));
  }
  REQUIRE_CLOSED(*lab);
}
