// SPDX-License-Identifier: Apache-2.0
// External networks that cannot be had: ADD says why and changes nothing in the pod, or fails open where it is told to.
#include <future>
#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "tests/e2e/ctl.h"
#include "tests/e2e/external_node.h"
#include "tests/e2e/scraper.h"
#include "tests/e2e/steps.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using Json = nlohmann::json;

namespace {

void require_refused(ExternalNode& node, ChainedPod& pod, unsigned code, const std::string& text) {
  const std::size_t reserved = node.first_reservations();
  const PluginAnswer answer = pod.add();
  INFO(answer.text());
  CHECK(answer.faults.empty());
  CHECK(answer.code == code);
  CHECK_THAT(answer.message, ContainsSubstring(text));
  pod.require_unchanged();
  CHECK(node.first_reservations() == reserved);
  CHECK(reserved > 0);
  CHECK(list_directory(node->run_dir() + "/attachments").value_or(std::vector<std::string>{}).empty());
}

std::string with_timeout(const std::string& keys) {
  return R"({"uplinkTimeout":0)" + (keys.empty() ? "" : "," + keys) + "}";
}

}  // namespace

TEST_CASE("D54: an external network that cannot be had is refused with its reason, and nothing is changed in the pod") {
  ExternalNode node;
  struct Case {
    std::string keys;
    unsigned code;
    std::string text;
  };
  const std::string elsewhere =
      R"("ipam":{"pools":[{"uplink":"UPLINK","ranges":["10.1.1.1-10.1.1.9"],"prefix":16,"gateway":"10.1.0.1"}]})";
  const auto pools = [&](const std::string& uplink) {
    std::string text = elsewhere;
    return text.replace(text.find("UPLINK"), 6, uplink);
  };
  ChainedPod pod(node, "pod", {});
  pod.add_first();
  const std::string config = pod.pod().config;
  const std::string veth = Json::parse(pod.result()).at("interfaces").at(1).at("name");
  for (const auto& [keys, code, text] :
       {Case{pools("eth9"), 103, "eth9"}, Case{pools("cni0"), 103, "cni0 cannot be an uplink: another plugin"},
        Case{pools(veth), 103, veth + " cannot be an uplink: another plugin"},
        Case{pools("eth1") + R"(,"external":{"requireDistinctSubnet":true})", 103,
             "primary uplink's subnet 10.1.0.0/16"},
        Case{R"("external":{"clusterCIDRs":["10.244.0.0/16","10.0.0.0/8"]})", 7,
             R"("10.0.0.0/8" overlaps 10.2.0.0/16)"},
        Case{R"("external":{"clusterCIDRs":["10.244.0.0/16","10.244.0.0/16"]})", 7,
             R"("10.244.0.0/16" is there twice)"},
        Case{R"("external":{"clusterCIDRs":["10.244.0.0/16",""]})", 7, R"([1]': "" is empty)"},
        Case{R"("external":{"ifName":"lo"})", 106, "'external.ifName': the container has an interface lo already"},
        Case{R"("ipam":{"type":"host-local","dataDir":null})", 7, "'ipam.dataDir' is missing"},
        Case{R"("ipam":{"routes":[{"dst":"10.244.7.0/24"}]})", 104,
             "10.244.7.0/24 of the IPAM result lies in 10.244.0.0/16"},
        Case{R"("mtu":1000)", 7, "'mtu': 1000"}}) {
    INFO(keys);
    pod.pod().config = value_of(merged(config, with_timeout(keys)));
    require_refused(node, pod, code, text);
    // What runtimes send then; the first network's address stays reserved.
    const PluginAnswer answer = pod.call("DEL");
    INFO(answer.text());
    CHECK(answer.ok());
    pod.require_unchanged();
    CHECK(node.first_reservations() > 0);
  }
  pod.pod().config = config;
  value_of(node->node().ip("link set eth2 down"));
  pod.set_config(with_timeout(""));
  require_refused(node, pod, 103, "uplink eth2 is down");
  value_of(node->node().ip("link set eth2 up\naddress replace fd00:2::10/64 dev eth2 nodad"));
  pod.pod().config = config;
  pod.require_add();
  SECTION("an ADD that comes again is refused, and the pod keeps what it has") {
    const PluginAnswer again = value_of(node->invoke(
        {.verb = "ADD", .container_id = pod.pod().container_id, .netns = pod.space().path(), .config = pod.config()}));
    INFO(again.text());
    CHECK(again.code == 106);
    pod.require_check();
    const Outside outside = value_of(Outside::watch(*node));
    talk(pod.space(), Outside::echo(Family::v4));
  }
  pod.del();
  value_of(node->accept_changes({"eth2"}));
  REQUIRE_CLOSED(*node);
}

