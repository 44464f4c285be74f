// SPDX-License-Identifier: Apache-2.0
// Every case on the object that is shipped and on the build that records redirects.
#include <linux/pkt_cls.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>

#include "maps/tables.h"
#include "tests/bpf/cases.h"

namespace poduplink::tests {
namespace {

void need_root() {
  if (geteuid() != 0) SKIP("loading BPF programs needs root");
}

int action_of(Fate fate) {
  switch (fate) {
    case Fate::stack:
      return TC_ACT_UNSPEC;
    case Fate::drop:
      return TC_ACT_SHOT;
    default:
      return TC_ACT_REDIRECT;
  }
}

std::uint32_t kind_of(Fate fate) {
  switch (fate) {
    case Fate::uplink:
      return RECORDED_NEIGH;
    case Fate::pod:
    case Fate::sender:
      return RECORDED_PEER;
    case Fate::answer:
    case Fate::host:
      return RECORDED_PLAIN;
    default:
      return RECORDED_NONE;
  }
}

IpAddress next_hop_of(const recorded& redirect) {
  const std::size_t size = redirect.nh_family == AF_INET ? 4 : 16;
  return IpAddress::from_octets(std::span(redirect.nh).first(size)).value();
}

void check_frame(const Case& test, const Output& output) {
  const Octets& before = test.input.frame;
  const Octets& after = output.frame;
  switch (test.fate) {
    case Fate::drop:
      return;
    case Fate::stack:
      CHECK(after == before);
      return;
    case Fate::answer:
    case Fate::sender:
    case Fate::host:
      CHECK(after == test.answer);
      return;
    case Fate::uplink:
    case Fate::pod:
      break;
  }
  REQUIRE(after.size() == before.size());
  CHECK(ttl_of(after) == ttl_of(before) - (test.routed ? 1 : 0));
  CHECK(ip_checksum_ok(after) == ip_checksum_ok(before));
  if (test.fate == Fate::pod) {
    CHECK(src_mac_of(after) == host_mac());
    CHECK(dst_mac_of(after) == pod_mac(test.target));
  }
  // Nothing else has changed: put the known changes back and compare.
  Octets restored = after;
  const bool v6 = before.at(12) == 0x86;
  std::copy_n(before.begin(), 12, restored.begin());
  restored.at(v6 ? 21 : 22) = ttl_of(before);
  if (!v6) std::copy_n(before.begin() + 24, 2, restored.begin() + 24);
  CHECK(restored == before);
}

void check_case(const Datapath& datapath, const Case& test) {
  INFO(program_name(test.input.program) << ": " << test.name << (datapath.records() ? " (recorded)" : ""));
  const Output output = datapath.run(test.input);
  std::string verdicts;
  for (const unsigned verdict : output.verdicts) verdicts += verdict_name(verdict) + " ";
  INFO("expected " << verdict_name(test.verdict) << ", got " << verdicts);
  CHECK(output.verdicts == std::vector<unsigned>{test.verdict});
  CHECK(output.action == action_of(test.fate));
  check_frame(test, output);
  if (!datapath.records()) return;
  CHECK(output.redirect.kind == kind_of(test.fate));
  CHECK(output.redirect.ifindex == test.target);
  CHECK(output.redirect.flags == (test.fate == Fate::host ? BPF_F_INGRESS : 0));
  if (test.fate == Fate::uplink) {
    CHECK(output.redirect.nh_size == sizeof(bpf_redir_neigh));
    CHECK(next_hop_of(output.redirect).text() == test.next_hop.value().text());
  }
}

// Loads once for each configuration that the cases ask for.
class Datapaths {
 public:
  explicit Datapaths(bool recorded) : recorded_(recorded) {}
  const Datapath& with(const Config& config) {
    auto& slot = loaded_[{config.conntrack, config.steer_node}];
    if (!slot) slot = std::make_unique<Datapath>(config, recorded_);
    return *slot;
  }

