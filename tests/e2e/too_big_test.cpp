// SPDX-License-Identifier: Apache-2.0
// Path MTU: a pod whose own MTU is larger than its uplink's hears of it, in every way that its packets can go.
#include <array>
#include <catch2/generators/catch_generators.hpp>

#include "tests/harness/outside.h"
#include "tests/harness/require.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::array families{Family::v4, Family::v6};
constexpr unsigned home = 2;
constexpr unsigned small_mtu = 1400;
constexpr const char* cluster4 = "10.96.0.10";
constexpr const char* cluster6 = "fd00:96::10";

IpAddress address_of(const Pod& pod, Family family) { return family == Family::v4 ? pod.v4.value() : pod.v6.value(); }
IpAddress service(Family family) { return *IpAddress::parse(family == Family::v4 ? cluster4 : cluster6); }
IpAddress router_of_pod(Family family) { return *IpAddress::parse(family == Family::v4 ? "169.254.1.1" : "fe80::1"); }

// Two uplinks, of which the pod's home is the smaller, and the default route is by the other. Packets of untracked
// connections die in the node's netfilter; a service is DNATed there to the outside.
std::unique_ptr<Lab> make_lab() {
  auto lab = value_of(Lab::create({.uplinks = home, .mtu = {{home, small_mtu}}}));
  value_of(lab->node().nft(formatted(R"(
    table inet services {{
      chain prerouting {{
        type nat hook prerouting priority dstnat
        ip daddr {} meta l4proto {{ tcp, udp }} th dport 80 dnat ip to {}:{}
        ip6 daddr {} meta l4proto {{ tcp, udp }} th dport 80 dnat ip6 to [{}]:{}
      }}
      chain forward {{
        type filter hook forward priority filter
        ct state invalid counter drop
      }}
    }})",
                                     cluster4, outside4, echo_port, cluster6, outside6, echo_port)));
  // The servers offer the segments of a larger network, or TCP would never send a packet that is too big.
  for (const unsigned number : lab->uplink_numbers())
    value_of(
        lab->gateway(number).ip(formatted("route replace {0} dev eth0 advmss 1460\n"
                                          "route replace {1} dev eth0 metric 256 advmss 1440",
                                          lab->uplink(number).subnet4(), lab->uplink(number).subnet6())));
  value_of(lab->start_agent(
      value_of(merged(lab->default_agent_config(), R"({"exempt":["10.96.0.0/12","fd00:96::/112"]})"))));
  return lab;
}

// A pod that takes its network for one of 1500 octets.
Pod add_large_pod(Lab& lab, const std::string& mode) {
  Pod pod = value_of(lab.add_pod("pod", {.uplink = home, .mode = mode}));
  value_of(lab.node().ip("link set " + pod.host_veth + " mtu 1500"));
  value_of(pod.space->ip("link set eth0 mtu 1500"));
  return pod;
}

bool is_too_big(const Frame& frame) {
  const Decoded& packet = frame.packet;
  if (!packet.is_icmp() || frame.outgoing) return false;
  return packet.protocol == 1 ? packet.icmp_type == 3 && packet.icmp_code == 4 : packet.icmp_type == 2;
}

// The MTU field of ICMP and ICMPv6: behind type, code and checksum.
unsigned mtu_of(const Frame& frame) {
  const std::size_t at = 14 + (frame.packet.protocol == 1 ? 20 : 40) + 4;
  unsigned value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8U | frame.octets.at(at + i);
  return value;
}

// The packet that an answer quotes.
Decoded quote_of(const Frame& frame) {
  std::vector<std::uint8_t> quoted(14);
  quoted.at(12) = frame.packet.protocol == 1 ? 0x08 : 0x86;
  quoted.at(13) = frame.packet.protocol == 1 ? 0x00 : 0xdd;
  quoted.insert(quoted.end(), frame.packet.payload.begin(), frame.packet.payload.end());
  return decode(quoted);
}

// Every answer that came into the pod is right, and there was one.
void answers_are_right(const Capture& in_pod, const Pod& pod, Family family, const IpAddress& from,
                       const Endpoint& asked) {
  INFO(in_pod.text());
  const std::vector<Frame> answers = in_pod.frames(both(sent_to(address_of(pod, family)), is_too_big));
  REQUIRE_FALSE(answers.empty());
  for (const Frame& answer : answers) {
    CHECK(answer.packet.source == from);
    CHECK(mtu_of(answer) == small_mtu);
    CHECK(answer.packet.header_checksum_ok);
    // Not "to be completed": nobody would complete this one in the right place.
    CHECK_FALSE(answer.checksum_pending);
    CHECK(answer.packet.payload_checksum_ok);
    CHECK(answer.packet.destination_mac == pod.mac);
    CHECK(answer.packet.length == (family == Family::v4 ? 576 : 1280));
    const Decoded quote = quote_of(answer);
    CHECK(quote.source == address_of(pod, family));
    CHECK(quote.destination == asked.address);
    CHECK(quote.destination_port == asked.port);
    CHECK(quote.header_checksum_ok);
  }
}

