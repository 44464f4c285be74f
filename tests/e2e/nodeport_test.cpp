// SPDX-License-Identifier: Apache-2.0
// Flows that belong to the node: NodePort and hostPort that come in by the primary for a pod whose home is another
// uplink, probes, host processes. The answer leaves by where the request came in.
#include <cerrno>

#include "tests/e2e/steps.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

constexpr std::uint16_t node_port = 30080;
constexpr std::uint16_t masquerading_port = 30081;  // "externalTrafficPolicy: Cluster"
constexpr std::uint16_t host_port = 8888;

std::vector<Service> node_ports(const Pod& pod) {
  std::vector<Service> services;
  for (const Family family : families) {
    const Endpoint backend{address_of(pod, family), server_port};
    for (const std::uint16_t port : {node_port, host_port})
      services.push_back({.address = {}, .port = port, .backend = backend});
    services.push_back({.address = {}, .port = masquerading_port, .backend = backend, .masquerade = true});
  }
  return services;
}

// From the outside, by the uplink's own address: answered, and by that uplink alone.
void call_from_outside(const Lab& lab, const Pod& pod, unsigned uplink, const Outside& outside) {
  for (const Family family : families) {
    const IpAddress node = address_of(lab.uplink(uplink), family);
    for (const std::uint16_t port : {node_port, host_port, masquerading_port}) {
      INFO(Endpoint({node, port}).text() << " by eth" << uplink);
      const Datagram request{.to = {node, port}, .from = Outside::address(family), .payload = "request"};
      CHECK(value_of(exchange_udp(lab.gateway(uplink), request)) == "request");
      CHECK(value_of(exchange_tcp(lab.gateway(uplink), request)) == "request");
    }
    for (const unsigned other : lab.uplink_numbers()) {
      nothing_from(address_of(pod, family), outside, other);
      if (other != uplink) nothing_from(node, outside, other);
    }
    for (const Frame& frame : outside.at(uplink).frames(both(received_from(node), sent_to(Outside::address(family))))) {
      CHECK(frame.packet.destination_mac == lab.uplink(uplink).gateway_mac());
      CHECK(frame.packet.header_checksum_ok);
    }
  }
}

// The caller's address is kept but for the masquerading port: 2 of 6 calls a family.
void check_clients(const EchoServer& in_pod) {
  std::size_t masqueraded = 0;
  const std::vector<Endpoint> clients = in_pod.clients();
  REQUIRE(clients.size() == 12);
  for (const Endpoint& client : clients)
    masqueraded += client.address == Outside::address(client.address.family()) ? 0U : 1U;
  CHECK(masqueraded == 4);
}

std::vector<Endpoint> node_endpoints(const Lab& lab, std::uint16_t port) {
  std::vector<Endpoint> endpoints;
  for (const unsigned number : lab.uplink_numbers()) {
    for (const Family family : families) endpoints.push_back({address_of(lab.uplink(number), family), port});
  }
  return endpoints;
}

}  // namespace

