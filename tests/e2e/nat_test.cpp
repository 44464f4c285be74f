// SPDX-License-Identifier: Apache-2.0
// What the host NATs, from a pod: calls of service addresses by real rules of nftables and of iptables. Both directions
// of such a flow go through the stack, whatever the way in does with direct ones, so that connection tracking sees
// nothing that it would call invalid.
#include "tests/e2e/steps.h"
#include "tests/harness/conversation.h"
#include "tests/harness/packet.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::Equals;

namespace {

constexpr std::uint16_t local_port = 81;   // to another pod of the node
constexpr std::uint16_t itself_port = 82;  // to the calling pod

Endpoint service(Family family, std::uint16_t port = service_port) { return {service_address(family), port}; }

// A lab of two uplinks whose agent knows the service ranges, and servers behind both.
struct NatLab {
  NatLab() : lab(value_of(Lab::create({.uplinks = 2}))), servers(start_servers(*lab)) {
    value_of(lab->start_agent(services_config(*lab)));
  }
  [[nodiscard]] Firewall use(RuleKind kind) const {
    return value_of(Firewall::install(lab->node(), kind, remote_service()));
  }

  std::unique_ptr<Lab> lab;
  std::map<unsigned, EchoServer> servers;
};

// The way back of what leaves by eth2 is by eth1.
void return_by_first(const Lab& lab) {
  value_of(lab.node().ip("link add wire type veth peer name wire-far"));
  value_of(lab.node().ip(
      formatted("link set wire netns {0}\nlink set wire-far netns {1}", lab.gateway(1).name(), lab.gateway(2).name())));
  value_of(
      lab.gateway(1).ip("address add 10.77.0.1/24 dev wire\naddress add fd00:77::1/64 dev wire nodad\n"
                        "link set wire up\nroute add 10.2.0.0/16 via 10.1.0.10\n"
                        "route add fd00:2::/64 via fd00:1::10"));
  // The first gateway owns the sender's address as well.
  value_of(lab.gateway(1).sysctl({"net.ipv4.conf.wire.accept_local=1"}));
  value_of(
      lab.gateway(2).ip("address add 10.77.0.2/24 dev wire-far\naddress add fd00:77::2/64 dev wire-far nodad\n"
                        "link set wire-far up\nroute add 10.2.1.0/24 via 10.77.0.1\n"
                        "route add fd00:2::1:0/112 via fd00:77::1"));
}

// The services of `caller`: remote, another pod, itself. What is called is answered, and seen from the right address.
void call_all(const NatLab& nat, const Pod& caller, const Pod& other, const Outside& outside) {
  const EchoServer in_other = echo_in(other, server_port);
  const EchoServer in_caller = echo_in(caller, server_port);
  const EchoServer& remote = nat.servers.at(2);
  const std::size_t earlier = remote.clients().size();
  for (const Family family : families) {
    for (const std::uint16_t port : {service_port, local_port, itself_port}) call(*caller.space, service(family, port));
    CHECK_THAT(lines_of(outside.faults_from(address_of(caller, family), nat.lab->uplink(2))), Equals(""));
  }
  const std::vector<Endpoint> clients = remote.clients();
  REQUIRE(clients.size() == earlier + 4);
  for (std::size_t i = earlier; i < clients.size(); ++i)
    CHECK(clients[i].address == address_of(caller, clients[i].address.family()));
  REQUIRE(in_other.clients().size() == 4);
  for (const Endpoint& client : in_other.clients())
    CHECK(client.address == address_of(caller, client.address.family()));
  // Masqueraded, or the pod would answer itself without the node.
  REQUIRE(in_caller.clients().size() == 4);
  for (const Endpoint& client : in_caller.clients())
    CHECK(client.address != address_of(caller, client.address.family()));
}

// A SYN+ACK that answers nothing comes from the outside.
void send_stray(const Lab& lab, const Pod& pod, Family family) {
  const Uplink uplink = lab.uplink(2);
  value_of(send_frame(
      lab.gateway(2), "eth0",
      tests::build({tests::Ethernet{uplink.gateway_mac(), uplink.mac()},
                    tests::Ip{Outside::address(family), address_of(pod, family)}, tests::Tcp{7, 4444, 0x12}})));
}

// The server lies behind the second gateway, beyond a link that carries 1300 octets.
const Namespace& move_server(Lab& lab) {
  const std::string server4 = server_address(Family::v4).text();
  const std::string server6 = server_address(Family::v6).text();
  const Namespace& far = *value_of(lab.add_namespace("far"));
  value_of(lab.gateway(2).ip(
      formatted("address del {0}/32 dev lo\naddress del {1}/128 dev lo\n"
                "link add narrow mtu 1300 type veth peer name eth0 mtu 1300 netns {2}\n"
                "address add 10.88.0.1/24 dev narrow\naddress add fd00:88::1/64 dev narrow nodad\nlink set narrow up\n"
                "route add {0}/32 via 10.88.0.2\nroute add {1}/128 via fd00:88::2",
                server4, server6, far.name())));
  value_of(
      far.ip(formatted("address add 10.88.0.2/24 dev eth0\naddress add fd00:88::2/64 dev eth0 nodad\nlink set eth0 up\n"
                       "address add {}/32 dev lo\naddress add {}/128 dev lo nodad\n"
                       "route add default via 10.88.0.1\nroute add default via fd00:88::1",
                       server4, server6)));
  return far;
}

// Datagrams and a stream of one pod learn that its path to the service carries 1300 octets.
void learn_path_mtu(const Pod& pod, Family family) {
  Conversation talking = value_of(Conversation::udp(*pod.space, {address_of(pod, family), 0}));
  value_of(talking.forbid_fragments());
  value_of(talking.connect(service(family)));
  CHECK(value_of(talking.path_mtu()) == 1500);
  value_of(talking.send(std::string(1400, 'x')));
  CHECK(eventually([&] { return value_of(talking.path_mtu()) == 1300; }));
  // The error is told once to whoever asks the socket next.
  const auto told = talking.receive();
  CHECK((!told && told.error().code == EMSGSIZE));
  const auto refused = talking.send(std::string(1400, 'x'));
  CHECK((!refused && refused.error().code == EMSGSIZE));
  CHECK(value_of(talking.exchange("small")) == "small");

  const Conversation stream = value_of(Conversation::tcp(*pod.space, {.to = service(family)}));
  const std::string much(60000, 'y');
  CHECK(value_of(stream.exchange(much)) == much);
}

// A question in one packet that takes the direct way, and an answer to it in fragments.
void answer_in_fragments(const Lab& lab, const Pod& pod, Family family, const std::string& large) {
  const Endpoint self{address_of(pod, family), 5353};
  const Endpoint resolver{Outside::address(family), 53};
  const Conversation asking = value_of(Conversation::udp(*pod.space, self));
  const Conversation answering = value_of(Conversation::udp(lab.gateway(2), resolver));
  for (int round = 0; round < 2; ++round) {
    value_of(asking.send_to(resolver, "small"));
    const Message question = value_of(answering.receive());
    CHECK(question.from.text() == self.text());
    value_of(answering.send_to(question.from, large));
    CHECK(value_of(asking.receive()).payload == large);
  }
}

}  // namespace

