// SPDX-License-Identifier: Apache-2.0
// What is remembered of a flow saves questions and changes no answer: whatever happens to the memory, a packet goes
// where it would go without it, at once where the configuration changed, and within a second where connection tracking
// did.
#include <linux/bpf.h>
#include <netinet/in.h>

#include <bpf/bpf.h>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <span>
#include <thread>

#include "maps/tables.h"
#include "tests/bpf/cases.h"
#include "tests/bpf/conntrack.h"

namespace poduplink::tests {
namespace {

constexpr std::uint8_t ack = 0x10;
constexpr std::uint8_t syn = 0x02;
constexpr std::uint16_t peer_port = 443;

// Another one each time: flows of one test are not those of the next.
std::uint16_t next_port() {
  static std::uint16_t port = 20'000;
  return ++port;
}

// A flow between pod A and a peer, as both programs see it.
struct Flow {
  const Datapath& datapath;
  Family family = Family::v4;
  std::uint8_t protocol = IPPROTO_UDP;
  std::uint16_t port = next_port();
  IpAddress peer = addresses(family).outside;

  [[nodiscard]] const IpAddress& pod() const { return addresses(family).pod; }

  [[nodiscard]] Layer transport(std::uint16_t from, std::uint16_t to, std::uint8_t flags) const {
    if (protocol == IPPROTO_TCP) return Tcp{from, to, flags};
    return Udp{from, to};
  }
  // The verdict on one packet.
  [[nodiscard]] unsigned out(std::uint8_t flags = ack) const {
    return verdict({.program = Program::pod_egress,
                    .ifindex = kVethA,
                    .frame = from_pod() + std::vector<Layer>{Ip{pod(), peer}, transport(port, peer_port, flags)}});
  }
  [[nodiscard]] unsigned in(std::uint8_t flags = ack) const {
    return verdict(
        {.program = Program::uplink_ingress,
         .ifindex = kUplink1,
         .frame = to_uplink(kUplink1) + std::vector<Layer>{Ip{peer, pod()}, transport(peer_port, port, flags)}});
  }
  [[nodiscard]] unsigned verdict(const Input& input) const {
    const Output output = datapath.run(input);
    REQUIRE(output.verdicts.size() == 1);
    return output.verdicts.front();
  }

  // From here on the host NATs it: connection tracking has an entry whose tuples do not mirror each other.
  void nat() const {
    const Conntrack conntrack;
    conntrack.add({protocol, pod(), peer, port, peer_port},
                  {protocol, addresses(family).nat_backend, pod(), peer_port, port});
  }