 private:
  bool recorded_;
  std::map<std::pair<bool, bool>, std::unique_ptr<Datapath>> loaded_;
};

void check_all(bool recorded) {
  need_root();
  Datapaths datapaths(recorded);
  // The second time, flows that are direct are remembered.
  for (int time = 0; time < 2; ++time) {
    for (const Case& test : all_cases()) check_case(datapaths.with(test.config), test);
  }
}

}  // namespace

TEST_CASE("the object that is shipped treats every packet as the contract says") { check_all(false); }

TEST_CASE("D87: every redirect names the right interface and, explicitly, the next hop") { check_all(true); }

TEST_CASE("D88: no program asks for a packet's mark or changes it") {
  need_root();
  Datapaths datapaths(true);
  for (const Case& test : all_cases()) {
    INFO(program_name(test.input.program) << ": " << test.name);
    Input marked = test.input;
    marked.mark = 0xdeadbeef;
    const Output output = datapaths.with(test.config).run(marked);
    CHECK(output.verdicts == std::vector<unsigned>{test.verdict});
    CHECK(output.mark == marked.mark);
  }
}

TEST_CASE("a checksum that was wrong before stays wrong by as much") {
  need_root();
  const Datapath datapath({}, false);
  const Addresses& a = addresses(Family::v4);
  Input input{.program = Program::pod_egress,
              .ifindex = kVethA,
              .frame = from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, Udp{1, 2}}};
  input.frame.at(24) ^= 0x10U;
  const Output output = datapath.run(input);
  CHECK(output.action == TC_ACT_REDIRECT);
  CHECK_FALSE(ip_checksum_ok(output.frame));
}

TEST_CASE("the checksum is right for every TTL") {
  need_root();
  const Datapath datapath({}, false);
  const Addresses& a = addresses(Family::v4);
  for (unsigned ttl = 2; ttl < 256; ++ttl) {
    // Another port each time, so that the header's checksum varies with the source address.
    const Output output = datapath.run(
        {.program = Program::uplink_ingress,
         .ifindex = kUplink1,
         .frame = to_uplink(kUplink1) + std::vector<Layer>{Ip{IpAddress::v4(std::array<std::uint8_t, 4>{
                                                                  198, 51, static_cast<std::uint8_t>(ttl), 254}),
                                                              a.pod, static_cast<std::uint8_t>(ttl)},
                                                           Udp{1, 2}}});
    INFO("TTL " << ttl);
    REQUIRE(output.action == TC_ACT_REDIRECT);
    REQUIRE(ttl_of(output.frame) == ttl - 1);
    REQUIRE(ip_checksum_ok(output.frame));
  }
}

TEST_CASE("an uplink's counters tell what left and arrived") {
  need_root();
  const Datapath datapath({}, false);
  const Addresses& a = addresses(Family::v6);
  const auto send = [&](Program program, unsigned ifindex, const Ethernet& eth, const IpAddress& src,
                        const IpAddress& dst) {
    const Octets frame = eth + std::vector<Layer>{Ip{src, dst}, Udp{1, 2}, Raw{38}};
    REQUIRE(frame.size() == 100);
    (void)datapath.run({.program = program, .ifindex = ifindex, .frame = frame});
  };
  send(Program::pod_egress, kVethA, from_pod(), a.pod, a.outside);
  send(Program::uplink_egress, kUplink1, on_wire(), a.pod, a.outside);
  send(Program::uplink_egress, kUplink2, on_wire(), a.pod, a.outside);
  send(Program::uplink_egress, kUplink2, on_wire(), a.outside, a.nat_backend);
  send(Program::uplink_ingress, kUplink2, to_uplink(kUplink2), a.outside, a.pod);
  send(Program::uplink_ingress, kUplink2, to_uplink(kUplink2), a.exempt, a.pod);
  send(Program::uplink_ingress, kUplink2, to_uplink(kUplink2), a.outside, a.node);

  const pdl_uplink_stats home = datapath.stats(kUplink1);
  CHECK(home.out_redirects == 1);
  CHECK(home.late_redirects == 1);
  CHECK(home.out_packets == 1);
  CHECK(home.out_bytes == 100);
  CHECK(home.in_packets == 0);
  const pdl_uplink_stats other = datapath.stats(kUplink2);
  CHECK(other.in_packets == 2);
  CHECK(other.in_bytes == 200);
  CHECK(other.in_redirects == 1);
  CHECK(other.out_packets == 0);
  CHECK(other.out_redirects == 0);
}

