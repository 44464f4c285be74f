// SPDX-License-Identifier: Apache-2.0
// Millions of random packets at each program. What becomes of each is compared with the oracle, and besides with
// what holds for any packet at all.
//
//   PDL_FUZZ_SEED=n      another seed than the fixed one
//   PDL_FUZZ_PACKETS=n   for each program
//   PDL_FUZZ_INDEX=n     this packet alone, and it is printed (with a test's name, for its program)
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>

#include "maps/tables.h"
#include "tests/bpf/fuzz_packets.h"
#include "tests/bpf/situation.h"

namespace poduplink::tests {
namespace {

constexpr std::uint64_t default_seed = 20240229;
constexpr std::uint64_t full_packets = 2'000'000;
#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t default_packets = 100'000;  // it is the C++ side that the sanitizers look at
#else
constexpr std::uint64_t default_packets = full_packets;
#endif
constexpr std::size_t most_failures = 12;
constexpr std::size_t most_printed = 256;

std::optional<std::uint64_t> number(const char* variable) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) return {};
  return std::stoull(text);
}

std::string hex(const Octets& octets) {
  std::ostringstream out;
  out << std::hex;
  for (std::size_t i = 0; i < std::min(octets.size(), most_printed); ++i) {
    out << (i % 32 == 0 ? "\n    " : " ") << (octets[i] < 16 ? "0" : "") << unsigned{octets[i]};
  }
  return out.str();
}

std::string text_of(const Input& input) {
  std::ostringstream out;
  out << program_name(input.program) << " on " << input.ifindex << " from " << input.ingress_ifindex << ", gso_size "
      << input.gso_size << ", " << input.frame.size() << " octets:" << hex(input.frame);
  return out.str();
}

std::string text_of(const oracle::Decision& decision) {
  std::ostringstream out;
  out << verdict_name(decision.verdict) << ", ending " << static_cast<int>(decision.ending) << ", target "
      << decision.target << ", flags " << decision.flags << ", next hop "
      << (decision.next_hop ? decision.next_hop->text() : "none");
  return out.str();
}

std::string text_of(const Output& output) {
  std::ostringstream out;
  for (const unsigned verdict : output.verdicts) out << verdict_name(verdict) << " ";
  out << ", action " << output.action << ", kind " << output.redirect.kind << ", target " << output.redirect.ifindex
      << ", flags " << output.redirect.flags;
  return out.str();
}

// The difference between the two, in a word; empty where there is none.
std::string difference(const oracle::Decision& expected, const Output& got, bool records) {
  if (got.verdicts.size() != 1) return "not one verdict";
  if (got.verdicts.front() != expected.verdict) return "verdict " + verdict_name(got.verdicts.front());
  if (got.action != oracle::action_of(expected.ending)) return "action";
  if (expected.ending != oracle::Ending::drop && got.frame != expected.frame) return "frame";
  if (!records) return {};
  if (got.redirect.kind != oracle::kind_of(expected.ending)) return "helper";
  if (got.redirect.ifindex != expected.target) return "interface";
  if (got.redirect.flags != expected.flags) return "flags";
  if (expected.next_hop) {
    const bool v4 = got.redirect.nh_family == AF_INET;
    const auto octets = std::span(got.redirect.nh).first(v4 ? 4 : 16);
    if (IpAddress::from_octets(octets).value() != *expected.next_hop) return "next hop";
  }
  return {};
}

// ---- what holds for any packet, without the oracle ----

bool is_answer(unsigned verdict) {
  return verdict == PDL_VERDICT_neighbour || verdict == PDL_VERDICT_in_neighbour || verdict == PDL_VERDICT_too_big ||
         verdict == PDL_VERDICT_late_too_big;
}

// The pod that a redirect is for or from has an entry, and it is on this veth.
bool has_entry(const Input& input, const oracle::State& state) {
  if (input.program == Program::pod_egress) {
    const auto pod = state.pods.find(src_of(input.frame));
    return pod != state.pods.end() && pod->second.veth == input.ifindex;
  }
  if (input.program == Program::uplink_ingress) return state.pods.contains(dst_of(input.frame));
  return state.pods.contains(src_of(input.frame)) || state.nodes.contains(src_of(input.frame));
}

// Nothing but MACs, TTL and IPv4 checksum differs.
bool same_but_routed(const Octets& before, const Octets& after) {
  if (before.size() != after.size()) return false;
  const bool v4 = before.at(12) == 0x08;
  Octets restored = after;
  std::copy_n(before.begin(), 12, restored.begin());
  restored.at(v4 ? 22 : 21) = before.at(v4 ? 22 : 21);
  if (v4) std::copy_n(before.begin() + 24, 2, restored.begin() + 24);
  return restored == before;
}

std::string broken_rule(const Input& input, const Output& got, const oracle::State& state) {
  if (got.verdicts.size() != 1) return "not one verdict";
  const unsigned verdict = got.verdicts.front();
  if (got.action == TC_ACT_UNSPEC) return got.frame == input.frame ? "" : "passed and changed";
  if (got.action == TC_ACT_SHOT) return {};
  if (got.action != TC_ACT_REDIRECT) return "another action";
  if (verdict == PDL_VERDICT_neighbour || verdict == PDL_VERDICT_in_neighbour) return {};
  if (!has_entry(input, state)) return "a redirect without an entry";
  if (!is_answer(verdict) && !same_but_routed(input.frame, got.frame)) return "changed";
  return {};
}

// ---- the run ----

struct Loaded {
  std::unique_ptr<Datapath> datapath;
  oracle::State state;
  oracle::Stats stats;
};

