// SPDX-License-Identifier: Apache-2.0
// What the programs cost a packet, way by way, and more than an empty program, in a node that is full: 10,000 exempt
// prefixes, 5,000 pods, 100,000 entries of connection tracking. And how many instructions the verifier walks.
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "loader/base/fd.h"
#include "loader/base/format.h"
#include "loader/net/netns.h"
#include "tests/bench/must.h"
#include "tests/bench/sections.h"
#include "tests/bpf/cases.h"
#include "tests/bpf/conntrack.h"

namespace poduplink::bench {
namespace {

using namespace poduplink::tests;

constexpr unsigned exempt_prefixes = 10'000;  // of each family
constexpr unsigned pods = 5'000;              // of each family
constexpr unsigned tracked_flows = 100'000;
constexpr unsigned flows = 512;        // of a way, each of another pod
constexpr unsigned repetitions = 100;  // of a packet, in one call: each takes one from the TTL

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
    throw std::runtime_error(
        formatted("room for too few flows: sysctl -w net.netfilter.nf_conntrack_max={}", 2 * tracked_flows));
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

// Packet number `number` of a way: its pod is one of the full node's, its TTL outlasts the repetitions.
using Make = Octets (*)(unsigned number);

IpAddress pod_number(Family family, unsigned number) {
  return numbered(net(family).pod_network, 1 + (number * 7 % pods));
}

std::uint16_t port_number(unsigned number) { return static_cast<std::uint16_t>(30'000 + number); }

// From a pod to the outside, and the other way.
Ip out(Family family, unsigned number) {
  return {.src = pod_number(family, number), .dst = outside(family, number * 19), .ttl = 255};
}

Ip in(Family family, unsigned number) {
  return {.src = outside(family, number * 19), .dst = pod_number(family, number), .ttl = 255};
}

// Ethernet headers: as the pod, as the router, as the stack on the wrong uplink.
Octets framed(Program program, const std::vector<Layer>& layers) {
  if (program == Program::pod_egress) return from_pod() + layers;
  return (program == Program::uplink_ingress ? to_uplink(kUplink1) : on_wire()) + layers;
}

template <Program program, typename Transport, Family family>
Octets plain(unsigned number) {
  const Ip header = program == Program::uplink_ingress ? in(family, number) : out(family, number);
  const Transport ports =
      program == Program::uplink_ingress ? Transport{53, port_number(number)} : Transport{port_number(number), 53};
  return framed(program, {header, ports, Raw{26}});
}

// Begins a connection: it is judged by all rules, whatever is remembered.
template <Program program, Family family>
Octets connecting(unsigned number) {
  const Ip header = program == Program::uplink_ingress ? in(family, number) : out(family, number);
  Tcp start = program == Program::uplink_ingress ? Tcp{53, port_number(number)} : Tcp{port_number(number), 53};
  start.flags = 0x02;
  return framed(program, {header, start, Raw{26}});
}

// Of a router on the way about what the pod sent, or of the pod about what it was sent.
template <Program program, Family family>
Octets error(unsigned number) {
  const bool is_in = program == Program::uplink_ingress;
  const Ip header = is_in ? in(family, number) : out(family, number);
  const Udp quoted = is_in ? Udp{port_number(number), 53} : Udp{53, port_number(number)};
  return framed(program, {header, unreachable(family), Ip{header.dst, header.src}, quoted, Raw{26}});
}

Octets claimed_link_local(unsigned number) {
  Ip header = out(Family::v4, number);
  header.dst = numbered("169.254.107.0", 1 + (number % 200));
  return framed(Program::pod_egress, {header, Udp{port_number(number), 53}, Raw{26}});
}

Octets extended(unsigned number) {
  std::vector<Layer> layers{out(Family::v6, number)};
  for (int i = 0; i < 8; ++i) layers.emplace_back(Extension{.type = 60, .size = 8});
  layers.emplace_back(Udp{port_number(number), 53});
  return framed(Program::pod_egress, layers);
}

// What most packets on an uplink are: nothing of a pod's.
template <Program program>
Octets of_nobody(unsigned number) {
  Ip header = in(Family::v4, number);
  header.dst = addresses(Family::v4).node;
  if (program == Program::uplink_egress) header = {.src = header.src, .dst = outside(Family::v4, number + 1)};
  return framed(program, {header, Udp{53, port_number(number)}, Raw{26}});
}

struct Way {
  const char* name;
  Program program;
  pdl_verdict verdict;
  Make make;
  unsigned device = 0;  // 0: the program's usual one
};

constexpr Program egress = Program::pod_egress;
constexpr Program ingress = Program::uplink_ingress;
constexpr Program late = Program::uplink_egress;

constexpr std::array ways{
    Way{"IPv4 UDP", egress, PDL_VERDICT_redirected, plain<egress, Udp, Family::v4>},
    Way{"IPv4 TCP", egress, PDL_VERDICT_redirected, plain<egress, Tcp, Family::v4>},
    Way{"IPv4 TCP, SYN", egress, PDL_VERDICT_redirected, connecting<egress, Family::v4>},
    Way{"IPv4 ICMP error", egress, PDL_VERDICT_redirected, error<egress, Family::v4>},
    Way{"IPv4 UDP, the last of 8 claimed link-local prefixes", egress, PDL_VERDICT_redirected, claimed_link_local},
    Way{"IPv6 UDP", egress, PDL_VERDICT_redirected, plain<egress, Udp, Family::v6>},
    Way{"IPv6 TCP", egress, PDL_VERDICT_redirected, plain<egress, Tcp, Family::v6>},
    Way{"IPv6 TCP, SYN", egress, PDL_VERDICT_redirected, connecting<egress, Family::v6>},
    Way{"IPv6 ICMP error", egress, PDL_VERDICT_redirected, error<egress, Family::v6>},
    Way{"IPv6 UDP behind 8 extension headers", egress, PDL_VERDICT_redirected, extended},
    Way{"IPv4 UDP", ingress, PDL_VERDICT_in_redirected, plain<ingress, Udp, Family::v4>},
    Way{"IPv4 TCP", ingress, PDL_VERDICT_in_redirected, plain<ingress, Tcp, Family::v4>},
    Way{"IPv4 TCP, SYN", ingress, PDL_VERDICT_in_redirected, connecting<ingress, Family::v4>},
    Way{"IPv4 ICMP error", ingress, PDL_VERDICT_in_redirected, error<ingress, Family::v4>},
    Way{"IPv6 UDP", ingress, PDL_VERDICT_in_redirected, plain<ingress, Udp, Family::v6>},
    Way{"IPv6 TCP", ingress, PDL_VERDICT_in_redirected, plain<ingress, Tcp, Family::v6>},
    Way{"IPv6 TCP, SYN", ingress, PDL_VERDICT_in_redirected, connecting<ingress, Family::v6>},
    Way{"IPv6 ICMP error", ingress, PDL_VERDICT_in_redirected, error<ingress, Family::v6>},
    Way{"for no pod", ingress, PDL_VERDICT_in_no_pod, of_nobody<ingress>},
    Way{"IPv4 UDP of a pod, to its home", late, PDL_VERDICT_late_redirected, plain<late, Udp, Family::v4>},
    Way{"IPv6 UDP of a pod, to its home", late, PDL_VERDICT_late_redirected, plain<late, Udp, Family::v6>},
    Way{"IPv4 UDP of a pod, on its home", late, PDL_VERDICT_late_passed, plain<late, Udp, Family::v4>, kUplink1},
    Way{"IPv6 UDP of a pod, on its home", late, PDL_VERDICT_late_passed, plain<late, Udp, Family::v6>, kUplink1},
    Way{"of no pod", late, PDL_VERDICT_late_passed, of_nobody<late>},
};

// ---- measuring ----

unsigned device_of(Program program) {
  if (program == Program::pod_egress) return kVethA;
  return program == Program::uplink_ingress ? kUplink1 : kUplink2;
}

// Mean of the repetitions, ns.
double run(int program_fd, unsigned device, const Octets& frame, unsigned times = repetitions) {
  __sk_buff context{};
  context.ifindex = device;
  context.ingress_ifindex = kVethA;
  std::array<std::uint8_t, 1024> after{};
  LIBBPF_OPTS(bpf_test_run_opts, options);
  options.data_in = frame.data();
  options.data_size_in = static_cast<__u32>(frame.size());
  options.data_out = after.data();
  options.data_size_out = after.size();
  options.ctx_in = &context;
  options.ctx_size_in = sizeof(context);
  options.repeat = static_cast<int>(times);
  if (bpf_prog_test_run_opts(program_fd, &options) != 0) throw std::runtime_error("test run");
  return options.duration;
}

// Of packets whose flows are settled: one of each goes before.
double mean_ns(int program_fd, unsigned device, const std::vector<Octets>& frames) {
  double sum = 0;
  for (const Octets& frame : frames) run(program_fd, device, frame, 1);
  for (const Octets& frame : frames) sum += run(program_fd, device, frame);
  return sum / static_cast<double>(frames.size());
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

Subject subject_of(const std::string& metric, Program program, const char* way) {
  return {.section = "programs",
          .metric = metric,
          .unit = "ns",
          .variant = "poduplink",
          .parameters = {{"program", program_name(program)}, {"way", way}}};
}

// Throws where a packet did not end as its way says: that would be another way's number.
double sample(const Datapath& datapath, const Way& way, const std::vector<Octets>& frames) {
  const auto counted = [&] {
    const pdl_verdicts all = datapath.verdicts();
    std::array<__u64, PDL_VERDICT_COUNT> counters{};
    std::memcpy(counters.data(), &all, sizeof(all));
    return counters.at(way.verdict);
  };
  const __u64 before = counted();
  const double ns =
      mean_ns(datapath.program_fd(way.program), way.device != 0 ? way.device : device_of(way.program), frames);
  if (counted() - before != (__u64{repetitions} + 1) * frames.size())
    throw std::runtime_error(
        formatted("{}, {}: not every packet ended as it has to", program_name(way.program), way.name));
  return ns;
}

// Each way's time, and by how much it is above the empty program's of the same round.
std::vector<Series> measure(const Datapath& datapath, const Request& request) {
  const Fd empty = empty_program();
  std::vector<std::vector<Octets>> frames;
  for (const Way& way : ways) {
    frames.emplace_back();
    for (unsigned number = 0; number < flows; ++number) frames.back().push_back(way.make(number));
  }
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const Way& way = ways.at(i);
    candidates.push_back({.subject = subject_of("a packet", way.program, way.name),
                          .sample = [&, i] { return sample(datapath, ways.at(i), frames.at(i)); }});
  }
  candidates.push_back(
      {.subject = {.section = "programs", .metric = "a packet", .unit = "ns", .variant = "an empty program"},
       .sample = [&] { return mean_ns(empty.get(), kVethA, frames.front()); }});
  std::vector<Series> series = in_turns(request, "programs", candidates);
  const std::vector<double> nothing = series.back().samples;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    Series more = series.at(i);
    more.subject.metric = "a packet, more than an empty program";
    for (std::size_t round = 0; round < more.samples.size(); ++round) more.samples.at(round) -= nothing.at(round);
    series.push_back(std::move(more));
  }
  return series;
}

std::vector<Series> instructions(const Datapath& datapath) {
  std::vector<Series> series;
  for (const Program program : {egress, ingress, late}) {
    bpf_prog_info info{};
    __u32 size = sizeof(info);
    if (bpf_obj_get_info_by_fd(datapath.program_fd(program), &info, &size) != 0)
      throw std::runtime_error("bpf_prog_info");
    const auto add = [&](const char* what, __u32 count) {
      series.push_back({.subject = {.section = "programs",
                                    .metric = what,
                                    .unit = "instructions",
                                    .variant = "poduplink",
                                    .parameters = {{"program", program_name(program)}}},
                        .samples = {static_cast<double>(count)}});
    };
    add("program size", info.xlated_prog_len / unsigned{sizeof(bpf_insn)});
    add("walked by the verifier", info.verified_insns);
  }
  return by_metric(series);
}

}  // namespace

std::vector<Series> bench_programs(const Request& request) {
  request.progress("programs: filling maps and connection tracking");
  const NetnsScope back =
      must(NetnsScope::enter(must(open_netns("/proc/thread-self/ns/net")).get()));  // it enters one of its own
  const Datapath datapath({}, false);
  fill_maps(datapath);
  fill_conntrack();
  std::vector<Series> series = measure(datapath, request);
  std::ranges::move(instructions(datapath), std::back_inserter(series));
  return series;
}

}  // namespace poduplink::bench