namespace {

std::vector<pdl_event> events_of(const Datapath& datapath) {
  std::vector<pdl_event> events;
  ring_buffer* ring = ring_buffer__new(
      datapath.map_fd("events"),
      [](void* to, void* data, size_t size) {
        pdl_event event{};
        if (size == sizeof(event)) {
          std::copy_n(static_cast<const char*>(data), size, reinterpret_cast<char*>(&event));  // NOLINT
          static_cast<std::vector<pdl_event>*>(to)->push_back(event);
        }
        return 0;
      },
      &events, nullptr);
  REQUIRE(ring != nullptr);
  ring_buffer__consume(ring);
  ring_buffer__free(ring);
  return events;
}

}  // namespace

TEST_CASE("a packet for a gateway that does not answer is told as well") {
  need_root();
  const Addresses& a = addresses(Family::v4);
  const std::vector<Layer> layers{Ip{a.silent, a.outside}, Udp{1000, 53}};
  for (const Input& input :
       {Input{.program = Program::pod_egress, .ifindex = kVethA, .frame = from_pod() + layers},
        Input{.program = Program::uplink_egress, .ifindex = kUplink2, .frame = on_wire() + layers}}) {
    const Datapath datapath({}, false);
    (void)datapath.run(input);
    const std::vector<pdl_event> events = events_of(datapath);
    REQUIRE(events.size() == 1);
    const pdl_event& event = events.front();
    CHECK(event.verdict ==
          (input.program == Program::pod_egress ? PDL_VERDICT_gateway_silent : PDL_VERDICT_late_gateway_silent));
    CHECK(event.ifindex == input.ifindex);
    CHECK(event.sport == 1000);
    CHECK(event.dport == 53);
    CHECK(std::equal(event.src, event.src + 4, a.silent.octets().begin()));
    CHECK(std::equal(event.dst, event.dst + 4, a.outside.octets().begin()));
    const pdl_uplink_stats stats = datapath.stats(kUplink1);
    CHECK(stats.out_redirects + stats.late_redirects == 1);
  }
}

TEST_CASE("a drop is told with its addresses and ports, and no more than the limit") {
  need_root();
  const Datapath datapath({}, false);
  const Addresses& a = addresses(Family::v6);
  const Input input{.program = Program::pod_egress,
                    .ifindex = kVethA,
                    .frame = from_pod() + std::vector<Layer>{Ip{a.other, a.outside}, Udp{1000, 53}}};
  for (int i = 0; i < 300; ++i) (void)datapath.run(input);
  const std::vector<pdl_event> events = events_of(datapath);

  CHECK(datapath.verdicts().spoofed == 300);
  REQUIRE_FALSE(events.empty());
  CHECK(events.size() <= 200);  // 100 in a second, and the runs may lie in two of them
  const pdl_event& event = events.front();
  CHECK(event.verdict == PDL_VERDICT_spoofed);
  CHECK(event.ifindex == kVethA);
  CHECK(event.length == input.frame.size());
  CHECK(event.family == 6);
  CHECK(event.protocol == 17);
  CHECK(event.sport == 1000);
  CHECK(event.dport == 53);
  CHECK(std::ranges::equal(event.src, a.other.octets()));
  CHECK(std::ranges::equal(event.dst, a.outside.octets()));
  CHECK(event.time_ns != 0);
}

}  // namespace poduplink::tests