  [[nodiscard]] pdl_flow key() const {
    pdl_flow key{};
    std::ranges::copy(pod().octets(), key.pod);
    std::ranges::copy(peer.octets(), key.peer);
    const __u32 zero = 0;
    pdl_generation now{};
    REQUIRE(bpf_map_lookup_elem(datapath.map_fd("generation"), &zero, &now) == 0);
    key.generation = now.number;
    key.pod_port = port;
    key.peer_port = peer_port;
    key.protocol = protocol;
    key.family = family == Family::v4 ? 4 : 6;
    return key;
  }
  [[nodiscard]] bool remembered() const {
    const pdl_flow flow = key();
    pdl_judged value{};
    return bpf_map_lookup_elem(datapath.map_fd("fastflows"), &flow, &value) == 0;
  }
  void remember(const pdl_judged& value) const {
    const pdl_flow flow = key();
    REQUIRE(bpf_map_update_elem(datapath.map_fd("fastflows"), &flow, &value, BPF_ANY) == 0);
  }
};

__u64 now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (static_cast<__u64>(now.tv_sec) * 1'000'000'000) + static_cast<__u64>(now.tv_nsec);
}

// A verdict that connection tracking changed comes as soon as the flow is asked about again.
bool becomes(const std::function<unsigned()>& verdict, unsigned wanted) {
  for (int i = 0; i < 500; ++i) {
    if (verdict() == wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

void need_root() {
  if (geteuid() != 0) SKIP("loading BPF programs needs root");
}

// Every kind of flow that is remembered.
void each_flow(const Datapath& datapath, const std::function<void(Flow)>& test) {
  for (const Family family : {Family::v4, Family::v6}) {
    for (const std::uint8_t protocol : {std::uint8_t{IPPROTO_TCP}, std::uint8_t{IPPROTO_UDP}}) {
      INFO((family == Family::v4 ? "IPv4" : "IPv6") << (protocol == IPPROTO_TCP ? " TCP" : " UDP"));
      test({.datapath = datapath, .family = family, .protocol = protocol});
    }
  }
}

}  // namespace

TEST_CASE("a direct flow is remembered, by one name for both directions, and others are not") {
  need_root();
  const Datapath datapath({}, false);
  each_flow(datapath, [](const Flow& flow) {
    CHECK_FALSE(flow.remembered());
    CHECK(flow.out() == PDL_VERDICT_redirected);
    CHECK(flow.remembered());
    CHECK(flow.out() == PDL_VERDICT_redirected);
    CHECK(flow.in() == PDL_VERDICT_in_redirected);
    Flow arriving = flow;
    arriving.port = next_port();
    CHECK(arriving.in() == PDL_VERDICT_in_redirected);
    CHECK(arriving.remembered());
    Flow nated = flow;
    nated.port = next_port();
    nated.nat();
    CHECK(nated.out() == PDL_VERDICT_stack_nat);
    CHECK_FALSE(nated.remembered());
    Flow exempt = flow;
    exempt.peer = addresses(flow.family).exempt;
    CHECK(exempt.out() == PDL_VERDICT_stack_exempt);
    CHECK_FALSE(exempt.remembered());
  });
}

TEST_CASE("a changed configuration holds for the next packet of a remembered flow") {
  need_root();
  const Datapath unchanged({}, false);
  each_flow(unchanged, [](const Flow& outer) {
    // Each change has a datapath of its own.
    const auto changed = [&](const std::function<void(const Datapath&, const Flow&)>& change, unsigned out,
                             unsigned in) {
      const Datapath datapath({}, false);
      const Flow flow{.datapath = datapath, .family = outer.family, .protocol = outer.protocol};
      REQUIRE(flow.out() == PDL_VERDICT_redirected);
      REQUIRE(flow.in() == PDL_VERDICT_in_redirected);
      REQUIRE(flow.remembered());
      change(datapath, flow);
      CHECK(flow.out() == out);
      CHECK(flow.in() == in);
    };
    const IpAddress& gateway = addresses(outer.family).pod_gateway;
    const unsigned bits = outer.family == Family::v4 ? 32 : 128;
    changed([&](const Datapath& it, const Flow& flow) { it.put_exempt(Prefix(flow.peer, bits)); },
            PDL_VERDICT_stack_exempt, PDL_VERDICT_in_stack_exempt);
    changed([&](const Datapath& it, const Flow& flow) { it.put(NodeSpec{.address = flow.peer, .ifindex = kDocker}); },
            PDL_VERDICT_stack_node, PDL_VERDICT_martian);
    changed([&](const Datapath& it, const Flow& flow) { it.put(PodSpec{flow.peer, kVethB, kUplink2, gateway}); },
            PDL_VERDICT_to_pod, PDL_VERDICT_in_from_pod);
    changed([&](const Datapath& it,
                const Flow& flow) { it.put(PodSpec{flow.pod(), kVethA, kUplink1, gateway, true, PDL_MODE_NETFILTER}); },
            PDL_VERDICT_stack_netfilter, PDL_VERDICT_in_stack_netfilter);
    changed([&](const Datapath& it, const Flow&) { it.put(UplinkSpec{.ifindex = kUplink1, .state = PDL_STATE_DOWN}); },
            PDL_VERDICT_uplink_down, PDL_VERDICT_in_redirected);
  });
}

TEST_CASE("what the pod's own entry says needs no generation") {
  need_root();
  const Datapath datapath({}, false);
  each_flow(datapath, [&](const Flow& flow) {
    REQUIRE(flow.out() == PDL_VERDICT_redirected);
    const auto found = [&](auto key) {
      pdl_pod entry{};
      std::ranges::copy(flow.pod().octets(), key.addr);
      const int fd = datapath.map_fd(flow.family == Family::v4 ? "pods4" : "pods6");
      REQUIRE(bpf_map_lookup_elem(fd, &key, &entry) == 0);
      const pdl_pod before = entry;
      entry.mode = PDL_MODE_NETFILTER;
      REQUIRE(bpf_map_update_elem(fd, &key, &entry, BPF_EXIST) == 0);
      CHECK(flow.out() == PDL_VERDICT_stack_netfilter);
      CHECK(flow.in() == PDL_VERDICT_in_stack_netfilter);
      entry = before;
      entry.veth = kVethB;
      REQUIRE(bpf_map_update_elem(fd, &key, &entry, BPF_EXIST) == 0);
      CHECK(flow.out() == PDL_VERDICT_spoofed);
      REQUIRE(bpf_map_update_elem(fd, &key, &before, BPF_EXIST) == 0);
      CHECK(flow.out() == PDL_VERDICT_redirected);
    };
    if (flow.family == Family::v4) {
      found(pdl_addr4{});
    } else {
      found(pdl_addr6{});
    }
  });
}

TEST_CASE("a flow that the host begins to NAT is found out about within a second, both ways") {
  need_root();
  const Datapath datapath({}, false);
  each_flow(datapath, [](const Flow& flow) {
    REQUIRE(flow.out() == PDL_VERDICT_redirected);
    flow.nat();
    CHECK(becomes([&] { return flow.out(); }, PDL_VERDICT_stack_nat));
    CHECK(flow.in() == PDL_VERDICT_in_stack_nat);
    CHECK(flow.out() == PDL_VERDICT_stack_nat);
  });
}

TEST_CASE("a connection that begins is asked about at once, and so is what follows it") {
  need_root();
  const Datapath datapath({}, false);
  for (const Family family : {Family::v4, Family::v6}) {
    for (const bool outwards : {true, false}) {
      const Flow flow{.datapath = datapath, .family = family, .protocol = IPPROTO_TCP};
      REQUIRE(flow.out() == PDL_VERDICT_redirected);
      flow.nat();
      if (outwards) {
        CHECK(flow.out(syn) == PDL_VERDICT_stack_nat);
      } else {
        CHECK(flow.in(syn | ack) == PDL_VERDICT_in_stack_nat);
      }
      CHECK_FALSE(flow.remembered());
      CHECK(flow.out() == PDL_VERDICT_stack_nat);
      CHECK(flow.in() == PDL_VERDICT_in_stack_nat);
    }
  }
}

TEST_CASE("entries that are wrong, old, from the future or lost change nothing for longer than a second") {
  need_root();
  const Datapath datapath({}, false);
  each_flow(datapath, [&](const Flow& base) {
    const auto fresh = [&] {
      Flow flow = base;
      flow.port = next_port();
      return flow;
    };
    const Flow lost = fresh();
    REQUIRE(lost.out() == PDL_VERDICT_redirected);
    const pdl_flow key = lost.key();
    REQUIRE(bpf_map_delete_elem(datapath.map_fd("fastflows"), &key) == 0);
    CHECK(lost.out() == PDL_VERDICT_redirected);
    CHECK(lost.in() == PDL_VERDICT_in_redirected);

    const Flow old = fresh();
    old.nat();
    old.remember({.time_ns = now_ns() - 1'000'000'000, .outside = 1, .pad = {}});
    CHECK(old.out() == PDL_VERDICT_stack_nat);

    const Flow future = fresh();
    future.nat();
    future.remember({.time_ns = now_ns() + 60'000'000'000, .outside = 1, .pad = {}});
    CHECK(future.out() == PDL_VERDICT_stack_nat);
    CHECK(future.in() == PDL_VERDICT_in_stack_nat);

    // Claims that a NATed flow, and one to a pod of this node, are direct ones to the outside.
    const Flow wrong = fresh();
    wrong.nat();
    wrong.remember({.time_ns = now_ns(), .outside = 1, .pad = {}});
    CHECK(becomes([&] { return wrong.out(); }, PDL_VERDICT_stack_nat));
    Flow local = fresh();
    local.peer = addresses(base.family).other;
    local.remember({.time_ns = now_ns(), .outside = 1, .pad = {}});
    CHECK(becomes([&] { return local.out(); }, PDL_VERDICT_to_pod));

    // Under a generation that is over.
    const Flow before = fresh();
    before.nat();
    before.remember({.time_ns = now_ns(), .outside = 1, .pad = {}});
    datapath.raise_generation();
    CHECK(before.out() == PDL_VERDICT_stack_nat);
  });
}

TEST_CASE("what a memory claims of addresses that can never be direct is not believed") {
  need_root();
  const Datapath datapath({}, false);
  for (const Family family : {Family::v4, Family::v6}) {
    const Addresses& a = addresses(family);
    const auto claimed = [&](const IpAddress& peer) {
      const Flow flow{.datapath = datapath, .family = family, .peer = peer};
      flow.remember({.time_ns = now_ns(), .outside = 1, .pad = {}});
      return flow;
    };
    CHECK(claimed(a.link_local).out() == PDL_VERDICT_stack_link_local);
    CHECK(claimed(a.multicast).out() == PDL_VERDICT_stack_multicast);
    CHECK(claimed(a.loopback).in() == PDL_VERDICT_martian);
    CHECK(claimed(a.unspecified).in() == PDL_VERDICT_martian);
    CHECK(claimed(a.multicast).in() == PDL_VERDICT_martian);
    CHECK(claimed(a.pod).in() == PDL_VERDICT_martian);
  }
}

TEST_CASE("flows that push each other out of memory all go their way") {
  need_root();
  const Datapath datapath({}, false);
  const Flow first{.datapath = datapath};
  REQUIRE(first.out() == PDL_VERDICT_redirected);
  REQUIRE(first.remembered());
  // Twice as many as there is room for.
  const Addresses& a = addresses(Family::v4);
  for (unsigned i = 0; i < 2 * PDL_MAX_FASTFLOWS; ++i) {
    const auto from = static_cast<std::uint16_t>(i);
    const auto to = static_cast<std::uint16_t>(1 + (i >> 16U));
    const Output output = datapath.run({.program = Program::pod_egress,
                                        .ifindex = kVethA,
                                        .frame = from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, Udp{from, to}}});
    if (output.verdicts != std::vector<unsigned>{PDL_VERDICT_redirected}) FAIL("flow " << i);
  }
  CHECK_FALSE(first.remembered());
  CHECK(first.out() == PDL_VERDICT_redirected);
  CHECK(first.in() == PDL_VERDICT_in_redirected);
}

TEST_CASE("a remembered flow's fragments, options and errors are judged like any others") {
  need_root();
  const Datapath datapath({}, false);
  const Addresses& a = addresses(Family::v4);
  const Flow flow{.datapath = datapath};
  REQUIRE(flow.out() == PDL_VERDICT_redirected);
  REQUIRE(flow.remembered());
  const auto sent = [&](const std::vector<Layer>& layers) {
    return flow.verdict({.program = Program::pod_egress, .ifindex = kVethA, .frame = from_pod() + layers});
  };
  CHECK(sent({Ip{.src = a.pod, .dst = a.outside, .more_fragments = true}, Udp{flow.port, peer_port}, Raw{8}}) ==
        PDL_VERDICT_stack_fragment);
  CHECK(sent({Ip{.src = a.pod, .dst = a.outside, .option_words = 1}, Udp{flow.port, peer_port}, Raw{8}}) ==
        PDL_VERDICT_stack_options);
  flow.nat();
  CHECK(sent({Ip{a.pod, a.outside}, unreachable(Family::v4), Ip{a.outside, a.pod}, Udp{peer_port, flow.port},
              Raw{8}}) == PDL_VERDICT_stack_nat);
  // A TCP header that is cut off before its flags.
  const Flow tcp{.datapath = datapath, .protocol = IPPROTO_TCP};
  REQUIRE(tcp.out() == PDL_VERDICT_redirected);
  tcp.nat();
  Octets cut = from_pod() + std::vector<Layer>{Ip{.src = a.pod, .dst = a.outside, .protocol = IPPROTO_TCP}, Raw{12}};
  const std::array<std::uint8_t, 4> ports{static_cast<std::uint8_t>(tcp.port >> 8U),
                                          static_cast<std::uint8_t>(tcp.port & 0xffU), peer_port >> 8U,
                                          peer_port & 0xffU};
  std::ranges::copy(ports, cut.begin() + 34);
  CHECK(flow.verdict({.program = Program::pod_egress, .ifindex = kVethA, .frame = cut}) == PDL_VERDICT_stack_nat);
}

}  // namespace poduplink::tests