TEST_CASE(
    "D23: NodePort and hostPort by the primary, for a pod of another uplink: the answer goes back by the primary") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  for (const std::string mode : {"fast", "netfilter"}) {
    const Pod pod = add_pod(*lab, "pod", {.uplink = 2, .mode = mode});
    for (const RuleKind kind : kinds) {
      INFO(name_of(kind) << ", " << mode);
      const EchoServer in_pod = echo_in(pod, server_port);
      const Firewall firewall = value_of(Firewall::install(lab->node(), kind, node_ports(pod)));
      const VerdictsSince verdicts(*lab);
      call_from_outside(*lab, pod, 1, outside);
      check_clients(in_pod);
      INFO(verdicts.text());
      CHECK(verdicts().redirected == 0);
      CHECK((mode == "fast" ? verdicts().stack_nat : verdicts().stack_netfilter) > 0);
      CHECK(verdicts().stack_node > 0);  // what was masqueraded
      CHECK(value_of(firewall.invalid()) == 0);
    }
    value_of(lab->del_pod("pod"));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D27: probes and calls of the node reach every pod and are answered, direct and by its own NodePorts") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  for (const char* mode : {"fast", "netfilter"}) {
    const Pod pod = add_pod(*lab, "pod", {.uplink = 2, .mode = mode});
    const EchoServer in_pod = echo_in(pod, server_port);
    for (const RuleKind kind : kinds) {
      INFO(name_of(kind) << ", " << mode);
      const Firewall firewall = value_of(Firewall::install(lab->node(), kind, node_ports(pod)));
      for (const Endpoint& own : node_endpoints(*lab, node_port)) {
        // A probe by the address that the node chooses, one by each other, and the node's call of its own port.
        const Endpoint to{address_of(pod, own.address.family()), server_port};
        CHECK(value_of(exchange_tcp(lab->node(), {.to = to, .from = own.address})) == "poduplink");
        CHECK(value_of(exchange_udp(lab->node(), {.to = to, .from = own.address})) == "poduplink");
        talk(lab->node(), to);
        call(lab->node(), own);
      }
      CHECK(value_of(firewall.invalid()) == 0);
    }
    stays_inside(pod, outside);
    value_of(lab->del_pod("pod"));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D28: a pod and an address of the node that was added at run time talk through the stack") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod pod = add_pod(*lab, "pod", {.uplink = 2});
  value_of(lab->node().ip("address add 192.0.2.77/32 dev lo\naddress add 2001:db8:77::77/128 dev lo nodad"));
  for (const char* address : {"192.0.2.77", "2001:db8:77::77"}) {
    const Endpoint own{*IpAddress::parse(address), echo_port};
    REQUIRE(eventually([&] { return value_of(value_of(lab->tables()).nodes.find(own.address)).has_value(); }));
    const EchoServer on_node = value_of(EchoServer::start(lab->node(), {own}));
    talk(*pod.space, own);
    const EchoServer in_pod = echo_in(pod);
    const Endpoint to{address_of(pod, own.address.family()), echo_port};
    CHECK(value_of(exchange_tcp(lab->node(), {.to = to, .from = own.address})) == "poduplink");
  }
  stays_inside(pod, outside);
  value_of(lab->node().ip("address del 192.0.2.77/32 dev lo\naddress del 2001:db8:77::77/128 dev lo"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D20, D21: rp_filter off, strict or loose on the primary, and what strict on the home's uplink breaks") {
  auto lab = value_of(Lab::create({.uplinks = 2, .unlisted_default = true}));
  const auto servers = start_servers(*lab);
  const std::string config = services_config(*lab, R"({"uplinks": [{"name": "eth2", "manageRpFilter": true}]})");
  Outside outside = value_of(Outside::watch(*lab));
  const auto set = [&](const std::string& link, int value) {
    value_of(lab->node().sysctl({formatted("net.ipv4.conf.{}.rp_filter={}", link, value)}));
  };
  const Endpoint service{service_address(Family::v4), service_port};
  for (const int value : {0, 2, 1}) {
    INFO("rp_filter=" << value);
    set("eth0", value);
    set("eth2", value);
    set("default", value);  // the pod's veth
    value_of(lab->accept_changes({"rp_filter"}));
    outside.clear();
    value_of(lab->start_agent(config));
    // Strict became loose where pods are homed; the primary, which nobody listed, keeps what it had.
    CHECK(value_of(lab->node().run_ok({"sysctl", "-n", "net.ipv4.conf.eth2.rp_filter"})) ==
          formatted("{}\n", value == 1 ? 2 : value));
    CHECK(value_of(lab->node().run_ok({"sysctl", "-n", "net.ipv4.conf.eth0.rp_filter"})) == formatted("{}\n", value));
    const Pod pod = add_pod(*lab, "pod", {.uplink = 2});
    const EchoServer in_pod = echo_in(pod, server_port);
    std::vector<Service> services = node_ports(pod);
    services.push_back({service.address, service.port, {server_address(Family::v4), server_port}});
    const Firewall firewall = value_of(Firewall::install(lab->node(), RuleKind::nftables, services));
    call_from_outside(*lab, pod, 0, outside);
    // Straight to the pod, by its home.
    const Datagram direct{.to = {*pod.v4, server_port}, .from = Outside::address(Family::v4)};
    CHECK(value_of(exchange_tcp(lab->gateway(2), direct)) == "poduplink");
    call(*pod.space, service);
    CHECK(value_of(firewall.invalid()) == 0);
    value_of(lab->agent().stop());
    if (value == 1) {
      // Redirected packets do not meet rp_filter; answers that go through the stack do. So the agent refuses it.
      set("eth2", 1);
      CHECK(value_of(exchange_tcp(lab->gateway(2), direct)) == "poduplink");
      const auto dropped = exchange_udp(*pod.space, {.to = service}, std::chrono::milliseconds(300));
      CHECK((!dropped && dropped.error().code == ETIMEDOUT));
    }
    value_of(lab->del_pod("pod"));
  }
  REQUIRE_CLOSED(*lab);
}
