// SPDX-License-Identifier: Apache-2.0
// What pod_egress costs a packet on its ways out of an uplink, more than an empty program, in a node that is full:
// 10,000 exempt prefixes, 5,000 pods, 100,000 entries of connection tracking. And how many instructions the verifier
// walks. docs/CONTRIBUTING.md says how to run it. It measures and judges no test.
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>

#include "loader/base/fd.h"
#include "tests/bpf/cases.h"
#include "tests/bpf/conntrack.h"

namespace poduplink::tests {
namespace {

constexpr unsigned exempt_prefixes = 10'000;  // of each family
constexpr unsigned pods = 5'000;              // of each family
constexpr unsigned tracked_flows = 100'000;
constexpr int rounds = 21;
constexpr int packets = 512;      // in a round, each another flow of another pod
constexpr int repetitions = 100;  // of a packet, in one call: each takes one from the TTL
constexpr double budget_ns = 700;

// Host number `number` of a /12 or a /64.
IpAddress numbered(const char* network, unsigned number) { return ip(network).plus(number).value(); }

struct Net {
  const char* pod_network;
  const char* outside_network;
  unsigned exempt_bits;
};

const Net& net(Family family) {
  static constexpr Net v4{"10.32.0.0", "11.0.0.0", 28};
  static constexpr Net v6{"fd00:32::", "2001:db8:1::", 124};
  return family == Family::v4 ? v4 : v6;
}

// Of every 32 addresses outside, 16 are exempt, so that a look-up goes far down the trie.
IpAddress outside(Family family, unsigned number) {
  return numbered(net(family).outside_network, (32 * (number % exempt_prefixes)) + 16 + (number % 16));
}

void fill_maps(const Datapath& datapath) {
  for (const Family family : {Family::v4, Family::v6}) {
    const Net& where = net(family);
    for (unsigned i = 0; i < pods; ++i) {
      datapath.put(PodSpec{numbered(where.pod_network, 1 + i), kVethA, kUplink1, addresses(family).pod_gateway});
    }
    for (unsigned i = 0; i < exempt_prefixes; ++i) {
      datapath.put_exempt(Prefix(numbered(where.outside_network, 32 * i), where.exempt_bits));
    }
  }
  UplinkSpec home{.ifindex = kUplink1};
  for (unsigned i = 0; i < PDL_MAX_LINK_LOCAL; ++i) {
    home.link_local.emplace_back(numbered("169.254.100.0", 256 * i), 24);
  }
  datapath.put(home);
}

void require_room_for_flows() {
  std::ifstream file("/proc/sys/net/netfilter/nf_conntrack_max");
  unsigned most = 0;
  if (!(file >> most)) throw std::runtime_error("nf_conntrack is not loaded (modprobe nf_conntrack)");
  if (most < tracked_flows + 1000) {
    throw std::runtime_error("room for too few flows: sysctl -w net.netfilter.nf_conntrack_max=200000");
  }
}

// Half of each family, half of it NATed, none of them of the packets that are measured.
void fill_conntrack() {
  require_room_for_flows();
  const Conntrack conntrack;
  for (unsigned i = 0; i < tracked_flows; ++i) {
    const Family family = i % 2 == 0 ? Family::v4 : Family::v6;
    const IpAddress pod = numbered(net(family).pod_network, 1 + (i / 2 % pods));
    const IpAddress to = outside(family, i);
    const auto port = static_cast<std::uint16_t>(10'000 + (i / 10'000));
    const std::uint8_t protocol = i % 3 == 0 ? IPPROTO_TCP : IPPROTO_UDP;
    const IpAddress& server = i % 4 < 2 ? addresses(family).nat_backend : to;
    conntrack.add({protocol, pod, to, port, 53}, {protocol, server, pod, 53, port});
  }
}

// ---- the ways ----

// Packet number `number` of a way: its source is a pod, its TTL outlasts the repetitions.
using Make = Octets (*)(unsigned number);

Ip from_pod_number(Family family, unsigned number) {
  return {.src = numbered(net(family).pod_network, 1 + (number * 7 % pods)),
          .dst = outside(family, number * 19),
          .ttl = 255};
}

template <typename Transport>
Octets plain(Family family, unsigned number) {
  return from_pod() + std::vector<Layer>{from_pod_number(family, number),
                                         Transport{static_cast<std::uint16_t>(30'000 + number), 53}, Raw{26}};
}

Octets error(Family family, unsigned number) {
  const Ip out = from_pod_number(family, number);
  return from_pod() + std::vector<Layer>{out, unreachable(family), Ip{out.dst, out.src},
                                         Udp{53, static_cast<std::uint16_t>(30'000 + number)}, Raw{26}};
}

Octets claimed_link_local(unsigned number) {
  Ip header = from_pod_number(Family::v4, number);
  header.dst = numbered("169.254.107.0", 1 + (number % 200));
  return from_pod() + std::vector<Layer>{header, Udp{static_cast<std::uint16_t>(30'000 + number), 53}, Raw{26}};
}

std::vector<Layer> eight_extensions() { return std::vector<Layer>(8, Extension{.type = 60, .size = 8}); }

Octets extended(unsigned number) {
  std::vector<Layer> layers{from_pod_number(Family::v6, number)};
  for (const Layer& extension : eight_extensions()) layers.push_back(extension);
  layers.emplace_back(Udp{static_cast<std::uint16_t>(30'000 + number), 53});
  return from_pod() + layers;
}

struct Way {
  const char* name;
  Make make;
};

constexpr std::array<Way, 8> ways{{
    {"IPv4 UDP", [](unsigned number) { return plain<Udp>(Family::v4, number); }},
    {"IPv4 TCP", [](unsigned number) { return plain<Tcp>(Family::v4, number); }},
    {"IPv4 ICMP error", [](unsigned number) { return error(Family::v4, number); }},
    {"IPv4 UDP, the last of 8 claimed link-local prefixes", claimed_link_local},
    {"IPv6 UDP", [](unsigned number) { return plain<Udp>(Family::v6, number); }},
    {"IPv6 TCP", [](unsigned number) { return plain<Tcp>(Family::v6, number); }},
    {"IPv6 ICMP error", [](unsigned number) { return error(Family::v6, number); }},
    {"IPv6 UDP behind 8 extension headers", extended},
}};

// ---- measuring ----

// Mean of the repetitions, ns.
double run(int program, const Octets& frame) {
  __sk_buff context{};
  context.ifindex = kVethA;
  std::array<std::uint8_t, 1024> out{};
  LIBBPF_OPTS(bpf_test_run_opts, options);
  options.data_in = frame.data();
  options.data_size_in = static_cast<__u32>(frame.size());
  options.data_out = out.data();
  options.data_size_out = out.size();
  options.ctx_in = &context;
  options.ctx_size_in = sizeof(context);
  options.repeat = repetitions;
  if (bpf_prog_test_run_opts(program, &options) != 0) throw std::runtime_error("test run");
  return options.duration;
}

double round_ns(int program, const std::vector<Octets>& frames) {
  double sum = 0;
  for (const Octets& frame : frames) sum += run(program, frame);
  return sum / static_cast<double>(frames.size());
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

Fd empty_program() {
  const std::array<bpf_insn, 2> code{{
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = TC_ACT_UNSPEC},
      {.code = BPF_JMP | BPF_EXIT},
  }};
  Fd fd(bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "empty", "Apache-2.0", code.data(), code.size(), nullptr));
  if (!fd.valid()) throw std::runtime_error("loading the empty program");
  return fd;
}

// The dearest way's cost above the empty program.
double measure(const Datapath& datapath) {
  const Fd empty = empty_program();
  const int program = datapath.program_fd(Program::pod_egress);
  double dearest = 0;
  std::printf("pod_egress, ns a packet: medians of %d rounds of %d flows\n", rounds, packets);
  std::printf("  %-52s %9s %9s %9s\n", "way", "program", "empty", "more");
  for (const Way& way : ways) {
    std::vector<Octets> frames;
    frames.reserve(packets);
    for (unsigned number = 0; number < packets; ++number) frames.push_back(way.make(number));
    const __u64 before = datapath.verdicts().redirected;
    std::vector<double> ours;
    std::vector<double> nothing;
    for (int round = 0; round < rounds; ++round) {
      ours.push_back(round_ns(program, frames));
      nothing.push_back(round_ns(empty.get(), frames));
    }
    const __u64 redirected = datapath.verdicts().redirected - before;
    if (redirected != __u64{rounds} * packets * repetitions) {
      throw std::runtime_error(std::string(way.name) + ": not every packet was redirected");
    }
    const double more = median(ours) - median(nothing);
    dearest = std::max(dearest, more);
    std::printf("  %-52s %9.0f %9.0f %9.0f\n", way.name, median(ours), median(nothing), more);
  }
  return dearest;
}

void print_instructions(const Datapath& datapath) {
  std::printf("%-16s %28s %12s\n", "program", "instructions verified", "translated");
  for (const Program program : {Program::pod_egress, Program::uplink_ingress, Program::uplink_egress}) {
    bpf_prog_info info{};
    __u32 size = sizeof(info);
    if (bpf_obj_get_info_by_fd(datapath.program_fd(program), &info, &size) != 0) {
      throw std::runtime_error("bpf_prog_info");
    }
    std::printf("%-16s %28u %12u\n", program_name(program).c_str(), info.verified_insns,
                info.xlated_prog_len / unsigned{sizeof(bpf_insn)});
  }
}

void bench() {
  const Datapath datapath({}, false);
  print_instructions(datapath);
  fill_maps(datapath);
  fill_conntrack();
  const double dearest = measure(datapath);
  std::printf("the dearest way costs %.0f ns more than an empty program: %s %.0f ns\n", dearest,
              dearest <= budget_ns ? "within" : "ABOVE", budget_ns);
}

}  // namespace
}  // namespace poduplink::tests

int main() {
  if (geteuid() != 0) {
    std::fputs("bench_datapath: loading BPF programs needs root\n", stderr);
    return 1;
  }
  try {
    poduplink::tests::bench();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_datapath: %s\n", error.what());
    return 1;
  }
  return 0;
}