TEST_CASE(
    "D29, D30: a pod's call of a service reaches a server behind its home, a pod of its node, and the pod itself") {
  const NatLab nat;
  Lab& lab = *nat.lab;
  const Outside outside = value_of(Outside::watch(lab));
  for (const std::string mode : {"fast", "netfilter"}) {
    const Pod caller = add_pod(lab, "caller", {.uplink = 2, .mode = mode});
    const Pod other = add_pod(lab, "other", {.uplink = 1, .mode = mode});
    std::vector<Service> services = remote_service();
    for (const Family family : families) {
      services.push_back({service_address(family), local_port, {address_of(other, family), server_port}});
      services.push_back({service_address(family), itself_port, {address_of(caller, family), server_port}});
    }
    for (const RuleKind kind : kinds) {
      INFO(name_of(kind) << ", " << mode);
      const Firewall firewall = value_of(Firewall::install(lab.node(), kind, services));
      const VerdictsSince verdicts(lab);
      call_all(nat, caller, other, outside);
      INFO(verdicts.text());
      // Both directions of all of it went through the stack, and by the home.
      CHECK(verdicts().late_redirected > 0);
      CHECK(verdicts().redirected == 0);
      CHECK(verdicts().in_redirected == 0);
      CHECK(verdicts().to_pod == 0);
      CHECK((mode == "fast" ? verdicts().in_stack_nat : verdicts().in_stack_netfilter) > 0);
      CHECK(value_of(firewall.invalid()) == 0);

      // The counter does count: in netfilter mode what comes from the outside meets the rules, direct or not.
      for (const Family family : families) send_stray(lab, caller, family);
      if (mode == "netfilter") CHECK(eventually([&] { return value_of(firewall.invalid()) == 2; }));
    }
    value_of(lab.del_pod("caller"));
    value_of(lab.del_pod("other"));
  }
  REQUIRE_CLOSED(lab);
}

