// SPDX-License-Identifier: Apache-2.0
// explain as it is asked: its steps for people, exit codes, what it refuses; and flows. Whether what it says is true is
// in ctl_verdicts_test.cpp.
#include "tests/e2e/ctl.h"
#include "tests/e2e/steps.h"
#include "tests/harness/traffic.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

constexpr std::uint16_t calling_port = 5003;

struct ExplainLab {
  ExplainLab() : lab(value_of(Lab::create({.uplinks = 2}))), servers(start_servers(*lab)) {
    value_of(lab->start_agent(services_config(*lab)));
    (void)value_of(Firewall::install(lab->node(), RuleKind::nftables, remote_service()));
    fast = add_pod(*lab, "fast", {.uplink = 2, .mode = "fast"});
    netfilter = add_pod(*lab, "netfilter", {.uplink = 2, .mode = "netfilter"});
  }
  std::unique_ptr<Lab> lab;
  std::map<unsigned, EchoServer> servers;
  Pod fast, netfilter;
};

}  // namespace

TEST_CASE("explain tells each step, and by its exit code whether the packet is lost") {
  const ExplainLab all;
  const std::string self = all.fast.v4->text();
  const Outcome direct = ctl(*all.lab, {"explain", self, outside4, "--proto", "tcp", "--dport", "443"});
  CHECK(direct.status == 0);
  for (const char* part :
       {"tcp from 10.2.1.1 to 198.51.100.10, port 40000 to 443, 100 octets", "fast mode", "destination    outside",
        "home           eth2", "MTU 1500", "redirected, sent out of", "leaves by      eth2 to gateway 10.2.0.1"})
    CHECK_THAT(direct.out, ContainsSubstring(part));
  const Outcome late = ctl(*all.lab, {"explain", all.netfilter.v4->text(), outside4});
  CHECK(late.status == 0);
  CHECK_THAT(late.out, ContainsSubstring("late_redirected"));
  const Outcome inbound = ctl(*all.lab, {"explain", self, outside4, "--inbound", "--uplink", "eth1"});
  CHECK(inbound.status == 0);
  for (const char* part : {"udp from 198.51.100.10 to 10.2.1.1", "arrives on     eth1", "in_other_uplink"})
    CHECK_THAT(inbound.out, ContainsSubstring(part));
  const Outcome lost = ctl(*all.lab, {"explain", self, outside4, "--size", "1501"});
  CHECK(lost.status == 1);
  for (const char* part : {"too_big", "answered", "lost"}) CHECK_THAT(lost.out, ContainsSubstring(part));
  REQUIRE_CLOSED(*all.lab);
}

TEST_CASE("flows: what is tracked of a pod, and the way of each") {
  const ExplainLab all;
  Lab& lab = *all.lab;
  const Outside outside = value_of(Outside::watch(lab));
  for (const Family family : families) {
    call(*all.fast.space, Outside::echo(family));
    call(*all.netfilter.space, Outside::echo(family));
    value_of(exchange_udp(*all.fast.space, {.to = {service_address(family), service_port}, .from_port = calling_port}));
    // The call is tracked, and NATed; direct talk is not tracked.
    const json flows = ctl_json(lab, {"flows", address_of(all.fast, family).text()});
    INFO(flows.dump(1));
    const auto service = std::ranges::find_if(flows, [&](const json& flow) {
      return flow.at("sourcePort") == calling_port && flow.at("destination") == service_address(family).text();
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
  REQUIRE_CLOSED(lab);
}

TEST_CASE("explain names what it cannot explain") {
  const ExplainLab all;
  const std::string self = all.fast.v4->text();
  const std::string self6 = all.fast.v6->text();
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& part) {
    std::vector<std::string> argv{"explain"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const Outcome outcome = ctl(*all.lab, argv);
    INFO(outcome.text());
    return outcome.status == 1 && outcome.err.find(part) != std::string::npos;
  };
  CHECK(refused({"10.9.9.9", outside4}, "10.9.9.9 is no pod of this node"));
  CHECK(refused({"10.9.9.9", outside4, "--inbound"}, "say by --uplink"));
  CHECK(refused({self, "nowhere"}, "nowhere"));
  CHECK(refused({self, outside6}, "two families"));
  CHECK(refused({self, outside4, "--from", outside6}, "two families"));
  CHECK(refused({self, outside4, "--to-mac", "02:00"}, "02:00"));
  CHECK(refused({self, outside4, "--size", "27"}, "size 27"));
  CHECK(refused({self, outside4, "--size", "3501"}, "size 3501"));
  CHECK(refused({self, outside4, "--proto", "tcp", "--size", "39"}, "size 39: from 40"));
  CHECK(refused({self, outside4, "--proto", "tcp", "--options", "--size", "43"}, "size 43: from 44"));
  CHECK(refused({self6, outside6, "--extensions", "9", "--size", "119"}, "size 119: from 120"));
  for (const char* protocol : {"nonsense", "256", "-1", "1x"})
    CHECK(refused({self, outside4, std::string("--proto=") + protocol}, formatted("protocol '{}'", protocol)));
  CHECK(refused({self6, outside6, "--proto", "44"}, "extension header"));
  CHECK(refused({self, outside4, "--extensions", "1"}, "--extensions"));
  CHECK(refused({self6, outside6, "--fragmentable"}, "--fragmentable"));
  CHECK(refused({self, outside4, "--quoting", self}, "--quoting"));
  CHECK(refused({self, outside4, "--uplink", "eth1"}, "--uplink: only with --inbound"));
  CHECK(refused({self, outside4, "--inbound", "--uplink", "eth9"}, "--uplink eth9"));
  CHECK(refused({self, outside4, "--inbound", "--from", outside4}, "--from with --inbound"));
  CHECK(refused({self, outside4, "--neighbour", "--vlan", "5"}, "--neighbour"));
  REQUIRE_CLOSED(*all.lab);
}
