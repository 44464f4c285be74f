// SPDX-License-Identifier: Apache-2.0
#include <linux/rtnetlink.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "cni/external.h"
#include "cni/external_plan.h"
#include "cni/options.h"

namespace poduplink {
namespace {

using Catch::Matchers::ContainsSubstring;

IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }
Prefix prefix(const std::string& text) { return Prefix::parse(text).value(); }

Invocation invocation(const std::string& keys) {
  Environment environment;
  environment.ifname = "eth0";
  auto config = NetworkConfig::parse(R"({"cniVersion":"1.0.0","name":"n","ipam":{"type":"static"},)" + keys + "}");
  REQUIRE(config);
  return {Verb::add, environment, std::move(*config)};
}

CniResult<std::optional<ExternalOptions>> parsed(const std::string& external, const std::string& more = {}) {
  return parse_external(invocation(R"("external":)" + external + more));
}

std::string with_cidrs(const std::string& list) { return R"({"ifName":"ext0","clusterCIDRs":)" + list + "}"; }

// A pod as bridge makes it: 1 is lo, 2 is eth0.
constexpr int eth0 = 2;
constexpr int net1 = 3;

Route route(const std::string& to, const std::string& via = {}, int link = eth0, std::uint32_t metric = 0) {
  Route made;
  made.destination = prefix(to);
  made.next_hops = {{link, via.empty() ? std::nullopt : std::optional(ip(via))}};
  made.metric = metric;
  return made;
}

PodNetwork pod() {
  PodNetwork pod;
  pod.cookie = 77;
  for (const auto& [index, name] : {std::pair(1, "lo"), {eth0, "eth0"}, {net1, "net1"}}) {
    Link link;
    link.index = index;
    link.name = name;
    pod.links.push_back(link);
  }
  pod.addresses = {{.link = eth0, .prefix = prefix("fd00:244::5/64")},
                   {.link = eth0, .prefix = prefix("fe80::1/64")},
                   {.link = eth0, .prefix = prefix("10.244.1.5/24")},
                   {.link = 1, .prefix = prefix("127.0.0.1/8")}};
  pod.routes = {route("0.0.0.0/0", "10.244.1.1"), route("10.244.1.0/24"), route("::/0", "fd00:244::1", eth0, 1024),
                route("fd00:244::/64", {}, eth0, 256)};
  return pod;
}

ExternalRequest request() {
  ExternalRequest request;
  request.if_name = "ext0";
  request.first = "eth0";
  request.cluster = {prefix("10.244.0.0/16"), prefix("10.96.0.0/12"), prefix("fd00:244::/32")};
  request.addresses = {prefix("10.2.1.5/16"), prefix("fd00:2::5/64")};
  request.outside = {prefix("10.2.0.0/16"), prefix("fd00:2::/64")};
  return request;
}

// "to via gateway dev link table metric", in order.
std::string text(const Route& route) {
  std::string text = route.destination.text();
  if (route.type == RTN_PROHIBIT) text += " refused";
  if (!route.next_hops.empty()) {
    if (route.next_hops.front().gateway) text += " via " + route.next_hops.front().gateway->text();
    text += formatted(" dev {}", route.next_hops.front().link);
  }
  if (route.table != 254) text += formatted(" table {}", route.table);
  if (route.metric != 0) text += formatted(" metric {}", route.metric);
  return text;
}

std::vector<std::string> texts(const std::vector<Route>& routes) {
  std::vector<std::string> list;
  list.reserve(routes.size());
  for (const Route& one : routes) list.push_back(text(one));
  return list;
}

bool has(const RecordExternal& plan, const std::string& wanted) {
  const auto all = texts(plan.made);
  return std::ranges::find(all, wanted) != all.end();
}

std::string refusal(const PodNetwork& pod, const ExternalRequest& request) {
  const auto plan = plan_external(pod, request);
  REQUIRE_FALSE(plan);
  return formatted("{} {}", plan.error().code, plan.error().msg);
}

}  // namespace

TEST_CASE("key 'external': what is there is read") {
  const auto options = parsed(R"({"ifName":"ext0","clusterCIDRs":["10.244.0.0/16","fd00:244::/32"],"failOpen":true,
      "requireDistinctSubnet":true})");
  REQUIRE(options);
  REQUIRE(*options);
  CHECK((*options)->if_name == "ext0");
  CHECK((*options)->chained());
  CHECK((*options)->cluster == std::vector{prefix("10.244.0.0/16"), prefix("fd00:244::/32")});
  CHECK((*options)->fail_open);
  CHECK((*options)->require_distinct_subnet);
  const auto alone = parsed(R"({"clusterCIDRs":["10.244.0.0/16"]})");
  REQUIRE(alone);
  CHECK_FALSE((*alone)->chained());
  CHECK_FALSE((*alone)->fail_open);
  CHECK_FALSE(*parse_external(invocation(R"("mtu":1500)")));
  // Parts of one another are no fault.
  CHECK(parsed(with_cidrs(R"(["10.0.0.0/8","10.244.0.0/16"])")));
}