TEST_CASE("A path-MTU error that quotes a call of a service reaches the pod as one of that service") {
  NatLab nat;
  nat.servers.clear();
  Lab& lab = *nat.lab;
  const EchoServer server = value_of(EchoServer::start(
      move_server(lab), {{server_address(Family::v4), server_port}, {server_address(Family::v6), server_port}}));
  for (const RuleKind kind : kinds) {
    const Firewall firewall = nat.use(kind);
    for (const char* mode : {"fast", "netfilter"}) {
      const Pod pod = add_pod(lab, "pod", {.uplink = 2, .mode = mode});
      for (const Family family : families) {
        INFO(name_of(kind) << ", " << mode << ", " << service(family).text());
        learn_path_mtu(pod, family);
      }
      value_of(lab.del_pod("pod"));
    }
    CHECK(value_of(firewall.invalid()) == 0);
  }
  REQUIRE_CLOSED(lab);
}

TEST_CASE("After a call of a service, a direct flow from the same port goes its own way") {
  const NatLab nat;
  Lab& lab = *nat.lab;
  const Outside outside = value_of(Outside::watch(lab));
  const Pod pod = add_pod(lab, "pod", {.uplink = 2});
  for (const RuleKind kind : kinds) {
    const Firewall firewall = nat.use(kind);
    for (const Family family : families) {
      INFO(name_of(kind) << ", " << service(family).text());
      const IpAddress self = address_of(pod, family);
      const VerdictsSince verdicts(lab);
      const Conversation talking = value_of(Conversation::udp(*pod.space, {self, 5000}));
      const auto ask = [&](const Endpoint& to) {
        value_of(talking.send_to(to, "question"));
        CHECK(value_of(talking.receive()).from.text() == to.text());
      };
      ask(service(family));
      ask(Outside::echo(family));
      CHECK(verdicts().redirected == 1);
      CHECK(verdicts().in_redirected == 1);
      // The server of the service, by its own address: it cannot be told from the NATed flow and takes that one's
      // way, where the stack keeps the two apart by another source port.
      ask({server_address(family), server_port});
      ask(service(family));
      INFO(verdicts.text());
      CHECK(verdicts().redirected == 1);
      CHECK(verdicts().stack_nat == 1);
    }
    for (const Family family : families) {
      const IpAddress self = address_of(pod, family);
      for (const Endpoint& to : {service(family), Outside::echo(family), service(family)})
        CHECK(value_of(exchange_tcp(*pod.space, {.to = to, .from = self, .from_port = 5001})) == "poduplink");
      CHECK_THAT(lines_of(outside.faults_from(self, lab.uplink(2))), Equals(""));
    }
    CHECK(value_of(firewall.invalid()) == 0);
  }
  REQUIRE_CLOSED(lab);
}

TEST_CASE("Large UDP answers come in fragments, to direct questions and to NATed ones") {
  const NatLab nat;
  Lab& lab = *nat.lab;
  const Outside outside = value_of(Outside::watch(lab));
  const std::string large(4000, 'f');
  for (const char* mode : {"fast", "netfilter"}) {
    const Pod pod = add_pod(lab, "pod", {.uplink = 2, .mode = mode});
    for (const RuleKind kind : kinds) {
      const Firewall firewall = nat.use(kind);
      for (const Family family : families) {
        INFO(name_of(kind) << ", " << mode << ", " << service(family).text());
        const IpAddress self = address_of(pod, family);
        const auto fragments = both(received_from(self), [](const Frame& frame) { return frame.packet.fragment; });
        const std::size_t earlier = outside.at(2).count(fragments);
        // Questions in fragments too: they leave through the stack, and by the home all the same.
        CHECK(value_of(exchange_udp(*pod.space, {.to = Outside::echo(family), .payload = large})) == large);
        CHECK(value_of(exchange_udp(*pod.space, {.to = service(family), .payload = large})) == large);
        CHECK(outside.at(2).count(fragments) == earlier + 6);
        answer_in_fragments(lab, pod, family, large);
        nothing_from(self, outside, 1);
      }
      CHECK(value_of(firewall.invalid()) == 0);
    }
    value_of(lab.del_pod("pod"));
  }
  REQUIRE_CLOSED(lab);
}

