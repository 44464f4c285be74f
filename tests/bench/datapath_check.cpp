// SPDX-License-Identifier: Apache-2.0
// Whether a way is what its variant says, before it is measured.
#include <array>
#include <charconv>
#include <stdexcept>

#include "loader/net/netns.h"
#include "tests/bench/datapath_way.h"
#include "tests/bench/must.h"
#include "tests/harness/capture.h"

namespace poduplink::bench {
namespace {

using harness::Capture;
using harness::Frame;

constexpr unsigned packets = 5;
constexpr unsigned first_ttl = 64;

[[noreturn]] void refuse(const Way& way, Family family, const std::string& what) {
  throw std::runtime_error(formatted("{}, IPv{}: {}", way.variant, family == Family::v4 ? 4 : 6, what));
}

Steered steered_by(const Way& way) { return way.steered ? way.steered() : Steered{}; }

// What the packets of this path are at their end.
harness::FrameTest of_path(const Path& path) {
  return [test = harness::received_from(path.source), path](const Frame& frame) {
    return test(frame) && frame.packet.is_udp() && frame.packet.destination == path.destination &&
           frame.packet.destination_port == discard_port;
  };
}

void check_out(const Way& way, Family family) {
  const Path path = way.out(family);
  const harness::FrameTest ours = of_path(path);
  std::vector<Capture> gateways;
  for (const unsigned number : way.lab->uplink_numbers())
    gateways.push_back(must(Capture::start(way.lab->gateway(number), "eth0")));
  const std::uint64_t before = way.outside_drain->arrived();
  const Steered steered = steered_by(way);
  Flood(path).send(packets);
  for (std::size_t i = 0; i < gateways.size(); ++i) {
    const Capture& gateway = gateways.at(i);
    const std::size_t expected = way.lab->uplink_numbers().at(i) == way.pod.uplink ? packets : 0;
    if (!gateway.wait_for(ours, expected) || gateway.count(ours) != expected)
      refuse(way, family, formatted("gateway {} got, in place of {} packets:\n{}", i + 1, expected, gateway.text()));
    for (const Frame& frame : gateway.frames(ours)) {
      if (frame.packet.source_mac != way.pod.mac || frame.packet.ttl != first_ttl - way.pod.routers)
        refuse(way, family, "MAC or TTL of " + frame.packet.text());
    }
  }
  if (way.outside_drain->arrived() - before != packets) refuse(way, family, "the gateway's drain did not count them");
  if (way.steered && way.steered().out - steered.out != packets) refuse(way, family, "out by other code than meant");
}

void check_in(const Way& way, Family family) {
  const Path path = way.out(family).back();
  const harness::FrameTest ours = of_path(path);
  const Capture pod = must(Capture::start(*way.pod.space, way.pod.device));
  const std::uint64_t before = way.pod_drain->arrived();
  const Steered steered = steered_by(way);
  Flood(path).send(packets);
  if (!pod.wait_for(ours, packets)) refuse(way, family, "the pod got:\n" + pod.text());
  if (way.pod_drain->arrived() - before != packets) refuse(way, family, "the pod's drain did not count them");
  if (way.steered && way.steered().in - steered.in != packets) refuse(way, family, "in by other code than meant");
}

unsigned tracked_connections(const Way& way) {
  const NetnsScope inside = must(NetnsScope::enter(way.lab->node().fd()));
  const std::string text = must(read_net_sysctl("netfilter/nf_conntrack_count"));
  unsigned number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

void track_connections(const Way& way) {
  must(
      way.lab->node().nft("table inet bench { chain forward { type filter hook forward priority filter; "
                          "ct state invalid counter drop; }; }"));
}

void check(const Way& way, bool tracked) {
  for (const Family family : {Family::v4, Family::v6}) {
    check_out(way, family);
    check_in(way, family);
    const unsigned connections = tracked_connections(way);
    if (!tracked && connections > 0) refuse(way, family, formatted("{} connections are tracked", connections));
    if (tracked && way.pod.meets_netfilter && connections == 0) refuse(way, family, "no connection is tracked");
  }
}

}  // namespace poduplink::bench
