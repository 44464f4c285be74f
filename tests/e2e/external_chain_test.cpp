// SPDX-License-Identifier: Apache-2.0
// The external network behind real plugins: what leaves where, seen at both gateways and on the overlay.
#include <catch2/generators/catch_generators.hpp>
#include <nlohmann/json.hpp>

#include "tests/e2e/external_node.h"
#include "tests/e2e/steps.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::Equals;
using Json = nlohmann::json;

namespace {

EchoServer echo_on(const Namespace& space, const ChainedPod& pod, std::uint16_t port = echo_port) {
  return value_of(EchoServer::start(space, {{pod.first(Family::v4), port}, {pod.first(Family::v6), port}}));
}

// Nothing of the pod, by whichever address, came to this gateway or went over the overlay.
void nothing_of(const ChainedPod& pod, Family family, const Outside& outside, unsigned uplink) {
  nothing_from(pod.first(family), outside, uplink);
  nothing_from(pod.external(family), outside, uplink);
}

std::size_t count(const Capture& seen, const IpAddress& from, const IpAddress& to) {
  return seen.count([&](const Frame& frame) { return frame.packet.source == from && frame.packet.destination == to; });
}

}  // namespace

TEST_CASE("D27: pods reach the cluster by their first network and the outside by the second NIC, and by nothing else") {
  const auto [first, mode] = GENERATE(table<std::string, std::string>({{"bridge", "fast"}, {"ptp", "netfilter"}}));
  INFO(first << " " << mode);
  ExternalNode node(1);
  ExternalNode far(2);
  ExternalNode::connect(node, far);
  ChainedPod pod(node, "pod", {.first = first, .mode = mode});
  ChainedPod peer(far, "peer", {.first = first, .mode = mode});
  pod.require_add();
  peer.require_add();
  const EchoServer server = echo_on(peer.space(), peer);
  const EchoServer own = echo_on(pod.space(), pod);
  std::vector<Service> services;
  for (const Family family : families) {
    services.push_back({service_address(family), service_port, {peer.first(family), echo_port}});
    services.push_back({std::nullopt,
                        family == Family::v4 ? std::uint16_t{30080} : std::uint16_t{30086},
                        {pod.first(family), echo_port}});
  }
  static_cast<void>(value_of(Firewall::install(node->node(), RuleKind::nftables, services)));
  for (const unsigned number : node->uplink_numbers())
    value_of(node->gateway(number).ip(
        formatted("route add 10.244.0.0/16 via {} dev eth0\nroute add fd00:244::/32 via {} dev eth0",
                  node->uplink(number).node4().text(), node->uplink(number).node6().text())));
  const Outside outside = value_of(Outside::watch(*node));
  const Capture overlay = value_of(Capture::start(node->node(), "vxlan0"));
  for (const Family family : families) {
    INFO((family == Family::v4 ? "IPv4" : "IPv6"));
    {
      INFO("the outside");
      talk(pod.space(), Outside::echo(family));
      CHECK_THAT(lines_of(outside.faults_from(pod.external(family), node->uplink(external_uplink))), Equals(""));
      nothing_of(pod, family, outside, 1);
      nothing_from(pod.first(family), outside, external_uplink);
      CHECK(count(overlay, pod.external(family), Outside::address(family)) == 0);
    }
    {
      INFO("a pod of the other node, over the overlay");
      talk(pod.space(), {peer.first(family), echo_port});
      CHECK(count(overlay, pod.first(family), peer.first(family)) > 0);
      CHECK(count(overlay, peer.first(family), pod.first(family)) > 0);
    }
    {
      INFO("a service");
      call(pod.space(), {service_address(family), service_port});
      CHECK(server.clients().back().address == pod.first(family));
    }
    {
      INFO("the node asks the pod");
      call(node->node(), {pod.first(family), echo_port});
    }
    {
      INFO("a client outside asks the first address, directly and by a port of the node");
      nothing_from(pod.first(family), outside, 1);
      call(node->gateway(1), {pod.first(family), echo_port});
      CHECK(count(outside.at(1), pod.first(family), node->uplink(1).gateway4()) +
                count(outside.at(1), pod.first(family), node->uplink(1).gateway6()) >
            0);
      const IpAddress port_address = address_of(node->uplink(1), family);
      call(node->gateway(1), {port_address, family == Family::v4 ? std::uint16_t{30080} : std::uint16_t{30086}});
      nothing_from(pod.first(family), outside, external_uplink);
    }
    {
      INFO("bound to an address the pod leaves by the interface that has it");
      const Capture by_first = value_of(Capture::start(pod.space(), "eth0"));
      const Capture by_external = value_of(Capture::start(pod.space(), external_name));
      // What becomes of this one is the node's business: the cluster's ranges are exempt.
      value_of(send_udp(pod.space(), {.to = {peer.first(family), 9}, .from = pod.external(family)}));
      value_of(send_udp(pod.space(), {.to = {Outside::address(family), 9}, .from = pod.first(family)}));
      CHECK(outside.at(1).wait_for(both(received_from(pod.first(family)), sent_to(Outside::address(family)))));
      nothing_from(pod.external(family), outside, 1);
      CHECK(count(by_external, pod.external(family), peer.first(family)) == 1);
      CHECK(count(by_first, pod.first(family), Outside::address(family)) == 1);
      CHECK(by_first.count([&](const Frame& frame) { return frame.packet.source == pod.external(family); }) == 0);
      CHECK(by_external.count([&](const Frame& frame) { return frame.packet.source == pod.first(family); }) == 0);
    }
  }
  pod.require_check();
  pod.del();
  peer.del();
  value_of(node->node().run_ok({"nft", "flush", "ruleset"}));
  REQUIRE_CLOSED(*node);
  REQUIRE_CLOSED(*far);
}

TEST_CASE(
    "the result is that of the first plugin with ours behind it, in every version, and the pod's address stays first") {
  ExternalNode node;
  for (const std::string version : {"0.3.1", "0.4.0", "1.0.0"}) {
    INFO(version);
    ChainedPod pod(node, "pod", {.version = version});
    pod.add_first();
    const Json before = Json::parse(pod.result());
    pod.require_add();
    const Json after = Json::parse(pod.result());
    const std::size_t shift = before.at("interfaces").size();
    CHECK(after.at("ips").size() == before.at("ips").size() + 2);
    CHECK(after.at("ips").at(0) == before.at("ips").at(0));
    CHECK(after.at("interfaces").back().at("name") == external_name);
    CHECK(after.at("interfaces").size() == shift + 2);
    for (std::size_t i = before.at("ips").size(); i < after.at("ips").size(); ++i)
      CHECK(after.at("ips").at(i).at("interface") == shift + 1);
    // Each interface has its own MTU.
    CHECK(value_of(pod.space().run_ok({"ip", "link", "show", "eth0"})).find("mtu 1400 ") != std::string::npos);
    CHECK(value_of(pod.space().run_ok({"ip", "link", "show", external_name})).find("mtu 1500 ") != std::string::npos);
    if (version != "0.3.1") pod.require_check();
    pod.del();
  }
  REQUIRE_CLOSED(*node);
}