Loaded load(const Config& config, bool recorded) {
  Loaded loaded{.datapath = std::make_unique<Datapath>(config, recorded, Counters::mapped)};
  fill_fuzz_world(*loaded.datapath);
  loaded.state = fuzz_state(*loaded.datapath);
  return loaded;
}

// Every configuration, as shipped and with the helpers that write their arguments down.
std::vector<Loaded> load_all() {
  std::vector<Loaded> all;
  for (const bool recorded : {false, true}) {
    all.push_back(load({.conntrack = true, .steer_node = false}, recorded));
    all.push_back(load({.conntrack = true, .steer_node = true}, recorded));
  }
  all.push_back(load({.conntrack = false, .steer_node = false}, false));
  return all;
}

class Run {
 public:
  explicit Run(Program program) : program_(program), loaded_(load_all()), maker_(loaded_.front().state) {}

  void packet(std::uint64_t index, bool print = false) {
    Loaded& loaded = loaded_.at(index % loaded_.size());
    const Input input = maker_.make(seed_, program_, index);
    const oracle::Skb skb = oracle::skb_of(input);
    const oracle::Decision expected = decide(program_, skb, loaded.state);
    ++seen_[situation_of(program_, skb, loaded.state, expected.verdict)];
    Output got;
    std::string fault;
    // What was direct comes once more, when its flow is remembered.
    const bool direct = expected.verdict == PDL_VERDICT_redirected || expected.verdict == PDL_VERDICT_to_pod ||
                        expected.verdict == PDL_VERDICT_in_redirected ||
                        expected.verdict == PDL_VERDICT_in_other_uplink;
    for (int time = 0; time < (direct ? 2 : 1) && fault.empty(); ++time) {
      got = loaded.datapath->run(input);
      count(program_, skb, expected, loaded.stats);
      fault = broken_rule(input, got, loaded.state);
      if (fault.empty()) fault = difference(expected, got, loaded.datapath->records());
    }
    if (fault.empty() && !print) return;
    if (!print && !faults_.insert(verdict_name(expected.verdict) + "/" + fault).second) return;
    std::cout << "packet " << index << " of seed " << seed_ << ": " << (fault.empty() ? "as expected" : fault) << "\n  "
              << text_of(input) << "\n  oracle:  " << text_of(expected) << "\n  program: " << text_of(got);
    if (expected.frame != got.frame)
      std::cout << "\n  oracle: " << hex(expected.frame) << "\n  program: " << hex(got.frame);
    std::cout << "\n";
    if (!fault.empty()) FAIL_CHECK("packet " << index << " of seed " << seed_ << ": " << fault);
  }

  void check_all() {
    if (const auto index = number("PDL_FUZZ_INDEX")) {
      packet(*index, true);
      return;
    }
    const std::uint64_t packets = number("PDL_FUZZ_PACKETS").value_or(default_packets);
    std::cout << program_name(program_) << ": " << packets << " packets, seed " << seed_ << "\n";
    for (std::uint64_t index = 0; index < packets && faults_.size() < most_failures; ++index) packet(index);
    check_stats();
    if (packets >= full_packets) check_reach();
    SUCCEED();
  }

 private:
  // What the programs counted for each uplink is what the oracle counted.
  void check_stats() const {
    if (!faults_.empty()) return;
    for (const Loaded& loaded : loaded_) {
      for (const unsigned uplink : {kUplink1, kUplink2, kTransit, kStrict}) {
        const auto found = loaded.stats.find(uplink);
        const pdl_uplink_stats expected = found == loaded.stats.end() ? pdl_uplink_stats{} : found->second;
        const pdl_uplink_stats got = loaded.datapath->stats(uplink);
        INFO("uplink " << uplink);
        CHECK(got.out_packets == expected.out_packets);
        CHECK(got.out_bytes == expected.out_bytes);
        CHECK(got.in_packets == expected.in_packets);
        CHECK(got.in_bytes == expected.in_bytes);
        CHECK(got.out_redirects == expected.out_redirects);
        CHECK(got.late_redirects == expected.late_redirects);
        CHECK(got.in_redirects == expected.in_redirects);
      }
    }
  }

  // The packets are worth something: they meet each verdict in every family and mode, many times.
  void check_reach() const {
    const std::set<Situation> possible = possible_situations();
    for (const Situation& situation : possible) {
      if (program_of(situation.verdict) != program_) continue;
      const auto seen = seen_.find(situation);
      INFO(text_of(situation) << ": " << (seen == seen_.end() ? 0 : seen->second));
      CHECK((seen != seen_.end() && seen->second >= 20));
    }
    for (const auto& [situation, times] : seen_) {
      INFO(text_of(situation) << ": " << times);
      CHECK(possible.contains(situation));
    }
  }

  Program program_;
  std::uint64_t seed_ = number("PDL_FUZZ_SEED").value_or(default_seed);
  std::vector<Loaded> loaded_;
  PacketMaker maker_;
  std::map<Situation, std::uint64_t> seen_;
  std::set<std::string> faults_;
};

void fuzz(Program program) {
  if (geteuid() != 0) SKIP("loading BPF programs needs root");
  Run(program).check_all();
}

}  // namespace

TEST_CASE("pod_egress does with any packet what the oracle says") { fuzz(Program::pod_egress); }
TEST_CASE("uplink_ingress does with any packet what the oracle says") { fuzz(Program::uplink_ingress); }
TEST_CASE("uplink_egress does with any packet what the oracle says") { fuzz(Program::uplink_egress); }

}  // namespace poduplink::tests
