// SPDX-License-Identifier: Apache-2.0
// Taking an external network away: the first one is as it was, whoever does it and whatever is left to work with.
#include <catch2/generators/catch_generators.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "loader/base/file.h"
#include "tests/e2e/external_node.h"
#include "tests/e2e/steps.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

namespace {

Invocation asked(const std::string& verb, const ChainedPod& pod, const std::string& patch = "{}") {
  return {.verb = verb,
          .container_id = pod.pod().container_id,
          .netns = pod.space().path(),
          .config = value_of(merged(pod.pod().config, patch))};
}

// One `ip` command with its options.
void ip(const ChainedPod& pod, const std::string& command) {
  std::vector<std::string> argv{"ip"};
  std::istringstream words(command);
  for (std::string word; words >> word;) argv.push_back(word);
  value_of(pod.space().run_ok(argv));
}

void require_ok(ExternalNode& node, const Invocation& invocation) {
  const PluginAnswer answer = value_of(node->invoke(invocation));
  INFO(invocation.verb << ": " << answer.text());
  REQUIRE(answer.ok());
}

}  // namespace

TEST_CASE(
    "K1 K2 K6 G1: DEL and GC put the first network back, with whatever they are told, and as often as they come") {
  ExternalNode node;
  ChainedPod pod(node, "pod", {});
  pod.require_add();
  SECTION("DEL without a result or a namespace, twice") {
    Invocation del = asked("DEL", pod);
    del.netns.clear();
    require_ok(node, del);
    pod.require_unchanged();
    require_ok(node, del);
  }
  SECTION("GC of a runtime that has forgotten it") {
    require_ok(node, {.verb = "GC", .if_name = "", .config = value_of(merged(pod.pod().config, R"({"cniVersion":"1.1.0",
        "cni.dev/valid-attachments":[]})"))});
    pod.require_unchanged();
  }
  SECTION("GC of a runtime that knows it leaves it alone") {
    require_ok(node, {.verb = "GC",
                      .if_name = "",
                      .config = value_of(merged(pod.pod().config, formatted(R"({{"cniVersion":
        "1.1.0","cni.dev/valid-attachments":[{{"containerID":"{}","ifname":"eth0"}}]}})",
                                                                            pod.pod().container_id)))});
    pod.require_check();
    pod.del_ours();
  }
  SECTION("the external interface has been taken away by hand") {
    value_of(pod.space().ip("link del ext0"));
    CHECK(pod.call("CHECK").code == 107);
    pod.del_ours();
  }
  SECTION("another default route has been made meanwhile, and the former one is put back all the same") {
    value_of(pod.space().ip("route add default via 10.244.1.254 dev eth0 metric 50"));
    pod.del_ours();
    value_of(pod.space().ip("route del default via 10.244.1.254 dev eth0 metric 50"));
  }
  SECTION("the first interface has gone") {
    value_of(pod.space().ip("link del eth0"));
    const PluginAnswer answer = pod.call("DEL");
    INFO(answer.text());
    CHECK(answer.ok());
    CHECK_THAT(value_of(pod.space().run_ok({"ip", "rule"})), !ContainsSubstring("1000"));
    pod.del_first();
    value_of(pod.pod().space->remove());
    REQUIRE_CLOSED(*node);
    return;
  }
  pod.require_unchanged();
  pod.del_first();
  value_of(pod.pod().space->remove());
  REQUIRE_CLOSED(*node);
}

TEST_CASE("D53: the namespace has gone, or another one has its name: nothing of that one is touched") {
  ExternalNode node;
  ChainedPod pod(node, "pod", {});
  pod.require_add();
  const std::string name = pod.space().name();
  value_of(pod.pod().space->remove());
  Namespace other = value_of(Namespace::create(name));
  const bool taken = GENERATE(true, false);
  if (taken) {
    value_of(
        other.ip("link add eth0 type veth peer name peer0\nlink set eth0 up\nlink set peer0 up\n"
                 "address add 10.244.1.5/24 dev eth0\nroute add default via 169.254.1.1 dev eth0 onlink\n"
                 "rule add from 10.244.1.5 lookup 1000 pref 1500\nroute add default dev eth0 table 1000\n"
                 "link add ext0 type veth peer name peer1"));
  } else {
    value_of(other.remove());
  }
  const Snapshot before = taken ? value_of(take_snapshot(other, {})) : Snapshot{};
  require_ok(node, asked("DEL", pod));
  if (taken) {
    CHECK_THAT(lines_of(differences(before, value_of(take_snapshot(other, {})))), Equals(""));
    value_of(other.remove());
  }
  pod.del_first();
  REQUIRE_CLOSED(*node);
}

