// SPDX-License-Identifier: Apache-2.0
// explain against the truth: for each thing that can happen to a pod's packet, what it says and what then really
// happens to such a packet are the same.
#include "tests/e2e/ctl.h"
#include "tests/e2e/steps.h"
#include "tests/harness/traffic.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

constexpr std::uint16_t source_port = 5000;

std::uint64_t counted(const pdl_verdicts& verdicts, const std::string& name) {
#define PDL_X(counter, text) \
  if (name == #counter) return verdicts.counter;
  PDL_VERDICTS(PDL_X)
#undef PDL_X
  FAIL("no verdict " << name);
  return 0;
}

struct Truth {
  const Lab* lab;
  const Outside* outside;

  // Explains, then sends just that packet: the verdicts must go up and it must leave where it was said to.
  json hold(const Pod& pod, const Endpoint& to, const std::string& verdict, std::size_t payload = 60,
            std::uint16_t port = source_port) const {
    const Family family = to.address.family();
    const IpAddress self = address_of(pod, family);
    const std::size_t size = payload + (family == Family::v4 ? 28 : 48);
    INFO(pod.name << " to " << to.text());
    const json said = ctl_json(*lab, {"explain", self.text(), to.address.text(), "--sport", std::to_string(port),
                                      "--dport", std::to_string(to.port), "--size", std::to_string(size)});
    INFO(said.dump(1));
    CHECK(said.at("verdict") == verdict);
    const VerdictsSince verdicts(*lab);
    std::map<unsigned, std::size_t> before = outside->count_from(self);
    const auto sent =
        send_udp(*pod.space, {.to = to, .from = self, .from_port = port, .payload = std::string(payload, 'x')});
    if (!sent) CHECK(sent.error().code == EMSGSIZE);  // told of the MTU by an earlier one
    CHECK(eventually([&] { return counted(verdicts(), verdict) >= 1; }));
    if (!said.at("lateVerdict").is_null())
      CHECK(eventually([&] { return counted(verdicts(), said.at("lateVerdict").get<std::string>()) >= 1; }));
    for (const unsigned number : lab->uplink_numbers()) {
      INFO("gateway " << number);
      const bool here = !said.at("lost").get<bool>() && said.at("leavesBy") == lab->uplink(number).name();
      const auto came = [&] { return outside->count_from(self)[number] > before[number]; };
      if (here) {
        CHECK(eventually(came));
      } else {
        CHECK_FALSE(came());
      }
    }
    return said;
  }
};

struct ExplainLab {
  explicit ExplainLab(const std::string& patch = "{}", LabOptions options = {.uplinks = 2})
      : lab(value_of(Lab::create(std::move(options)))), servers(start_servers(*lab)) {
    value_of(lab->start_agent(services_config(*lab, patch)));
    (void)value_of(Firewall::install(lab->node(), RuleKind::nftables, remote_service()));
    fast = add_pod(*lab, "fast", {.uplink = 2, .mode = "fast"});
    other = add_pod(*lab, "other", {.uplink = 1, .mode = "fast"});
    netfilter = add_pod(*lab, "netfilter", {.uplink = 2, .mode = "netfilter"});
  }
  std::unique_ptr<Lab> lab;
  std::map<unsigned, EchoServer> servers;
  Pod fast, other, netfilter;
};

}  // namespace

TEST_CASE("explain says what happens: direct, to pods, to the stack by each reason, and late steering") {
  const ExplainLab all;
  Lab& lab = *all.lab;
  const Outside outside = value_of(Outside::watch(lab));
  const Truth truth{&lab, &outside};
  for (const Family family : families) {
    INFO(address_of(all.fast, family).text());
    const json direct = truth.hold(all.fast, Outside::echo(family), "redirected");
    CHECK(direct.at("leavesBy") == "eth2");
    CHECK(direct.at("nextHop") == (family == Family::v4 ? lab.uplink(2).gateway4() : lab.uplink(2).gateway6()).text());
    // By now somebody has asked for the gateway.
    CHECK(eventually([&] {
      return ctl_json(lab, {"explain", address_of(all.fast, family).text(), Outside::address(family).text()})
                 .at("nextHopMac") == lab.uplink(2).gateway_mac().text();
    }));
    truth.hold(all.fast, {address_of(all.other, family), 9}, "to_pod");
    truth.hold(all.fast, {address_of(all.netfilter, family), 9}, "local_pod");
    truth.hold(all.fast, {address_of(lab.uplink(1), family), 9}, "stack_node");
    // No service has this address of the service range.
    const IpAddress nobody = *service_address(family).plus(7);
    CHECK(truth.hold(all.fast, {nobody, service_port}, "stack_exempt").at("leavesBy") == "eth1");
    const json late = truth.hold(all.netfilter, Outside::echo(family), "stack_netfilter");
    CHECK(late.at("lateVerdict") == "late_redirected");
    CHECK(late.at("leavesBy") == "eth2");
    // The service's answer is un-NATed by the stack, so a packet to its server by the same port must go there too.
    call(*all.fast.space, {service_address(family), service_port});
    value_of(exchange_udp(*all.fast.space, {.to = {service_address(family), service_port}, .from_port = 5003}));
    truth.hold(all.fast, {server_address(family), server_port}, "stack_nat", 60, 5003);
    // The call is tracked, and NATed; direct talk is not tracked.
    const json flows = ctl_json(lab, {"flows", address_of(all.fast, family).text()});
    INFO(flows.dump(1));
    const auto service = std::ranges::find_if(flows, [&](const json& flow) {
      return flow.at("sourcePort") == 5003 && flow.at("destination") == service_address(family).text();
    });
    REQUIRE(service != flows.end());
    CHECK(service->at("nated") == true);
    CHECK(service->at("protocol") == "udp");
    CHECK(service->at("destinationPort") == service_port);
    CHECK(service->at("replySource") == server_address(family).text());
    CHECK(service->at("replySourcePort") == server_port);
    CHECK(service->at("way") == "stack: NATed");
    CHECK(std::ranges::none_of(
        flows, [&](const json& flow) { return flow.at("destination") == Outside::address(family).text(); }));
    const json in_netfilter = ctl_json(lab, {"flows", address_of(all.netfilter, family).text()});
    CHECK(
        std::ranges::any_of(in_netfilter, [](const json& flow) { return flow.at("way") == "stack: netfilter mode"; }));
  }
  truth.hold(all.fast, {IpAddress::parse("10.2.255.255").value(), 9}, "stack_broadcast");
  REQUIRE_CLOSED(lab);
}