TEST_CASE("key 'external': each fault is named with the text at fault") {
  struct Case {
    std::string external;
    std::string message;
  };
  for (const auto& [external, message] :
       {Case{"5", "'external': 5"},
        Case{R"({"ifName":"ext0"})", "'external.clusterCIDRs' is missing"},
        Case{with_cidrs("[]"), "'external.clusterCIDRs': [] is empty"},
        Case{with_cidrs(R"("10.0.0.0/8")"), "is not a list of strings"},
        Case{with_cidrs(R"(["10.244.0.0/16",""])"), R"('external.clusterCIDRs[1]': "" is empty)"},
        Case{with_cidrs(R"([" 10.244.0.0/16"])"), R"(" 10.244.0.0/16" has blanks)"},
        Case{with_cidrs(R"(["10.244.0.0/16 "])"), R"("10.244.0.0/16 " has blanks)"},
        Case{with_cidrs(R"(["10.244.0.0/16","10.244.0.0/16"])"), R"([1]': "10.244.0.0/16" is there twice)"},
        Case{with_cidrs(R"(["10.244.0.1/16"])"), R"("10.244.0.1/16" has host bits: the prefix is 10.244.0.0/16)"},
        Case{with_cidrs(R"(["10.244.0.0"])"), R"("10.244.0.0" is no CIDR)"},
        Case{with_cidrs(R"(["10.244.0.0/33"])"), R"("10.244.0.0/33" is no CIDR)"},
        Case{with_cidrs(R"(["cluster.local"])"), R"("cluster.local" is no CIDR)"},
        Case{with_cidrs(R"(["0.0.0.0/0"])"), R"("0.0.0.0/0" is everything)"},
        Case{with_cidrs(R"(["::/0"])"), R"("::/0" is everything)"},
        Case{with_cidrs(R"(["::ffff:10.0.0.0/104"])"), "is IPv4 written as IPv6"},
        Case{with_cidrs(R"(["127.0.0.0/8"])"), "is no range that is routed"},
        Case{with_cidrs(R"(["224.0.0.0/4"])"), "is no range that is routed"},
        Case{with_cidrs(R"(["fe80::/10"])"), "is no range that is routed"},
        Case{R"({"ifName":"eth0","clusterCIDRs":["10.0.0.0/8"]})", "is CNI_IFNAME"},
        Case{R"({"ifName":"","clusterCIDRs":["10.0.0.0/8"]})", "'external.ifName': \"\" cannot be"},
        Case{R"({"ifName":"far/away","clusterCIDRs":["10.0.0.0/8"]})", "\"far/away\" cannot be"},
        Case{R"({"failOpen":1,"clusterCIDRs":["10.0.0.0/8"]})", "'external.failOpen': 1"},
        Case{R"({"clusterCidrs":["10.0.0.0/8"]})", "unknown key 'external.clusterCidrs'"}}) {
    const auto options = parsed(external);
    INFO(external);
    REQUIRE_FALSE(options);
    CHECK(options.error().code == 7);
    CHECK_THAT(options.error().msg, ContainsSubstring(message));
  }
  const auto options =
      parse_options(invocation(R"("requireUplink":false,"external":)" + with_cidrs(R"(["10.0.0.0/8"])")));
  REQUIRE_FALSE(options);
  CHECK_THAT(options.error().msg, ContainsSubstring("'requireUplink': false"));
}

