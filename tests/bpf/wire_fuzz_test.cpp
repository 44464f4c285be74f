// SPDX-License-Identifier: Apache-2.0
// Random packets as in fuzz_test.cpp, but on real devices: headers in pages, tags beside the frame, and frames to
// other MACs, 10,000 of each at each program. The counters are compared with the oracle's, batch by batch. The
// programs are those whose redirect helpers only write their arguments down, so that nothing travels on.
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "maps/tables.h"
#include "tests/bpf/fuzz_packets.h"
#include "tests/bpf/oracle_packet.h"
#include "tests/bpf/wire.h"

namespace poduplink::tests {
namespace {

constexpr std::uint64_t seed = 20240301;
constexpr std::size_t packets = 10'000;
constexpr std::size_t batch_size = 50;  // divides `packets`
constexpr std::size_t ethernet_octets = 14;
constexpr std::size_t tag_octets = 4;

enum class Kind { pages, tagged, foreign_mac };

void shell(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);  // NOLINT(cert-env33-c)
}

using Counts = std::array<std::uint64_t, PDL_VERDICT_COUNT>;

Counts counts(const Datapath& datapath) {
  const pdl_verdicts verdicts = datapath.verdicts();
  Counts counts{};
#define PDL_X(name, text) counts.at(PDL_VERDICT_##name) = verdicts.name;
  PDL_VERDICTS(PDL_X)
#undef PDL_X
  return counts;
}

std::uint64_t total(const Counts& counts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) sum += count;
  return sum;
}

Octets insert_tag(const Octets& frame, std::uint16_t type, std::uint16_t tag) {
  Octets tagged(frame.begin(), frame.begin() + 12);
  for (const unsigned word : {unsigned{type}, unsigned{tag}}) {
    tagged.push_back(static_cast<std::uint8_t>(word >> 8U));
    tagged.push_back(static_cast<std::uint8_t>(word));
  }
  tagged.insert(tagged.end(), frame.begin() + 12, frame.end());
  return tagged;
}

bool is_tagged(const Octets& frame) {
  const std::uint16_t type = oracle::word(frame, 12);
  return type == 0x8100 || type == 0x88a8;
}

// What a device makes of a frame that it receives: the kernel takes the outermost tag out of it.
oracle::Skb received(const Octets& frame, unsigned device) {
  oracle::Skb skb{.frame = frame, .ifindex = device, .ingress_ifindex = device};
  if (is_tagged(frame)) {
    skb.tag = oracle::word(frame, 14) & 0xfffU;
    skb.frame.erase(skb.frame.begin() + 12, skb.frame.begin() + 12 + tag_octets);
  }
  skb.protocol = oracle::protocol_of(skb.frame);
  skb.type = oracle::type_of(frame, mac_of_device(device));
  return skb;
}

// And one that a packet socket sends there.
oracle::Skb sent(const Octets& frame, unsigned device, const std::optional<std::uint16_t>& tag) {
  return {.frame = frame, .ifindex = device, .protocol = oracle::word(frame, 12), .tag = tag};
}

class WireRun {
 public:
  WireRun(Program program, unsigned device, Kind kind)
      : program_(program), device_(device), kind_(kind), datapath_({.steer_node = true}, true) {
    fill_fuzz_world(datapath_);
    state_ = fuzz_state(datapath_);
    maker_.emplace(state_);
    attached_.emplace(datapath_, program, device);
  }

  void check() {
    const bool tagger = kind_ == Kind::tagged && program_ == Program::uplink_egress;
    if (tagger) attached_->tag_frames();
    const Sender sender(attached_->sending_end());
    PageSender pages(attached_->sending_end());
    for (std::size_t first = 0; first < packets; first += batch_size) {
      Counts expected = counts(datapath_);
      for (std::size_t index = first; index < first + batch_size; ++index) {
        const Octets made = frame(index);
        const auto tag = tagger ? std::optional(static_cast<std::uint16_t>(index % 3)) : std::nullopt;
        const oracle::Skb skb = program_ == Program::uplink_egress ? sent(made, device_, tag) : received(made, device_);
        ++expected.at(decide(program_, skb, state_).verdict);
        if (tag) sender.set_mark(*tag);
        if (kind_ == Kind::pages) {
          pages.send(made);
        } else {
          sender.send(made);
        }
      }
      if (!check_counts(expected, first)) return;
    }
  }

 private:
  Octets frame(std::size_t index) {
    Random random(seed + index);
    Input input;
    // Made for any of a program's devices; here is one.
    for (std::uint64_t attempt = 0; input.ifindex != device_; ++attempt) {
      input = maker_->make(seed, program_, (index * 1000) + attempt);
    }
    Octets& made = input.frame;
    if (random.one_in(8)) made.resize(ethernet_octets + random.below(60));
    if (kind_ == Kind::foreign_mac) {
      constexpr std::array<std::uint8_t, 4> first_octets{0x02, 0x06, 0x33, 0xff};
      const std::uint8_t octet = random.pick(first_octets);
      std::fill_n(made.begin(), 6, octet == 0xff ? octet : static_cast<std::uint8_t>(random.below(256)));
      made.at(0) = octet;
    }
    if (kind_ == Kind::tagged && program_ != Program::uplink_egress) {
      const auto tag = static_cast<std::uint16_t>(random.pick({0U, 1U, 5U, 0xfffU}) | (random.below(8) << 13U));
      made = insert_tag(made, random.one_in(4) ? 0x88a8 : 0x8100, tag);
    }
    // The kernel itself drops a tag with nothing behind it.
    if (is_tagged(made)) made.resize(std::max<std::size_t>(made.size(), ethernet_octets + 6));
    return made;
  }

  // False after the first batch that differs.
  [[nodiscard]] bool check_counts(const Counts& expected, std::size_t first) const {
    for (int i = 0; i < 1000 && total(counts(datapath_)) < total(expected); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const Counts got = counts(datapath_);
    for (std::size_t verdict = 0; verdict < expected.size(); ++verdict) {
      INFO("packets from " << first << " on, " << verdict_name(static_cast<unsigned>(verdict)));
      CHECK(got.at(verdict) == expected.at(verdict));
    }
    return got == expected;
  }

  Program program_;
  unsigned device_;
  Kind kind_;
  Datapath datapath_;
  oracle::State state_;
  std::optional<PacketMaker> maker_;
  std::optional<Attached> attached_;
};

// The devices say nothing of their own accord, and take large frames.
void prepare_devices() {
  static bool done = false;
  if (done) return;
  done = true;
  enter_world();
  shell("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
  for (const char* name : {"vetha", "up21"}) {
    for (const char* end : {"", "p"}) shell("ip link set dev " + std::string(name) + end + " mtu 4000");
  }
}

void fuzz(Kind kind) {
  if (geteuid() != 0) SKIP("attaching BPF programs needs root");
  prepare_devices();
  for (const auto& [program, device] :
       {std::pair{Program::pod_egress, unsigned{kVethA}}, std::pair{Program::uplink_ingress, unsigned{kUplink1}},
        std::pair{Program::uplink_egress, unsigned{kUplink1}}}) {
    INFO(program_name(program) << ", seed " << seed);
    WireRun(program, device, kind).check();
  }
}

}  // namespace

TEST_CASE("random packets whose headers lie in pages") { fuzz(Kind::pages); }
TEST_CASE("random packets with a VLAN tag beside the frame") { fuzz(Kind::tagged); }
TEST_CASE("random packets to other MACs") { fuzz(Kind::foreign_mac); }

}  // namespace poduplink::tests
