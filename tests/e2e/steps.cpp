// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/steps.h"

#include <net/if.h>

#include <cstring>

#include "loader/net/netns.h"

namespace poduplink::harness {

using Catch::Matchers::Equals;

IpAddress service_address(Family family) {
  return *IpAddress::parse(family == Family::v4 ? "10.96.0.10" : "fd00:96::10");
}

IpAddress server_address(Family family) {
  return *IpAddress::parse(family == Family::v4 ? "203.0.113.80" : "2001:db8:80::80");
}

std::string services_config(const Lab& lab, const std::string& patch) {
  const std::string config =
      value_of(merged(lab.default_agent_config(), R"({"exempt":["10.96.0.0/12","fd00:96::/112"]})"));
  return value_of(merged(config, patch));
}

std::vector<Service> remote_service() {
  const auto of = [](Family family) {
    return Service{service_address(family), service_port, {server_address(family), server_port}};
  };
  return {of(Family::v4), of(Family::v6)};
}

std::map<unsigned, EchoServer> start_servers(const Lab& lab) {
  std::map<unsigned, EchoServer> servers;
  for (const unsigned number : lab.uplink_numbers()) {
    std::vector<Endpoint> endpoints;
    for (const Family family : families) {
      const IpAddress address = server_address(family);
      value_of(
          lab.gateway(number).ip(formatted("address add {}/{} dev lo{}", address.text(),
                                           family == Family::v4 ? 32 : 128, family == Family::v4 ? "" : " nodad")));
      endpoints.push_back({address, server_port});
    }
    servers.emplace(number, value_of(EchoServer::start(lab.gateway(number), endpoints)));
  }
  return servers;
}

IpAddress address_of(const Pod& pod, Family family) { return family == Family::v4 ? pod.v4.value() : pod.v6.value(); }

IpAddress address_of(const Uplink& uplink, Family family) {
  return family == Family::v4 ? uplink.node4() : uplink.node6();
}

std::string name_of(RuleKind kind) { return kind == RuleKind::nftables ? "nftables" : "iptables"; }

Pod add_pod(Lab& lab, const std::string& name, const PodOptions& options) {
  Pod pod = value_of(lab.add_pod(name, options));
  value_of(disable_offloads(*pod.space, options.if_name));
  return pod;
}

EchoServer echo_in(const Pod& pod, std::uint16_t port) {
  return value_of(EchoServer::start(*pod.space, {{pod.v4.value(), port}, {pod.v6.value(), port}}));
}

void call(const Namespace& from, const Endpoint& to) {
  INFO(from.name() << " calls " << to.text());
  CHECK(value_of(exchange_udp(from, {.to = to, .payload = "by UDP"})) == "by UDP");
  CHECK(value_of(exchange_tcp(from, {.to = to, .payload = "by TCP"})) == "by TCP");
}

void talk(const Namespace& from, const Endpoint& to) {
  call(from, to);
  INFO(from.name() << " to " << to.text());
  value_of(ping(from, {.to = to}));
}

void leaves_by_home(const Lab& lab, const Pod& pod, const Outside& outside) {
  for (const Family family : families) {
    talk(*pod.space, Outside::echo(family));
    CHECK_THAT(lines_of(outside.faults_from(address_of(pod, family), lab.uplink(pod.uplink))), Equals(""));
    const auto home = both(received_from(address_of(pod, family)), sent_to(Outside::address(family)));
    const auto number = [&](bool (Decoded::*is)() const) {
      return outside.at(pod.uplink).count(both(home, [is](const Frame& frame) { return (frame.packet.*is)(); }));
    };
    CHECK(number(&Decoded::is_udp) == 1);
    CHECK(number(&Decoded::is_tcp) >= 4);
    CHECK(number(&Decoded::is_echo_request) == 1);
  }
}

void nothing_from(const IpAddress& source, const Outside& outside, unsigned uplink) {
  INFO("gw" << uplink << ":\n" << outside.at(uplink).text());
  CHECK(outside.at(uplink).count(received_from(source)) == 0);
}

void stays_inside(const Pod& pod, const Outside& outside) {
  for (const Family family : families) {
    for (const auto& [number, packets] : outside.count_from(address_of(pod, family)))
      nothing_from(address_of(pod, family), outside, number);
  }
}

namespace {

using Numbers = std::array<std::uint64_t, PDL_VERDICT_COUNT>;

Numbers numbers_of(const pdl_verdicts& verdicts) {
  Numbers numbers{};
  std::memcpy(numbers.data(), &verdicts, sizeof(verdicts));
  return numbers;
}

}  // namespace

VerdictsSince::VerdictsSince(const Lab& lab) : lab_(&lab) {
  const auto read = [&] { return value_of(value_of(lab.tables()).stats.verdicts()); };
  before_ = read();
  for (int attempt = 0; attempt < 50; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    const pdl_verdicts now = read();
    if (numbers_of(now) == numbers_of(before_)) return;
    before_ = now;
  }
}

pdl_verdicts VerdictsSince::operator()() const {
  const Numbers now = numbers_of(value_of(value_of(lab_->tables()).stats.verdicts()));
  const Numbers before = numbers_of(before_);
  Numbers since{};
  for (std::size_t i = 0; i < since.size(); ++i) since[i] = now[i] - before[i];
  pdl_verdicts result{};
  std::memcpy(&result, since.data(), sizeof(result));
  return result;
}

std::string VerdictsSince::text() const {
  const Numbers since = numbers_of((*this)());
  std::string text;
  for (unsigned i = 0; i < since.size(); ++i) {
    if (since[i] != 0) text += formatted("{} {}\n", verdict_name(i), since[i]);
  }
  return text;
}

int link_index(const Namespace& space, const std::string& name) {
  const NetnsScope inside = value_of(NetnsScope::enter(space.fd()));
  return static_cast<int>(if_nametoindex(name.c_str()));
}

void silence_gateway(const Lab& lab, unsigned uplink) {
  value_of(lab.gateway(uplink).nft(R"(table netdev silent {
  chain deaf {
    type filter hook ingress device "eth0" priority 0
    ether type arp drop
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } drop
  }
})"));
  value_of(lab.node().run_ok({"ip", "neighbour", "flush", "all"}));
}

void let_gateway_answer(const Lab& lab, unsigned uplink) {
  value_of(lab.gateway(uplink).nft("delete table netdev silent"));
}

pdl_uplink_stats uplink_stats(const Lab& lab, unsigned uplink) {
  const auto index = static_cast<std::uint32_t>(link_index(lab.node(), lab.uplink(uplink).name()));
  for (const auto& [ifindex, stats] : value_of(value_of(lab.tables()).stats.uplinks())) {
    if (ifindex == index) return stats;
  }
  FAIL("no uplink_stats of eth" << uplink);
  return {};
}

}  // namespace poduplink::harness
