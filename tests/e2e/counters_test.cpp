// SPDX-License-Identifier: Apache-2.0
// The numbers that operators see: per uplink, per verdict, and the sampled drops.
#include <algorithm>
#include <chrono>

#include "tests/e2e/steps.h"
#include "tests/harness/conversation.h"
#include "tests/harness/event_reader.h"
#include "tests/harness/packet.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

constexpr unsigned payload = 100;

std::uint64_t frame_size(Family family) { return 14U + (family == Family::v4 ? 20U : 40U) + 8U + payload; }

// `number` datagrams that nobody answers.
void send(const Namespace& space, unsigned number, const Datagram& datagram) {
  for (unsigned i = 0; i < number; ++i) value_of(send_udp(space, datagram));
}

// Each number of one uplink, less what it was.
pdl_uplink_stats minus(pdl_uplink_stats now, const pdl_uplink_stats& before) {
  now.out_packets -= before.out_packets;
  now.out_bytes -= before.out_bytes;
  now.in_packets -= before.in_packets;
  now.in_bytes -= before.in_bytes;
  now.out_redirects -= before.out_redirects;
  now.late_redirects -= before.late_redirects;
  now.in_redirects -= before.in_redirects;
  return now;
}

}  // namespace

TEST_CASE("An uplink's packets, octets and redirects, and the verdicts, are what was sent") {
  auto lab = lab_with_agent({.uplinks = 2});
  value_of(lab->gateway(1).ip("route add 10.2.0.0/16 via 10.1.0.10\nroute add fd00:2::/64 via fd00:1::10"));
  const Pod fast = add_pod(*lab, "fast", {.uplink = 2, .mode = "fast"});
  const Pod netfilter = add_pod(*lab, "netfilter", {.uplink = 2, .mode = "netfilter"});
  for (const Family family : families) {
    // Neighbour advertisements that are made for a pod bear its address and count as its own.
    for (const Pod* pod : {&fast, &netfilter})
      value_of(lab->gateway(2).ip(formatted("neighbour add {} lladdr {} dev eth0 nud permanent",
                                            address_of(*pod, family).text(), lab->uplink(2).mac().text())));
    const VerdictsSince verdicts(*lab);
    const pdl_uplink_stats first = uplink_stats(*lab, 1);
    const pdl_uplink_stats second = uplink_stats(*lab, 2);
    const std::string text(payload, 'c');
    // Sockets take it in: an ICMP error would count.
    const Endpoint sink{Outside::address(family), 9};

    const Conversation at_gateway = value_of(Conversation::udp(lab->gateway(2), sink));
    const Conversation in_fast = value_of(Conversation::udp(*fast.space, {address_of(fast, family), 9}));
    const Conversation in_netfilter = value_of(Conversation::udp(*netfilter.space, {address_of(netfilter, family), 9}));
    send(*fast.space, 20, {.to = sink, .payload = text});
    send(*netfilter.space, 7, {.to = sink, .payload = text});
    const IpAddress outside = Outside::address(family);
    send(lab->gateway(2), 30, {.to = {address_of(fast, family), 9}, .from = outside, .payload = text});
    send(lab->gateway(1), 5, {.to = {address_of(fast, family), 9}, .from = outside, .payload = text});
    send(lab->gateway(2), 3, {.to = {address_of(netfilter, family), 9}, .from = outside, .payload = text});
    INFO(verdicts.text());
    CHECK(eventually([&] { return verdicts().in_stack_netfilter == 3; }));
    CHECK(verdicts().redirected == 20);
    CHECK(verdicts().stack_netfilter == 7);
    CHECK(verdicts().late_redirected == 7);
    CHECK(verdicts().in_redirected == 30);
    CHECK(verdicts().in_other_uplink == 5);

    const pdl_uplink_stats home = minus(uplink_stats(*lab, 2), second);
    CHECK(home.out_packets == 27);
    CHECK(home.out_bytes == 27 * frame_size(family));
    CHECK(home.out_redirects == 20);
    CHECK(home.late_redirects == 7);
    CHECK(home.in_packets == 33);
    CHECK(home.in_bytes == 33 * frame_size(family));
    CHECK(home.in_redirects == 30);
    const pdl_uplink_stats other = minus(uplink_stats(*lab, 1), first);
    CHECK(other.out_packets + other.out_redirects + other.late_redirects == 0);
    CHECK(other.in_packets == 5);
    CHECK(other.in_bytes == 5 * frame_size(family));
    CHECK(other.in_redirects == 5);
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A drop is told with reason, veth, addresses and ports; a flood is told in part and counted whole") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pod pod = add_pod(*lab, "pod", {.uplink = 2});
  const auto veth = static_cast<std::uint32_t>(link_index(lab->node(), pod.host_veth));
  const auto wire = static_cast<std::uint32_t>(link_index(lab->node(), "eth1"));
  EventReader events = value_of(EventReader::open(*lab));
  for (const Family family : families) {
    events.clear();
    const IpAddress self = address_of(pod, family);
    const IpAddress foreign = address_of(lab->uplink(1), family);
    const tests::Octets from_pod =
        tests::build({tests::Ethernet{pod.mac, MacAddress(PDL_HOST_MAC)}, tests::Ip{foreign, Outside::address(family)},
                      tests::Udp{1234, 53}, tests::Raw(payload)});
    const tests::Octets from_wire = tests::build({tests::Ethernet{lab->uplink(1).gateway_mac(), lab->uplink(1).mac()},
                                                  tests::Ip{foreign, self}, tests::Tcp{4321, 80}});
    value_of(send_frame(*pod.space, "eth0", from_pod));
    value_of(send_frame(lab->gateway(1), "eth0", from_wire));
    REQUIRE(eventually([&] { return events.read().size() == 2; }));
    CHECK(text_of(events.read()[0]) == formatted("spoofed on {}: {} > {} protocol 17, {} octets", veth,
                                                 Endpoint{foreign, 1234}.text(),
                                                 Endpoint{Outside::address(family), 53}.text(), from_pod.size()));
    CHECK(text_of(events.read()[1]) == formatted("martian on {}: {} > {} protocol 6, {} octets", wire,
                                                 Endpoint{foreign, 4321}.text(), Endpoint{self, 80}.text(),
                                                 from_wire.size()));
    CHECK(events.read()[0].family == (family == Family::v4 ? 4 : 6));
    CHECK(events.read()[0].time_ns <= events.read()[1].time_ns);

    // A hundred in each second that the flood touches.
    events.clear();
    const VerdictsSince verdicts(*lab);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) value_of(send_frame(*pod.space, "eth0", from_pod));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin);
    CHECK(eventually([&] { return verdicts().spoofed == 1000; }));
    CHECK(!events.read().empty());
    CHECK(events.read().size() <= 100 * (static_cast<std::size_t>(seconds.count()) + 2));
    CHECK(std::ranges::all_of(events.read(), [&](const pdl_event& event) { return event.ifindex == veth; }));
    // And told again, when the second is over.
    events.clear();
    CHECK(eventually([&] {
      value_of(send_frame(*pod.space, "eth0", from_pod));
      return !events.read().empty();
    }));
  }
  REQUIRE_CLOSED(*lab);
}
