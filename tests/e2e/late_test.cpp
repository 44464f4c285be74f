// SPDX-License-Identifier: Apache-2.0
// Late steering of what bears the node's own address on a secondary uplink: forwarded answers always, the node's own
// packets with "steerNode" only. The main table's default route leads by another uplink, or by a NIC that nobody
// listed, where the agent's programs stand because of that route.
#include "tests/e2e/steps.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::Equals;

namespace {

constexpr std::uint16_t node_port = 30080;
constexpr std::uint16_t masquerading_port = 30081;

// The second NIC is the only one that is configured, or the last of two.
std::string config(const Lab& lab, bool steer_node) {
  const char* second = R"({"name": "eth2", "gateway4": "10.2.0.1", "gateway6": "fd00:2::1"})";
  return services_config(lab,
                         formatted(R"({{"uplinks": [{}{}], "steerNode": {}}})",
                                   lab.options().unlisted_default ? "" : R"({"name": "eth1"}, )", second, steer_node));
}

// Packets from the node's address on eth2: in order, by eth2 alone.
void node_leaves_by_second(const Lab& lab, const Outside& outside, unsigned ttl) {
  for (const Family family : families) {
    const IpAddress node = address_of(lab.uplink(2), family);
    for (const unsigned other : lab.uplink_numbers()) {
      if (other != 2) nothing_from(node, outside, other);
    }
    const auto frames = outside.at(2).frames(both(received_from(node), sent_to(Outside::address(family))));
    CHECK(frames.size() >= 5);
    for (const Frame& frame : frames) {
      INFO(frame.packet.text());
      CHECK(frame.packet.ttl == ttl);
      CHECK(frame.packet.source_mac == lab.uplink(2).mac());
      CHECK(frame.packet.destination_mac == lab.uplink(2).gateway_mac());
      CHECK(frame.packet.header_checksum_ok);
      CHECK((frame.checksum_pending || frame.packet.payload_checksum_ok));
    }
  }
}

}  // namespace

TEST_CASE("The un-NATed answer of a NodePort on a secondary uplink's address leaves by that uplink") {
  for (const bool unlisted : {false, true}) {
    auto lab = value_of(Lab::create({.uplinks = 2, .unlisted_default = unlisted}));
    value_of(lab->start_agent(config(*lab, false)));
    Outside outside = value_of(Outside::watch(*lab));
    for (const char* mode : {"fast", "netfilter"}) {
      const Pod pod = add_pod(*lab, "pod", {.uplink = unlisted ? 2U : 1U, .mode = mode});
      const EchoServer in_pod = echo_in(pod, server_port);
      std::vector<Service> services;
      for (const Family family : families) {
        services.push_back({.address = {}, .port = node_port, .backend = {address_of(pod, family), server_port}});
        services.push_back({.address = {},
                            .port = masquerading_port,
                            .backend = {address_of(pod, family), server_port},
                            .masquerade = true});
      }
      for (const RuleKind kind : kinds) {
        INFO(name_of(kind) << ", " << mode << ", default route by an unlisted NIC: " << unlisted);
        const Firewall firewall = value_of(Firewall::install(lab->node(), kind, services));
        const VerdictsSince verdicts(*lab);
        for (const Endpoint& to : {Endpoint{lab->uplink(2).node4(), node_port},
                                   {lab->uplink(2).node6(), node_port},
                                   {lab->uplink(2).node4(), masquerading_port},
                                   {lab->uplink(2).node6(), masquerading_port}}) {
          INFO(to.text());
          const Datagram request{.to = to, .from = Outside::address(to.address.family())};
          CHECK(value_of(exchange_udp(lab->gateway(2), request)) == "poduplink");
          CHECK(value_of(exchange_tcp(lab->gateway(2), request)) == "poduplink");
        }
        node_leaves_by_second(*lab, outside, forwarded_ttl);
        stays_inside(pod, outside);
        INFO(verdicts.text());
        CHECK(verdicts().late_node >= 16);
        CHECK(value_of(firewall.invalid()) == 0);
        outside.clear();
      }
      value_of(lab->del_pod("pod"));
    }
    REQUIRE_CLOSED(*lab);
  }
}

TEST_CASE(
    "The node's own packets from a secondary uplink's address leave by it with steerNode, and are untouched without") {
  for (const bool unlisted : {false, true}) {
    auto lab = value_of(Lab::create({.uplinks = 2, .unlisted_default = unlisted}));
    const unsigned first = unlisted ? 0 : 1;
    Outside outside = value_of(Outside::watch(*lab));
    for (const bool steer : {false, true}) {
      INFO("steerNode " << steer << ", default route by an unlisted NIC: " << unlisted);
      value_of(lab->start_agent(config(*lab, steer)));
      const VerdictsSince verdicts(*lab);
      for (const Family family : families) {
        const IpAddress own = address_of(lab->uplink(2), family);
        if (steer) {
          const Datagram request{.to = Outside::echo(family), .from = own};
          CHECK(value_of(exchange_udp(lab->node(), request)) == "poduplink");
          CHECK(value_of(exchange_tcp(lab->node(), request)) == "poduplink");
          value_of(ping(lab->node(), request));
        } else {
          value_of(send_udp(lab->node(), {.to = Outside::echo(family), .from = own}));
          CHECK(outside.at(first).wait_for(received_from(own)));
          nothing_from(own, outside, 2);
        }
        // What the node says by its first address is nobody's business.
        const IpAddress primary = address_of(lab->uplink(first), family);
        CHECK(value_of(exchange_tcp(lab->node(), {.to = Outside::echo(family), .from = primary})) == "poduplink");
        nothing_from(primary, outside, 2);
      }
      if (steer) node_leaves_by_second(*lab, outside, 64);
      INFO(verdicts.text());
      CHECK((verdicts().late_node > 0) == steer);
      outside.clear();
      value_of(lab->agent().stop());
    }
    REQUIRE_CLOSED(*lab);
  }
}

TEST_CASE("With only the second NIC configured, pods' calls of services and netfilter-mode pods leave by it") {
  auto lab = value_of(Lab::create({.uplinks = 2, .unlisted_default = true}));
  const auto servers = start_servers(*lab);
  value_of(lab->start_agent(config(*lab, false)));
  const Outside outside = value_of(Outside::watch(*lab));
  for (const char* mode : {"fast", "netfilter"}) {
    const Pod pod = add_pod(*lab, "pod", {.uplink = 2, .mode = mode});
    for (const RuleKind kind : kinds) {
      INFO(name_of(kind) << ", " << mode);
      const Firewall firewall = value_of(Firewall::install(lab->node(), kind, remote_service()));
      const VerdictsSince verdicts(*lab);
      for (const Family family : families) {
        call(*pod.space, {service_address(family), service_port});
        CHECK_THAT(lines_of(outside.faults_from(address_of(pod, family), lab->uplink(2))), Equals(""));
      }
      CHECK(verdicts().late_redirected > 0);
      CHECK(value_of(firewall.invalid()) == 0);
    }
    leaves_by_home(*lab, pod, outside);
    value_of(lab->del_pod("pod"));
  }
  REQUIRE_CLOSED(*lab);
}
