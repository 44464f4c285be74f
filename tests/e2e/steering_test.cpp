// SPDX-License-Identifier: Apache-2.0
// The main job, on the wire: a pod leaves by its own uplink, whatever else the node does.
#include <array>
#include <catch2/generators/catch_generators.hpp>
#include <thread>

#include "tests/e2e/steps.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::Equals;

namespace {

constexpr const char* cluster4 = "10.96.0.10";
constexpr const char* cluster6 = "fd00:96::10";
constexpr const char* backend4 = "203.0.113.80";
constexpr const char* backend6 = "2001:db8:80::80";

std::string default_rules4() {
  return "0:\tfrom all lookup local\n32766:\tfrom all lookup main\n32767:\tfrom all lookup default\n";
}

std::string default_rules6() { return "0:\tfrom all lookup local\n32766:\tfrom all lookup main\n"; }

}  // namespace

TEST_CASE(
    "D07, D11, D40: Each pod leaves by its own uplink, with any IPAM and in both modes, and the node has no ip rule") {
  auto lab = lab_with_agent();
  const Outside outside = value_of(Outside::watch(*lab));
  unsigned number = 0;
  for (const Ipam ipam : {Ipam::poduplink, Ipam::host_local, Ipam::stub}) {
    for (const char* mode : {"fast", "netfilter"}) {
      const unsigned uplink = 1 + number % 3;
      const Pod pod = add_pod(*lab, formatted("pod-{}", number++), {.ipam = ipam, .uplink = uplink, .mode = mode});
      INFO(pod.config);
      REQUIRE(pod.uplink == uplink);
      value_of(lab->check_pod(pod.name));
      leaves_by_home(*lab, pod, outside);
    }
  }
  CHECK(value_of(lab->node().run_ok({"ip", "-4", "rule"})) == default_rules4());
  CHECK(value_of(lab->node().run_ok({"ip", "-6", "rule"})) == default_rules6());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Pods on different uplinks reach each other without leaving the node") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  for (const auto& [one_mode, other_mode] :
       {std::pair{"fast", "fast"}, {"fast", "netfilter"}, {"netfilter", "netfilter"}}) {
    INFO(one_mode << " and " << other_mode);
    const Pod one = add_pod(*lab, "one", {.uplink = 1, .mode = one_mode});
    const Pod other = add_pod(*lab, "other", {.uplink = 2, .mode = other_mode});
    for (const auto& [from, to] : {std::pair{&one, &other}, {&other, &one}}) {
      const EchoServer server =
          value_of(EchoServer::start(*to->space, {{to->v4.value(), echo_port}, {to->v6.value(), echo_port}}));
      for (const Family family : families) talk(*from->space, {address_of(*to, family), echo_port});
      for (const Endpoint& client : server.clients())
        CHECK(client.address == address_of(*from, client.address.family()));
      stays_inside(*from, outside);
    }
    value_of(lab->del_pod("one"));
    value_of(lab->del_pod("other"));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("With the agent killed, pods are added, used and deleted, and a new agent finds them") {
  auto lab = lab_with_agent();
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod before = add_pod(*lab, "before", {.uplink = 2});
  value_of(lab->agent().kill_hard());
  leaves_by_home(*lab, before, outside);
  const Pod after = add_pod(*lab, "after", {.ipam = Ipam::host_local, .uplink = 3});
  leaves_by_home(*lab, after, outside);
  value_of(lab->check_pod("after"));
  value_of(lab->del_pod("before"));
  CHECK_FALSE(value_of(value_of(lab->tables()).pods.find(before.v4.value())).has_value());
  const Pod again = add_pod(*lab, "again", {.ipam = Ipam::stub, .uplink = 2});

  value_of(lab->start_agent());
  REQUIRE_FALSE(lab->agent().log().empty());
  CHECK(value_of(value_of(lab->tables()).pods.find(after.v6.value())).has_value());
  leaves_by_home(*lab, again, outside);
  value_of(lab->del_pod("after"));
  value_of(lab->del_pod("again"));
  REQUIRE_CLEAN(*lab);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D03, D05: Two pods added at the same moment, 250 times over, each leave by their own uplink") {
  auto lab = lab_with_agent();
  Outside outside = value_of(Outside::watch(*lab));
  // The namespaces are made once: making them is not what is tested.
  std::array<Pod, 2> pods{value_of(lab->make_pod("left", {.uplink = 2})),
                          value_of(lab->make_pod("right", {.uplink = 3}))};
  for (int round = 0; round < 250; ++round) {
    INFO("round " << round);
    std::array<Result<PluginAnswer>, 2> answers;
    const auto both_at_once = [&](const std::string& verb) {
      std::thread other([&] { answers[1] = lab->call(verb, pods[1]); });
      answers[0] = lab->call(verb, pods[0]);
      other.join();
    };
    for (Pod& pod : pods) {
      pod.container_id = formatted("{}-{}", pod.name, round);
      pod.result = {};
    }
    both_at_once("ADD");
    for (std::size_t i = 0; i < pods.size(); ++i) {
      pods[i].v4.reset();
      pods[i].v6.reset();
      value_of(lab->adopt(pods[i], value_of(std::move(answers[i]))));
      for (const Family family : families)
        value_of(send_udp(*pods[i].space, {.to = Outside::echo(family), .from = address_of(pods[i], family)}));
    }
    // What is in the maps is what is attached.
    REQUIRE(value_of(value_of(lab->tables()).pods.entries()).size() == pods.size() * families.size());
    for (const Pod& pod : pods) {
      for (const Family family : families) {
        const IpAddress address = address_of(pod, family);
        REQUIRE(outside.at(pod.options.uplink).wait_for(received_from(address)));
        for (const auto& [number, packets] : outside.count_from(address))
          if (number != pod.options.uplink) REQUIRE(packets == 0);
      }
    }
    both_at_once("DEL");
    for (const auto& answer : answers) REQUIRE(value_of(answer).ok());
    REQUIRE(value_of(value_of(lab->tables()).pods.entries()).empty());
    outside.clear();
  }
  REQUIRE_CLEAN(*lab);
  for (const Pod& pod : pods) value_of(pod.space->remove());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Pod and node reach each other by every address of the node") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  std::vector<Endpoint> endpoints;
  for (const unsigned number : lab->uplink_numbers()) {
    endpoints.push_back({lab->uplink(number).node4(), echo_port});
    endpoints.push_back({lab->uplink(number).node6(), echo_port});
  }
  const EchoServer on_node = value_of(EchoServer::start(lab->node(), endpoints));
  for (const char* mode : {"fast", "netfilter"}) {
    INFO(mode);
    const Pod pod = add_pod(*lab, "pod", {.uplink = 2, .mode = mode});
    for (const Endpoint& endpoint : endpoints) talk(*pod.space, endpoint);
    const EchoServer in_pod =
        value_of(EchoServer::start(*pod.space, {{pod.v4.value(), echo_port}, {pod.v6.value(), echo_port}}));
    for (const Family family : families) talk(lab->node(), {address_of(pod, family), echo_port});
    stays_inside(pod, outside);
    value_of(lab->del_pod("pod"));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A caller from outside who comes in by another uplink is answered by the pod's own") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pod pod = add_pod(*lab, "pod", {.uplink = 2});
  const EchoServer in_pod =
      value_of(EchoServer::start(*pod.space, {{pod.v4.value(), echo_port}, {pod.v6.value(), echo_port}}));
  // The first gateway sends what is for the pod to the node's address on its own link.
  value_of(lab->gateway(1).ip("route add 10.2.0.0/16 via 10.1.0.10\nroute add fd00:2::/64 via fd00:1::10"));
  const Outside outside = value_of(Outside::watch(*lab));
  for (const Family family : families) {
    const Endpoint to{address_of(pod, family), echo_port};
    value_of(send_udp(lab->gateway(1), {.to = to, .from = Outside::address(family)}));
    REQUIRE(outside.at(2).wait_for(received_from(to.address)));
    CHECK_THAT(lines_of(outside.faults_from(to.address, lab->uplink(2))), Equals(""));
    // And by its own.
    CHECK(value_of(exchange_tcp(lab->gateway(2), {.to = to, .from = Outside::address(family)})) == "poduplink");
  }
  CHECK(value_of(value_of(lab->tables()).stats.verdicts()).in_other_uplink == 2);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D29: A call to a ClusterIP leaves by the pod's uplink after the node's DNAT, and its answer is un-NATed") {
  // With the default route by an uplink, and by a NIC that nobody listed: there it is the agent that has to see it.
  const bool unlisted = GENERATE(false, true);
  INFO("default route by an unlisted NIC: " << unlisted);
  auto lab = value_of(Lab::create({.uplinks = 3, .unlisted_default = unlisted}));
  value_of(lab->node().nft(formatted(R"(
    table inet services {{
      chain prerouting {{
        type nat hook prerouting priority dstnat
        ip daddr {} meta l4proto {{ tcp, udp }} th dport 80 dnat ip to {}:8080
        ip6 daddr {} meta l4proto {{ tcp, udp }} th dport 80 dnat ip6 to [{}]:8080
      }}
      chain forward {{
        type filter hook forward priority filter
        ct state invalid counter drop
      }}
    }})",
                                     cluster4, backend4, cluster6, backend6)));
  const IpAddress server4 = *IpAddress::parse(backend4);
  const IpAddress server6 = *IpAddress::parse(backend6);
  std::map<unsigned, EchoServer> servers;
  for (const unsigned number : lab->uplink_numbers()) {
    value_of(lab->gateway(number).ip(
        formatted("address add {}/32 dev lo\naddress add {}/128 dev lo nodad", backend4, backend6)));
    servers.emplace(number, value_of(EchoServer::start(lab->gateway(number), {{server4, 8080}, {server6, 8080}})));
  }
  value_of(lab->start_agent(
      value_of(merged(lab->default_agent_config(), R"({"exempt":["10.96.0.0/12","fd00:96::/112"]})"))));
  const Outside outside = value_of(Outside::watch(*lab));
  for (const char* mode : {"fast", "netfilter"}) {
    for (const unsigned uplink : {2U, 3U}) {
      INFO(mode << " by eth" << uplink);
      const Pod pod = add_pod(*lab, "pod", {.uplink = uplink, .mode = mode});
      const std::size_t calls = servers.at(uplink).clients().size();
      for (const char* service : {cluster4, cluster6}) {
        const Endpoint to{*IpAddress::parse(service), 80};
        CHECK(value_of(exchange_udp(*pod.space, {.to = to, .payload = "by UDP"})) == "by UDP");
        CHECK(value_of(exchange_tcp(*pod.space, {.to = to, .payload = "by TCP"})) == "by TCP");
      }
      // No one masqueraded: the server sees the pod.
      const std::vector<Endpoint> clients = servers.at(uplink).clients();
      REQUIRE(clients.size() == calls + 4);
      for (std::size_t i = calls; i < clients.size(); ++i)
        CHECK(clients[i].address == address_of(pod, clients[i].address.family()));
      for (const Family family : families)
        CHECK_THAT(lines_of(outside.faults_from(address_of(pod, family), lab->uplink(uplink))), Equals(""));
      leaves_by_home(*lab, pod, outside);
      value_of(lab->del_pod("pod"));
    }
  }
  CHECK(value_of(value_of(lab->tables()).stats.verdicts()).late_redirected > 0);
  const std::string rules = value_of(lab->node().run_ok({"nft", "list", "chain", "inet", "services", "forward"}));
  CHECK(rules.find("counter packets 0 bytes 0 drop") != std::string::npos);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A packet steered late while the MAC of its gateway is unknown waits and goes to that gateway") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod pod = add_pod(*lab, "pod", {.uplink = 2, .mode = "netfilter"});
  for (const Family family : families) {
    value_of(lab->node().run_ok({"ip", "neighbour", "flush", "all"}));
    value_of(send_udp(*pod.space, {.to = Outside::echo(family)}));
    CHECK(outside.at(2).wait_for(received_from(address_of(pod, family))));
    CHECK_THAT(lines_of(outside.faults_from(address_of(pod, family), lab->uplink(2))), Equals(""));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D61: Uplinks without an address on the node carry their pods") {
  auto lab = lab_with_agent({.uplinks = 2, .unlisted_default = true, .addressless = true});
  const Outside outside = value_of(Outside::watch(*lab));
  for (const unsigned uplink : {1U, 2U}) {
    const Pod pod = add_pod(*lab, formatted("pod-{}", uplink), {.ipam = Ipam::stub, .uplink = uplink});
    leaves_by_home(*lab, pod, outside);
  }
  REQUIRE_CLOSED(*lab);
}