TEST_CASE("a pod without a default route is refused, with failOpen too") {
  ExternalNode node;
  for (const std::string patch : {"{}", R"({"external":{"failOpen":true}})"}) {
    ChainedPod pod(node, "pod", {.patch = patch, .first_patch = R"({"ipam":{"routes":[]}})"});
    pod.add_first();
    require_refused(node, pod, 105, "no default route");
    pod.del();
  }
  REQUIRE_CLOSED(*node);
}

TEST_CASE("failOpen: the pod starts with its first network, and the operator is told") {
  ExternalNode node;
  const std::string keys =
      R"({"uplinkTimeout":0,"uplink":"eth9","external":{"failOpen":true},"ipam":{"type":"stub-ipam",
      "result":{"cniVersion":"1.0.0","ips":[{"address":"10.9.0.5/16","gateway":"10.9.0.1"}]}}})";
  ChainedPod pod(node, "pod", {.patch = keys});
  pod.add_first();
  // Without the empty "dns", which says nothing.
  Json first = Json::parse(pod.result());
  first.erase("dns");
  const PluginAnswer answer = pod.add();
  INFO(answer.text());
  REQUIRE(answer.process.status == 0);
  CHECK(Json::parse(answer.process.out) == first);
  CHECK_THAT(answer.process.err, ContainsSubstring("failOpen"));
  pod.require_unchanged();
  pod.require_check();
  const auto told = [&] {
    const std::string status = ctl(*node, {"status"}).out;
    return status.find("external network") != std::string::npos && status.find("eth9") != std::string::npos;
  };
  const auto counted = [&] { return scrape(*node).at("poduplink_failed_open_attachments"); };
  CHECK(eventually(told, std::chrono::seconds(10)));
  CHECK(counted() == 1);
  SECTION("a wrong key is an error all the same") {
    ChainedPod wrong(node, "wrong", {.patch = R"({"external":{"failOpen":true,"clusterCIDRs":["10.244.0.0"]}})"});
    wrong.add_first();
    CHECK(wrong.add().code == 7);
    wrong.require_unchanged();
    wrong.del();
  }
  pod.del();
  CHECK(eventually([&] { return !told(); }, std::chrono::seconds(10)));
  CHECK(counted() == 0);
  REQUIRE_CLOSED(*node);
}

TEST_CASE("D60: a second NIC that is attached while ADD waits is taken") {
  ExternalNode node;
  const Namespace& side = *value_of(node->add_namespace("side"));
  value_of(node->node().ip(formatted("link set eth2 netns {}", side.name())));
  ChainedPod pod(node, "pod", {});
  pod.add_first();
  auto added = std::async(std::launch::async, [&] { return pod.add(); });
  CHECK(added.wait_for(std::chrono::milliseconds(800)) == std::future_status::timeout);
  value_of(side.ip(formatted("link set eth2 netns {}", node->node().name())));
  value_of(
      node->node().ip("address add 10.2.0.10/16 dev eth2\naddress add fd00:2::10/64 dev eth2 nodad\nlink set eth2 up"));
  const PluginAnswer answer = added.get();
  INFO(answer.text());
  REQUIRE(answer.ok());
  const Outside outside = value_of(Outside::watch(*node));
  talk(pod.space(), Outside::echo(Family::v4));
  CHECK_THAT(lines_of(outside.faults_from(pod.external(Family::v4), node->uplink(2))), Equals(""));
  pod.del();
  value_of(node->accept_changes({"eth2", "10.2.", "fd00:2:"}));
  REQUIRE_CLOSED(*node);
}