TEST_CASE("A client in an exempt range that comes in by the home is answered by the host's own routing") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  // The host has a route to one client by the second uplink; answers to the other take the default route.
  value_of(lab->node().ip("route add 10.244.7.0/24 via 10.2.0.1\nroute add fd00:244::7/128 via fd00:2::1"));
  value_of(lab->accept_changes({"10.244.", "fd00:244:"}));
  value_of(
      lab->gateway(2).ip("address add 10.244.7.7/32 dev lo\naddress add fd00:244::7/128 dev lo nodad\n"
                         "address add 10.244.8.8/32 dev lo\naddress add fd00:244::8/128 dev lo nodad"));
  value_of(lab->start_agent(services_config(*lab, R"({"exempt":["10.244.0.0/16","fd00:244::/64"]})")));
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod pod = add_pod(*lab, "pod", {.uplink = 2});
  const EchoServer in_pod = echo_in(pod);
  for (const RuleKind kind : kinds) {
    const Firewall firewall = value_of(Firewall::install(lab->node(), kind, {}));
    for (const Family family : families) {
      const IpAddress self = address_of(pod, family);
      const IpAddress routed = *IpAddress::parse(family == Family::v4 ? "10.244.7.7" : "fd00:244::7");
      const IpAddress unrouted = *IpAddress::parse(family == Family::v4 ? "10.244.8.8" : "fd00:244::8");
      const VerdictsSince verdicts(*lab);
      const Datagram question{.to = {self, echo_port}, .from = routed};
      CHECK(value_of(exchange_udp(lab->gateway(2), question)) == "poduplink");
      CHECK(value_of(exchange_tcp(lab->gateway(2), question)) == "poduplink");
      const EchoServer client = value_of(EchoServer::start(lab->gateway(2), {{routed, echo_port}}));
      call(*pod.space, {routed, echo_port});
      CHECK(outside.at(1).count(both(received_from(self), sent_to(routed))) == 0);
      const std::size_t earlier = outside.at(1).count(both(received_from(self), sent_to(unrouted)));
      value_of(send_udp(lab->gateway(2), {.to = {self, echo_port}, .from = unrouted}));
      CHECK(outside.at(1).wait_for(both(received_from(self), sent_to(unrouted)), earlier + 1));
      CHECK(verdicts().in_redirected == 0);
      CHECK(verdicts().redirected == 0);
      CHECK(verdicts().in_stack_exempt >= 6);
    }
    CHECK(value_of(firewall.invalid()) == 0);
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D09: answers that arrive on another uplink reach the pod, direct and un-NATed, and it leaves by its own") {
  const NatLab nat;
  Lab& lab = *nat.lab;
  const Pod pod = add_pod(lab, "pod", {.uplink = 2});
  const Outside outside = value_of(Outside::watch(lab));
  for (const bool moved : {false, true}) {
    if (moved) return_by_first(lab);
    for (const RuleKind kind : kinds) {
      const Firewall firewall = nat.use(kind);
      for (const Family family : families) {
        INFO(name_of(kind) << ", answers by eth" << (moved ? 1 : 2));
        const VerdictsSince verdicts(lab);
        const pdl_uplink_stats first = uplink_stats(lab, 1);
        talk(*pod.space, Outside::echo(family));
        INFO(verdicts.text());
        CHECK((verdicts().in_other_uplink > 0) == moved);
        CHECK((verdicts().in_redirected > 0) == !moved);
        CHECK((uplink_stats(lab, 1).in_redirects > first.in_redirects) == moved);
        call(*pod.space, service(family));
        CHECK(verdicts().in_stack_nat > 0);
        CHECK_THAT(lines_of(outside.faults_from(address_of(pod, family), lab.uplink(2))), Equals(""));
      }
      CHECK(value_of(firewall.invalid()) == 0);
    }
  }
  REQUIRE_CLOSED(lab);
}
