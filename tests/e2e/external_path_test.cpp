// SPDX-License-Identifier: Apache-2.0
// The external network and policy, metadata, gateways known by static neighbours, networks of their own, and plugins
// behind it.
#include <catch2/generators/catch_generators.hpp>
#include <nlohmann/json.hpp>

#include "tests/e2e/external_node.h"
#include "tests/e2e/steps.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using Json = nlohmann::json;

namespace {

void leaves_by_second(ExternalNode& node, const ChainedPod& pod, const Outside& outside) {
  for (const Family family : families) {
    talk(pod.space(), Outside::echo(family));
    CHECK_THAT(lines_of(outside.faults_from(pod.external(family), node->uplink(external_uplink))), Equals(""));
  }
}

std::string default_route(const Namespace& space, const char* family) {
  return value_of(space.run_ok({"ip", family, "route", "show", "default"}));
}

}  // namespace

TEST_CASE(
    "D100 D101: in netfilter mode a rule of the node denies the way out by the second NIC, in fast mode it is not "
    "met") {
  ExternalNode node;
  for (const std::string mode : {"netfilter", "fast"}) {
    ChainedPod pod(node, "pod", {.mode = mode});
    pod.require_add();
    const Outside outside = value_of(Outside::watch(*node));
    leaves_by_second(node, pod, outside);
    value_of(node->node().nft(formatted(R"(table inet deny {{
  counter denied {{ }}
  chain forward {{
    type filter hook forward priority filter
    ip saddr {} counter name denied drop
    ip6 saddr {} counter name denied drop
  }}
}})",
                                        pod.external(Family::v4).text(), pod.external(Family::v6).text())));
    for (const Family family : families) {
      const bool passes =
          exchange_udp(pod.space(), {.to = Outside::echo(family)}, std::chrono::milliseconds(300)).has_value();
      CHECK(passes == (mode == "fast"));
    }
    CHECK((value_of(named_counter(node->node(), "deny", "denied")) > 0) == (mode == "netfilter"));
    value_of(node->node().nft("delete table inet deny"));
    pod.del();
  }
  REQUIRE_CLOSED(*node);
}

TEST_CASE("D89: the metadata address never leaves by the external uplink, unless that claims it") {
  const bool claimed = GENERATE(false, true);
  INFO(claimed);
  const std::string uplinks = R"({"uplinks":[{"name":"eth1"},{"name":"eth2","linkLocal":["169.254.169.254/32"]}]})";
  ExternalNode node(1, claimed ? uplinks : "{}");
  const IpAddress metadata = *IpAddress::parse("169.254.169.254");
  ChainedPod pod(node, "pod", {});
  pod.require_add();
  const Outside outside = value_of(Outside::watch(*node));
  const Capture by_first = value_of(Capture::start(pod.space(), "eth0"));
  value_of(send_udp(pod.space(), {.to = {metadata, 80}}));
  const auto bound = send_udp(pod.space(), {.to = {metadata, 80}, .from = pod.external(Family::v4)});
  const auto from_pod = both(received_from(pod.external(Family::v4)), sent_to(metadata));
  if (claimed) {
    CHECK(bound);
    CHECK(outside.at(external_uplink).wait_for(from_pod, 2));
    CHECK(by_first.count([&](const Frame& frame) { return frame.packet.destination == metadata; }) == 0);
  } else {
    CHECK_FALSE(bound);
    CHECK(by_first.wait_for([&](const Frame& frame) { return frame.packet.destination == metadata; }));
    CHECK(outside.at(external_uplink).count(sent_to(metadata)) == 0);
  }
  pod.require_check();
  pod.del();
  REQUIRE_CLOSED(*node);
}