TEST_CASE("key 'external': host-local behind another plugin needs a store of its own") {
  const auto with_ipam = [](const std::string& external, const std::string& ipam) {
    auto config =
        NetworkConfig::parse(R"({"cniVersion":"1.0.0","name":"n","ipam":)" + ipam + R"(,"external":)" + external + "}");
    REQUIRE(config);
    return parse_external({Verb::add, {}, std::move(*config)});
  };
  const std::string chained = with_cidrs(R"(["10.0.0.0/8"])");
  for (const char* ipam : {R"({"type":"host-local"})", R"({"type":"host-local","dataDir":""})",
                           R"({"type":"host-local","dataDir":"/var/lib/cni/networks//"})"}) {
    const auto options = with_ipam(chained, ipam);
    INFO(ipam);
    REQUIRE_FALSE(options);
    CHECK(options.error().code == 7);
    CHECK_THAT(options.error().msg, ContainsSubstring("'ipam.dataDir'"));
  }
  CHECK(with_ipam(chained, R"({"type":"host-local","dataDir":"/var/lib/cni/external"})"));
  CHECK(with_ipam(chained, R"({"type":"poduplink-ipam"})"));
  CHECK(with_ipam(R"({"clusterCIDRs":["10.0.0.0/8"]})", R"({"type":"host-local"})"));
}

TEST_CASE("external plan: the default routes move, the cluster is kept, and each address has a table of its own") {
  const auto plan = plan_external(pod(), request());
  REQUIRE(plan);
  CHECK(plan->netns_cookie == 77);
  CHECK(plan->first_name == "eth0");
  CHECK(plan->first_addresses == std::vector{ip("10.244.1.5"), ip("fd00:244::5")});
  CHECK(texts(plan->former) ==
        std::vector<std::string>{"0.0.0.0/0 via 10.244.1.1 dev 2", "::/0 via fd00:244::1 dev 2 metric 1024"});
  for (const char* wanted :
       {"10.244.0.0/16 via 10.244.1.1 dev 2", "10.96.0.0/12 via 10.244.1.1 dev 2",
        "fd00:244::/32 via fd00:244::1 dev 2", "169.254.0.0/16 via 10.244.1.1 dev 2",
        "169.254.0.0/16 refused table 1001", "10.244.1.0/24 dev 2 table 1000",
        "0.0.0.0/0 via 10.244.1.1 dev 2 table 1000", "::/0 via fd00:244::1 dev 2 table 1000 metric 1024",
        "0.0.0.0/0 via 169.254.1.1 dev 0 table 1001", "::/0 via fe80::1 dev 0 table 1001", "169.254.1.1/32 dev 0",
        "fe80::1/128 dev 0"}) {
    INFO(wanted);
    CHECK(has(*plan, wanted));
  }
  const auto all = texts(plan->made);
  CHECK(all[all.size() - 2] == "0.0.0.0/0 via 169.254.1.1 dev 0");
  CHECK(all.back() == "::/0 via fe80::1 dev 0 metric 1023");
  CHECK(plan->rules == std::vector<Rule>{{prefix("10.244.1.5/32"), 1000, 1500},
                                         {prefix("fd00:244::5/128"), 1000, 1500},
                                         {prefix("10.2.1.5/32"), 1001, 1500},
                                         {prefix("fd00:2::5/128"), 1001, 1500}});
  RecordExternal placed = *plan;
  set_external_link(placed, 9);
  CHECK(text(placed.made.back()) == "::/0 via fe80::1 dev 9 metric 1023");
  CHECK(text(placed.former.front()) == "0.0.0.0/0 via 10.244.1.1 dev 2");
  for (const ResultRoute& said : reported_routes(placed)) CHECK_FALSE(said.table);
}

TEST_CASE("external plan: tables that something in the pod uses are left alone") {
  PodNetwork used = pod();
  used.rules.push_back({prefix("10.9.0.0/16"), 1001, 100});
  used.routes.push_back(route("10.9.0.0/16"));
  used.routes.back().table = 1003;
  CHECK(plan_external(used, request())->rules.front().table == 1004);
}

TEST_CASE("external plan: a family that the interface lacks stays with the first network") {
  ExternalRequest only4 = request();
  only4.addresses = {prefix("10.2.1.5/16")};
  const auto plan = plan_external(pod(), only4);
  REQUIRE(plan);
  CHECK(texts(plan->former) == std::vector<std::string>{"0.0.0.0/0 via 10.244.1.1 dev 2"});
  CHECK(std::ranges::none_of(plan->made, [](const Route& one) { return one.destination.family() == Family::v6; }));
  CHECK(plan->rules.size() == 2);
}

TEST_CASE("external plan: a family that the pod lacks is the external interface's alone") {
  PodNetwork only4 = pod();
  std::erase_if(only4.addresses, [](const InterfaceAddress& one) { return one.prefix.family() == Family::v6; });
  std::erase_if(only4.routes, [](const Route& one) { return one.destination.family() == Family::v6; });
  CHECK_THAT(refusal(only4, request()),
             ContainsSubstring("7 key 'external.clusterCIDRs': \"fd00:244::/32\": the container has no IPv6"));
  ExternalRequest cidrs4 = request();
  cidrs4.cluster.pop_back();
  const auto plan = plan_external(only4, cidrs4);
  REQUIRE(plan);
  CHECK(has(*plan, "::/0 via fe80::1 dev 0 metric 1023"));
  CHECK(plan->former.size() == 1);
}

TEST_CASE("external plan: link-local is the first network's, but for what the uplink claims") {
  ExternalRequest claimed = request();
  claimed.claimed = {prefix("169.254.169.254/32")};
  const auto plan = plan_external(pod(), claimed);
  REQUIRE(plan);
  CHECK(has(*plan, "169.254.169.254/32 via 169.254.1.1 dev 0"));
  CHECK(has(*plan, "169.254.169.254/32 via 169.254.1.1 dev 0 table 1001"));
  CHECK(has(*plan, "169.254.0.0/16 refused table 1001"));
  PodNetwork no4 = pod();
  std::erase_if(no4.addresses, [](const InterfaceAddress& one) { return one.prefix.family() == Family::v4; });
  std::erase_if(no4.routes, [](const Route& one) { return one.destination.family() == Family::v4; });
  ExternalRequest cidrs6 = request();
  cidrs6.cluster = {prefix("fd00:244::/32")};
  const auto without = plan_external(no4, cidrs6);
  REQUIRE(without);
  CHECK(has(*without, "169.254.0.0/16 refused"));
}

TEST_CASE("external plan: the 169.254.1.1 habit of a first network, whose gateway is known by a static neighbour") {
  PodNetwork habit = pod();
  habit.routes = {route("0.0.0.0/0", "169.254.1.1"), route("169.254.1.1/32"), route("::/0", "fe80::1", eth0, 1024)};
  const auto plan = plan_external(habit, request());
  REQUIRE(plan);
  CHECK(has(*plan, "10.96.0.0/12 via 169.254.1.1 dev 2"));
  CHECK(has(*plan, "169.254.0.0/16 via 169.254.1.1 dev 2"));
  CHECK(has(*plan, "169.254.1.1/32 dev 0 metric 2048"));
}

TEST_CASE("external plan: routes of the IPAM plugin") {
  const auto with = [](const std::string& dst) {
    ExternalRequest asked = request();
    asked.from_ipam.push_back({.dst = prefix(dst), .mtu = 1280});
    return asked;
  };
  CHECK(has(*plan_external(pod(), with("203.0.113.0/24")), "203.0.113.0/24 via 169.254.1.1 dev 0"));
  const auto plan = plan_external(pod(), with("0.0.0.0/0"));
  CHECK(std::ranges::find_if(plan->made, [](const Route& one) { return is_main_default(one) && one.mtu == 1280; }) !=
        plan->made.end());
  CHECK(has(*plan_external(pod(), with("10.0.0.0/8")), "10.0.0.0/8 via 169.254.1.1 dev 0"));
  CHECK_THAT(refusal(pod(), with("10.244.7.0/24")),
             ContainsSubstring("104 route 10.244.7.0/24 of the IPAM result lies in 10.244.0.0/16"));
  CHECK_THAT(refusal(pod(), with("10.244.0.0/16")), ContainsSubstring("lies in"));
  CHECK_THAT(refusal(pod(), with("169.254.169.254/32")), ContainsSubstring("linkLocal"));
}

TEST_CASE("external plan: routes that are there already") {
  PodNetwork there = pod();
  there.routes.push_back(route("10.96.0.0/12", "10.244.1.9"));
  CHECK_FALSE(has(*plan_external(there, request()), "10.96.0.0/12 via 10.244.1.1 dev 2"));
  there.routes.back().next_hops.front().link = net1;
  CHECK_THAT(refusal(there, request()), ContainsSubstring("\"10.96.0.0/12\" does not lead by eth0, but by net1"));
}

TEST_CASE("external plan: what cannot be moved or told apart is refused") {
  PodNetwork without = pod();
  std::erase_if(without.routes, [](const Route& one) { return one.is_default(); });
  CHECK_THAT(refusal(without, request()), ContainsSubstring("105 the container has no IPv4 default route by eth0"));
  PodNetwork elsewhere = pod();
  elsewhere.routes.front().metric = 100;
  elsewhere.routes.push_back(route("0.0.0.0/0", "10.9.0.1", net1));
  CHECK_THAT(refusal(elsewhere, request()), ContainsSubstring("does not lead by eth0, but by net1"));
  elsewhere.routes.back().metric = 200;
  CHECK(plan_external(elsewhere, request()));
  PodNetwork shared = pod();
  shared.routes.front().next_hops.push_back({net1, ip("10.9.0.1")});
  CHECK_THAT(refusal(shared, request()), ContainsSubstring("several next hops"));
  ExternalRequest overlapping = request();
  overlapping.cluster.push_back(prefix("10.0.0.0/8"));
  CHECK_THAT(refusal(pod(), overlapping),
             ContainsSubstring("7 key 'external.clusterCIDRs': \"10.0.0.0/8\" overlaps 10.2.0.0/16"));
  ExternalRequest stranger = request();
  stranger.first = "eth7";
  CHECK_THAT(refusal(pod(), stranger), ContainsSubstring("105 the container has no interface eth7"));
  stranger.first.clear();
  CHECK_THAT(refusal(without, stranger), ContainsSubstring("105 the container has no default route"));
  CHECK(plan_external(pod(), stranger)->first_name == "eth0");
}

}  // namespace poduplink