TEST_CASE("M2 M3: CHECK names the route, rule or table that is missing, and minds nothing that others have added") {
  ExternalNode node;
  ChainedPod pod(node, "pod", {});
  pod.require_add();
  pod.require_check();
  value_of(
      pod.space().ip("route add 10.99.0.0/16 via 10.244.1.1 dev eth0\nrule add from 10.99.0.1 lookup 77\n"
                     "address add 10.99.0.1/32 dev ext0"));
  pod.require_check();
  struct Case {
    std::string undo;
    std::string again;
    std::string text;
  };
  for (const auto& [undo, again, text] :
       {Case{"route del 10.96.0.0/12", "route add 10.96.0.0/12 via 10.244.1.1 dev eth0 onlink", "10.96.0.0/12"},
        Case{"route del default dev ext0", "route add default via 169.254.1.1 dev ext0 onlink", "0.0.0.0/0"},
        Case{"route del default table 1000", "route add default via 10.244.1.1 dev eth0 table 1000", "table 1000"},
        Case{"route del default table 1001", "route add default via 169.254.1.1 dev ext0 onlink table 1001",
             "table 1001"},
        Case{"route del 169.254.0.0/16 table 1001", "route add prohibit 169.254.0.0/16 table 1001", "169.254.0.0/16"},
        Case{formatted("rule del from {} pref 1500", pod.first(Family::v4).text()),
             formatted("rule add from {} lookup 1000 pref 1500 protocol static", pod.first(Family::v4).text()),
             "rule from"},
        Case{formatted("-6 rule del from {} pref 1500", pod.external(Family::v6).text()),
             formatted("-6 rule add from {} lookup 1001 pref 1500 protocol static", pod.external(Family::v6).text()),
             "rule from"},
        Case{"route append default via 10.244.1.1 dev eth0", "route del default via 10.244.1.1 dev eth0", "is back"},
        Case{"-6 route add default via fd00:244:1::1 dev eth0 metric 1024",
             "-6 route del default via fd00:244:1::1 dev eth0", "is back"}}) {
    ip(pod, undo);
    const PluginAnswer answer = pod.call("CHECK");
    INFO(undo << "\n" << answer.text());
    CHECK(answer.code == 107);
    CHECK_THAT(answer.message, ContainsSubstring(text));
    ip(pod, again);
    pod.require_check();
  }
  value_of(pod.space().ip("route del 10.99.0.0/16\nrule del from 10.99.0.1"));
  pod.del();
  REQUIRE_CLOSED(*node);
}

TEST_CASE(
    "C25 H5 H7: with host-local in a store of its own each DEL gives back one address, and a failing ADD the other's "
    "never") {
  ExternalNode node;
  const std::string store = node->ipam_dir("external");
  const std::string ipam =
      formatted(R"({{"uplink":"eth2","ipam":{{"type":"host-local","dataDir":"{}","ranges":[[{{"subnet":
      "10.2.0.0/16","rangeStart":"10.2.5.1","rangeEnd":"10.2.5.1","gateway":"10.2.0.1"}}]]}}}})",
                store);
  ChainedPod pod(node, "pod", {.ipam = Ipam::host_local, .patch = ipam});
  ChainedPod second(node, "second", {.ipam = Ipam::host_local, .patch = ipam});
  pod.require_add();
  CHECK(pod.external(Family::v4).text() == "10.2.5.1");
  const std::size_t one = node.first_reservations();
  second.add_first();
  const PluginAnswer exhausted = second.add();
  INFO(exhausted.text());
  CHECK(exhausted.code != 0);
  second.require_unchanged();
  CHECK(node.first_reservations() == 2 * one);
  pod.require_check();
  second.del_ours();
  CHECK(node.first_reservations() == 2 * one);
  second.del_first();
  pod.del_ours();
  CHECK(node.first_reservations() == one);
  CHECK_FALSE(read_file(store + "/cluster/10.2.5.1"));
  pod.require_unchanged();
  pod.del_first();
  for (ChainedPod* each : {&pod, &second}) value_of(each->pod().space->remove());
  REQUIRE_CLOSED(*node);
}
