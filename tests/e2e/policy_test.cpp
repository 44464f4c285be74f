// SPDX-License-Identifier: Apache-2.0
// A policy engine on the host's netfilter: what it denies is denied where one of the two ends is in netfilter mode, and
// what it lets through leaves by the home. Direct traffic in fast mode never meets it: that is what fast mode is.
#include "tests/e2e/steps.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::Equals;

namespace {

// Denies a destination, a port of the pods, and every packet between pods; each with its counter. What belongs to
// a connection that was let through goes on, as with any policy engine.
std::string policy(const Lab& lab) {
  std::string between;
  for (const unsigned number : lab.uplink_numbers()) {
    for (const unsigned other : lab.uplink_numbers())
      between += formatted(
          "    ip saddr {} ip daddr {} counter name between drop\n"
          "    ip6 saddr {} ip6 daddr {} counter name between drop\n",
          lab.uplink(number).subnet4(), lab.uplink(other).subnet4(), lab.uplink(number).subnet6(),
          lab.uplink(other).subnet6());
  }
  return formatted(R"(table inet rules
delete table inet rules
table inet rules {{
  counter to_server {{ }}
  counter to_port {{ }}
  counter between {{ }}
  chain forward {{
    type filter hook forward priority filter
    ct state established accept
    ip daddr {} counter name to_server drop
    ip6 daddr {} counter name to_server drop
    th dport 9999 counter name to_port drop
{}  }}
}}
)",
                   server_address(Family::v4).text(), server_address(Family::v6).text(), between);
}

std::uint64_t denied(const Lab& lab, const char* counter) {
  return value_of(named_counter(lab.node(), "rules", counter));
}

bool reaches(const Namespace& from, const Datagram& datagram) {
  return exchange_udp(from, datagram, std::chrono::milliseconds(300)).has_value();
}

}  // namespace

TEST_CASE("D100, D101: netfilter mode obeys the forward chain and leaves by the home, fast mode never meets it") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  const auto servers = start_servers(*lab);
  value_of(lab->start_agent());
  const Outside outside = value_of(Outside::watch(*lab));
  for (const std::string mode : {"netfilter", "fast"}) {
    const bool obeys = mode == "netfilter";
    const Pod pod = add_pod(*lab, "pod", {.uplink = 2, .mode = mode});
    const EchoServer in_pod = echo_in(pod, 9999);
    const EchoServer in_pod_too = echo_in(pod, 9998);
    value_of(lab->node().nft(policy(*lab)));
    for (const Family family : families) {
      INFO(mode << ", " << address_of(pod, family).text());
      const IpAddress self = address_of(pod, family);
      const std::uint64_t destination = denied(*lab, "to_server");
      const std::uint64_t port = denied(*lab, "to_port");
      const Endpoint forbidden{server_address(family), server_port};
      // Out: the forbidden destination and another.
      CHECK(reaches(*pod.space, {.to = forbidden}) == !obeys);
      CHECK(outside.at(2).count(both(received_from(self), sent_to(forbidden.address))) == (obeys ? 0 : 1));
      CHECK(denied(*lab, "to_server") - destination == (obeys ? 1 : 0));
      talk(*pod.space, Outside::echo(family));
      CHECK_THAT(lines_of(outside.faults_from(self, lab->uplink(2))), Equals(""));
      // In: the forbidden port and another.
      const Datagram request{.to = {self, 9999}, .from = Outside::address(family)};
      CHECK(reaches(lab->gateway(2), request) == !obeys);
      CHECK(denied(*lab, "to_port") - port == (obeys ? 1 : 0));
      CHECK(reaches(lab->gateway(2), {.to = {self, 9998}, .from = request.from}));
    }
    value_of(lab->node().nft("delete table inet rules"));
    value_of(lab->del_pod("pod"));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D100: between two pods of the node the forward chain holds where either is in netfilter mode") {
  auto lab = lab_with_agent({.uplinks = 2});
  value_of(lab->node().nft(policy(*lab)));
  const Pod fast1 = add_pod(*lab, "fast1", {.uplink = 1, .mode = "fast"});
  const Pod fast2 = add_pod(*lab, "fast2", {.uplink = 2, .mode = "fast"});
  const Pod netfilter1 = add_pod(*lab, "netfilter1", {.uplink = 1, .mode = "netfilter"});
  const Pod netfilter2 = add_pod(*lab, "netfilter2", {.uplink = 2, .mode = "netfilter"});
  const std::vector<const Pod*> pods{&fast1, &fast2, &netfilter1, &netfilter2};
  std::vector<EchoServer> servers;
  servers.reserve(pods.size());
  for (const Pod* pod : pods) servers.push_back(echo_in(*pod));
  for (const Pod* from : pods) {
    for (const Pod* to : pods) {
      if (from == to) continue;
      const bool obeys = from->options.mode == "netfilter" || to->options.mode == "netfilter";
      for (const Family family : families) {
        INFO(from->name << " to " << to->name << ", " << address_of(*to, family).text());
        const std::uint64_t before = denied(*lab, "between");
        const Datagram datagram{.to = {address_of(*to, family), echo_port}};
        if (obeys) {
          value_of(send_udp(*from->space, datagram));
          CHECK(eventually([&] { return denied(*lab, "between") == before + 1; }));
        } else {
          CHECK(value_of(exchange_udp(*from->space, datagram)) == "poduplink");
          CHECK(denied(*lab, "between") == before);
        }
      }
    }
  }
  // Nothing but that came through.
  std::size_t calls = 0;
  for (const EchoServer& server : servers) calls += server.clients().size();
  CHECK(calls == 4);
  REQUIRE_CLOSED(*lab);
}