TEST_CASE("explain says what is lost, and why: home down, gateway silent, too big") {
  const ExplainLab all("{}", {.uplinks = 2, .mtu = {{2, 1400}}});
  Lab& lab = *all.lab;
  for (const Pod* pod : {&all.fast, &all.netfilter}) {
    value_of(lab.node().ip("link set " + pod->host_veth + " mtu 1500"));
    value_of(pod->space->ip("link set eth0 mtu 1500"));
  }
  const Outside outside = value_of(Outside::watch(lab));
  const Truth truth{&lab, &outside};
  for (const Family family : families) {
    const json big = truth.hold(all.fast, Outside::echo(family), "too_big", 1420);
    CHECK(big.at("lost") == true);
    truth.hold(all.netfilter, Outside::echo(family), "too_big", 1420);
  }
  value_of(lab.node().ip("link set eth2 down"));
  const auto home = static_cast<std::uint32_t>(link_index(lab.node(), "eth2"));
  REQUIRE(eventually([&] { return value_of(value_of(lab.tables()).uplinks.find(home))->state == PDL_STATE_DOWN; }));
  for (const Family family : families) {
    const json down = truth.hold(all.fast, Outside::echo(family), "uplink_down");
    CHECK(down.at("lost") == true);
    CHECK(ctl(lab, {"explain", address_of(all.fast, family).text(), Outside::address(family).text()}).status == 1);
    CHECK(truth.hold(all.netfilter, Outside::echo(family), "stack_netfilter").at("lateVerdict") == "late_uplink_down");
  }
  for (const auto& [name, pod] : std::map(lab.pods())) value_of(lab.del_pod(name));
  value_of(lab.accept_changes({"eth2"}));
  REQUIRE_CLOSED(lab);
}

TEST_CASE("explain says that a gateway does not answer") {
  const ExplainLab all;
  Lab& lab = *all.lab;
  const Outside outside = value_of(Outside::watch(lab));
  const Truth truth{&lab, &outside};
  silence_gateway(lab, 2);
  for (const Family family : families) {
    const std::string self = address_of(all.fast, family).text();
    value_of(send_udp(*all.fast.space, {.to = Outside::echo(family)}));
    REQUIRE(eventually([&] { return ctl_json(lab, {"pods", self}).at(0).at("gatewaySilent") == true; },
                       std::chrono::seconds(20)));
    const json silent = truth.hold(all.fast, Outside::echo(family), "gateway_silent");
    CHECK(silent.at("lost") == true);
    CHECK_THAT(silent.dump(), ContainsSubstring("does not answer"));
    CHECK(truth.hold(all.netfilter, Outside::echo(family), "stack_netfilter").at("lateVerdict") ==
          "late_gateway_silent");
  }
  CHECK(ctl(lab, {"pods"}).out.find("silent") != std::string::npos);
  REQUIRE_CLOSED(lab);
}

TEST_CASE("explain follows whenDown stack to where the host sends such a packet") {
  const ExplainLab all(R"({"uplinks": [{"name": "eth1"}, {"name": "eth2", "whenDown": "stack"}]})");
  Lab& lab = *all.lab;
  const Outside outside = value_of(Outside::watch(lab));
  const Truth truth{&lab, &outside};
  value_of(lab.node().ip("link set eth2 down"));
  const auto home = static_cast<std::uint32_t>(link_index(lab.node(), "eth2"));
  REQUIRE(eventually([&] { return value_of(value_of(lab.tables()).uplinks.find(home))->state == PDL_STATE_DOWN; }));
  for (const Family family : families) {
    const json said = truth.hold(all.fast, Outside::echo(family), "uplink_down_stack");
    CHECK(said.at("lateVerdict") == "late_uplink_down_stack");
    CHECK(said.at("leavesBy") == "eth1");
  }
  for (const auto& [name, pod] : std::map(lab.pods())) value_of(lab.del_pod(name));
  value_of(lab.accept_changes({"eth2"}));
  REQUIRE_CLOSED(lab);
}

TEST_CASE("explain names what it cannot explain") {
  const ExplainLab all;
  const std::string self = all.fast.v4->text();
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& part) {
    std::vector<std::string> argv{"explain"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const Outcome outcome = ctl(*all.lab, argv);
    INFO(outcome.text());
    return outcome.status == 1 && outcome.err.find(part) != std::string::npos;
  };
  CHECK(refused({"10.9.9.9", outside4}, "10.9.9.9 is no pod of this node"));
  CHECK(refused({self, "nowhere"}, "nowhere"));
  CHECK(refused({self, outside6}, "two families"));
  CHECK(refused({self, outside4, "--size", "27"}, "size 27"));
  CHECK(refused({self, outside4, "--size", "3501"}, "size 3501"));
  CHECK(refused({self, outside4, "--proto", "tcp", "--size", "39"}, "size 39"));
  REQUIRE_CLOSED(*all.lab);
}