void forget_path_mtus(const Pod& pod) {
  for (const char* family : {"-4", "-6"}) value_of(pod.space->run_ok({"ip", family, "route", "flush", "cache"}));
}

std::string invalid_drops(const Lab& lab) {
  return value_of(lab.node().run_ok({"nft", "list", "chain", "inet", "services", "forward"}));
}

}  // namespace

TEST_CASE("D66, D82: ping with DF through a smaller uplink names its MTU") {
  auto lab = make_lab();
  const Outside outside = value_of(Outside::watch(*lab));
  for (const char* mode : {"fast", "netfilter"}) {
    const Pod pod = add_large_pod(*lab, mode);
    for (const Family family : families) {
      INFO(mode << " to " << Outside::address(family).text());
      const std::string size = std::to_string(1500 - (family == Family::v4 ? 28 : 48));
      const Outcome ping = value_of(pod.space->run(
          {"ping", "-c", "2", "-W", "2", "-i", "0.2", "-M", "do", "-s", size, Outside::address(family).text()}));
      CHECK(ping.status == 1);
      CHECK_THAT(ping.text(), ContainsSubstring("mtu"));
      CHECK_THAT(ping.text(), ContainsSubstring(std::to_string(small_mtu)));
      CHECK_THAT(value_of(pod.space->run_ok({"ip", "route", "get", Outside::address(family).text()})),
                 ContainsSubstring("mtu " + std::to_string(small_mtu)));
      for (const auto& [number, packets] : outside.count_from(address_of(pod, family))) CHECK(packets == 0);
    }
    value_of(lab->del_pod("pod"));
  }
  CHECK(value_of(value_of(lab->tables()).stats.verdicts()).too_big == 4);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D66: TCP with segments that are too big for the uplink gets through") {
  // With the pod's checksum and segmentation offloads, as pods have them, and without.
  const bool offloads = GENERATE(true, false);
  auto lab = make_lab();
  const Outside outside = value_of(Outside::watch(*lab));
  const std::string payload(40'000, 'x');
  for (const char* mode : {"fast", "netfilter"}) {
    const Pod pod = add_large_pod(*lab, mode);
    if (!offloads) value_of(disable_offloads(*pod.space, "eth0"));
    for (const Family family : families) {
      INFO(mode << (offloads ? " with" : " without") << " offloads to " << Outside::address(family).text());
      const Capture in_pod = value_of(Capture::start(*pod.space, "eth0"));
      const Endpoint to = Outside::echo(family);
      CHECK(value_of(exchange_tcp(*pod.space, {.to = to, .payload = payload}, std::chrono::seconds(20))) == payload);
      answers_are_right(in_pod, pod, family, router_of_pod(family), to);
      for (const auto& [number, packets] : outside.count_from(address_of(pod, family)))
        CHECK((packets == 0) == (number != home));
    }
    value_of(lab->del_pod("pod"));
  }
  CHECK_THAT(invalid_drops(*lab), ContainsSubstring("counter packets 0 bytes 0 drop"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D66: what the host has DNATed and is too big for the uplink is answered in the words of the pod") {
  auto lab = make_lab();
  const Outside outside = value_of(Outside::watch(*lab));
  const std::string payload(40'000, 'x');
  for (const char* mode : {"fast", "netfilter"}) {
    const Pod pod = add_large_pod(*lab, mode);
    // The host completes what the pod has left to do, so it must not find anything of that in the answer.
    value_of(disable_offloads(lab->node(), pod.host_veth));
    for (const Family family : families) {
      INFO(mode << " to " << service(family).text());
      const Capture in_pod = value_of(Capture::start(*pod.space, "eth0"));
      const Endpoint to{service(family), 80};
      CHECK(value_of(exchange_tcp(*pod.space, {.to = to, .payload = payload}, std::chrono::seconds(20))) == payload);
      answers_are_right(in_pod, pod, family, service(family), to);
      for (const auto& [number, packets] : outside.count_from(address_of(pod, family)))
        CHECK((packets == 0) == (number != home));
    }
    forget_path_mtus(pod);
    value_of(lab->del_pod("pod"));
  }
  CHECK(value_of(value_of(lab->tables()).stats.verdicts()).late_too_big > 0);
  CHECK_THAT(invalid_drops(*lab), ContainsSubstring("counter packets 0 bytes 0 drop"));
  REQUIRE_CLOSED(*lab);
}