TEST_CASE("D70: a first network whose gateway is known by a static neighbour alone goes on working") {
  ExternalNode node;
  ChainedPod pod(node, "pod", {});
  const Namespace& inside = pod.space();
  value_of(
      node->node().ip(formatted("link add calif address 02:00:00:00:ca:01 type veth peer name eth0 netns {}\n"
                                "link set calif up\nroute add 10.244.1.77/32 dev calif\n"
                                "route add fd00:244:1::77/128 dev calif\n"
                                "address add 10.244.9.9/32 dev lo\naddress add fd00:244:9::9/128 dev lo nodad",
                                inside.name())));
  value_of(
      inside.ip("link set eth0 address 02:00:00:00:ca:02 mtu 1400 up\naddress add 10.244.1.77/32 dev eth0\n"
                "address add fd00:244:1::77/128 dev eth0 nodad\n"
                "neighbour add 169.254.1.1 lladdr 02:00:00:00:ca:01 dev eth0\n"
                "neighbour add fe80::eeee lladdr 02:00:00:00:ca:01 dev eth0\n"
                "route add 169.254.1.1 dev eth0 scope link\nroute add default via 169.254.1.1 dev eth0 src 10.244.1.77 "
                "mtu 1380 initcwnd 20\n"
                "route add default via fe80::eeee dev eth0 metric 1024 hoplimit 60"));
  pod.take_first(formatted(R"({{"cniVersion":"1.0.0","interfaces":[{{"name":"calif","mac":"02:00:00:00:ca:01"}},
      {{"name":"eth0","mac":"02:00:00:00:ca:02","sandbox":"{}"}}],"ips":[{{"address":"10.244.1.77/32","interface":1}},
      {{"address":"fd00:244:1::77/128","interface":1}}],"dns":{{"nameservers":["10.96.0.10"]}}}})",
                           inside.path()));
  value_of(node->accept_changes({"calif", "10.244.", "fd00:244:", "link lo", "02:00:00:00:ca"}));
  pod.require_add();
  CHECK_THAT(pod.result(), ContainsSubstring("10.96.0.10"));
  const EchoServer server = value_of(EchoServer::start(
      node->node(), {{*IpAddress::parse("10.244.9.9"), echo_port}, {*IpAddress::parse("fd00:244:9::9"), echo_port}}));
  for (const char* to : {"10.244.9.9", "fd00:244:9::9"}) {
    talk(inside, {*IpAddress::parse(to), echo_port});
    CHECK(server.clients().back().address == pod.first(server.clients().back().address.family()));
  }
  const Outside outside = value_of(Outside::watch(*node));
  leaves_by_second(node, pod, outside);
  pod.require_check();
  pod.del_ours();
  pod.require_unchanged();
  value_of(pod.pod().space->remove());
  REQUIRE(eventually([&] { return link_index(node->node(), "calif") == 0; }));
  value_of(node->accept_changes({"calif", "10.244.1.77", "fd00:244:1::77", "02:00:00:00:ca"}));
  REQUIRE_CLOSED(*node);
}

TEST_CASE("J15: an external network of its own, as Multus and podman call one, and not a second one") {
  ExternalNode node;
  ChainedPod pod(node, "pod", {});
  pod.add_first();
  const auto asked = [&](const std::string& verb, const std::string& name, unsigned uplink) {
    const std::string config =
        node->pod_config({.uplink = uplink,
                          .network = "out-" + name,
                          .patch = formatted(R"({{"external":{{"clusterCIDRs":{}}}}})", cluster_cidrs)});
    return Invocation{.verb = verb,
                      .container_id = pod.pod().container_id,
                      .netns = pod.space().path(),
                      .if_name = name,
                      .config = config};
  };
  const auto require = [&](const Invocation& invocation) {
    const PluginAnswer answer = value_of(node->invoke(invocation));
    INFO(answer.text());
    REQUIRE(answer.process.status == 0);
    return answer;
  };
  const PluginAnswer added = require(asked("ADD", "net1", 2));
  REQUIRE(added.result);
  CHECK_THAT(default_route(pod.space(), "-4"), ContainsSubstring("dev net1"));
  CHECK_THAT(default_route(pod.space(), "-6"), ContainsSubstring("dev net1"));
  value_of(disable_offloads(pod.space(), "net1"));
  const Outside outside = value_of(Outside::watch(*node));
  for (const ResultAddress& ip : added.result->ips) {
    const IpAddress address = Prefix::parse(ip.address)->address();
    talk(pod.space(), Outside::echo(address.family()));
    CHECK_THAT(lines_of(outside.faults_from(address, node->uplink(2))), Equals(""));
  }
  Invocation check = asked("CHECK", "net1", 2);
  check.config = value_of(with_previous_result(check.config, added.result->json));
  require(check);
  const PluginAnswer second = value_of(node->invoke(asked("ADD", "net2", 1)));
  INFO(second.text());
  CHECK(second.code == 106);
  CHECK_THAT(second.message, ContainsSubstring("has an external network already"));
  require(check);
  require(asked("DEL", "net1", 2));
  pod.require_unchanged();
  pod.del();
  REQUIRE_CLOSED(*node);
}

TEST_CASE("N2 N3: plugins behind the external network work on the first one as before") {
  ExternalNode node;
  const std::string limits =
      R"("runtimeConfig":{"bandwidth":{"ingressRate":8000000,"ingressBurst":8000000,"egressRate":8000000,"egressBurst":8000000}})";
  ChainedPod pod(
      node, "pod",
      {.behind = {
           R"({"type":"tuning","sysctl":{"net.ipv4.conf.eth0.arp_filter":"1"}})",
           R"({"type":"portmap","snat":false,"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":7,"protocol":"tcp"}]}})",
           R"({"type":"bandwidth",)" + limits + "}"}});
  pod.require_add();
  const EchoServer server = value_of(EchoServer::start(pod.space(), {{pod.first(Family::v4), echo_port}}));
  const Outside outside = value_of(Outside::watch(*node));
  for (const unsigned number : node->uplink_numbers()) {
    // From gateway 2 too: the answer goes back to the stack, which has the connection.
    CHECK(value_of(exchange_tcp(node->gateway(number), {.to = {node->uplink(number).node4(), 8080}})) == "poduplink");
  }
  leaves_by_second(node, pod, outside);
  pod.require_check();
  pod.del_ours();
  CHECK_THAT(default_route(pod.space(), "-4"), ContainsSubstring("dev eth0"));
  pod.del_first();
  value_of(pod.pod().space->remove());
  value_of(node->node().run_ok({"nft", "flush", "ruleset"}));
  REQUIRE_CLOSED(*node);
}
