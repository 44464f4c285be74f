// SPDX-License-Identifier: Apache-2.0
// What holds for any packet, not only for those in the tables.
#include <linux/pkt_cls.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <random>

#include "maps/tables.h"
#include "tests/bpf/cases.h"

namespace poduplink::tests {
namespace {

// The flow between the pod and a peer as the pod sends it and as it comes back.
struct Flow {
  std::string name;
  IpAddress peer;
  Layer out, in;
};

std::vector<Flow> flows(const Addresses& a) {
  const auto udp = [](std::uint16_t pod_port, std::uint16_t peer_port) {
    return std::pair<Layer, Layer>{Udp{pod_port, peer_port}, Udp{peer_port, pod_port}};
  };
  std::vector<Flow> all;
  const auto add = [&](const std::string& name, const IpAddress& peer, const std::pair<Layer, Layer>& layers) {
    all.push_back({name, peer, layers.first, layers.second});
  };
  for (const IpAddress& peer : {a.outside, a.on_link, a.exempt, a.link_local}) {
    add("UDP " + peer.text(), peer, udp(1000, 53));
    add("TCP " + peer.text(), peer, {Tcp{1000, 80}, Tcp{80, 1000}});
    add("something " + peer.text(), peer, {Raw{40}, Raw{40}});
  }
  add("NATed", a.nat_backend, udp(nat_port, backend_port));
  add("tracked", a.nat_backend, udp(plain_port, backend_port));
  // The original direction of the entries, which no packet of a direct flow has.
  add("NATed, original", a.exempt, udp(nat_port, 53));
  if (a.pod.is_v4()) {
    add("claimed link-local", ip("169.254.169.254"), udp(1, 2));
    add("subnet broadcast", ip("10.1.255.255"), udp(1, 2));
  }
  return all;
}

// enum pdl_way as the verdict tells it.
unsigned way_of(unsigned verdict) {
  if (verdict == PDL_VERDICT_redirected || verdict == PDL_VERDICT_in_redirected) return PDL_WAY_FAST;
  return program_of(verdict) == Program::pod_egress ? verdict - PDL_VERDICT_stack_node
                                                    : verdict - PDL_VERDICT_in_stack_node;
}

unsigned only_verdict(const Output& output) {
  REQUIRE(output.verdicts.size() == 1);
  return output.verdicts.front();
}

}  // namespace

TEST_CASE("both directions of a flow go the same way, and so do ICMP errors about it") {
  if (geteuid() != 0) SKIP("loading BPF programs needs root");
  const Datapath datapath({}, true);
  const auto way_out = [&](const std::vector<Layer>& layers) {
    return way_of(
        only_verdict(datapath.run({.program = Program::pod_egress, .ifindex = kVethA, .frame = from_pod() + layers})));
  };
  const auto way_in = [&](const std::vector<Layer>& layers) {
    return way_of(only_verdict(datapath.run(
        {.program = Program::uplink_ingress, .ifindex = kUplink1, .frame = to_uplink(kUplink1) + layers})));
  };
  for (const Family family : {Family::v4, Family::v6}) {
    const Addresses& a = addresses(family);
    for (const Flow& flow : flows(a)) {
      INFO(named(family, flow.name));
      const Ip out{a.pod, flow.peer};
      const Ip in{flow.peer, a.pod};
      const unsigned way = way_out({out, flow.out, Raw{8}});
      CHECK(way_in({in, flow.in, Raw{8}}) == way);
      // A router on the way about what the pod sent; the pod about what it got.
      CHECK(way_in({Ip{a.outside, a.pod}, unreachable(family), out, flow.out, Raw{8}}) == way);
      CHECK(way_out({Ip{a.pod, a.outside}, unreachable(family), in, flow.in, Raw{8}}) == way);
    }
  }
}

TEST_CASE("any frame at all ends in exactly one verdict of its program") {
  if (geteuid() != 0) SKIP("loading BPF programs needs root");
  const Datapath datapath({.steer_node = true}, true);
  std::mt19937 random(20240229);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same frames every time
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  const std::vector<Case> cases = all_cases();
  for (int i = 0; i < 20'000; ++i) {
    Input input = cases.at(below(cases.size())).input;
    // The first octets are where decisions are made. The EtherType is left alone most of the time.
    for (std::size_t changes = below(4); changes > 0; --changes) {
      const std::size_t at = below(std::min<std::size_t>(input.frame.size(), 90));
      if ((at == 12 || at == 13) && below(8) != 0) continue;
      input.frame.at(at) = static_cast<std::uint8_t>(below(256));
    }
    const Output output = datapath.run(input);
    INFO("frame " << i << ", " << program_name(input.program));
    REQUIRE(output.verdicts.size() == 1);
    REQUIRE(program_of(output.verdicts.front()) == input.program);
    const bool redirected = output.action == TC_ACT_REDIRECT;
    REQUIRE((redirected || output.action == TC_ACT_SHOT || output.action == TC_ACT_UNSPEC));
    REQUIRE(redirected == (output.redirect.kind != RECORDED_NONE));
    if (output.action == TC_ACT_UNSPEC) REQUIRE(output.frame == input.frame);
  }
}

}  // namespace poduplink::tests
