// SPDX-License-Identifier: Apache-2.0
// The tables and the oracle are two forms of one contract: they must say the same.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "maps/tables.h"
#include "tests/bpf/cases.h"
#include "tests/bpf/oracle_state.h"
#include "tests/bpf/situation.h"

namespace poduplink::tests {
namespace {

oracle::Ending ending_of(Fate fate) {
  switch (fate) {
    case Fate::stack:
      return oracle::Ending::stack;
    case Fate::drop:
      return oracle::Ending::drop;
    case Fate::uplink:
      return oracle::Ending::redirect_neigh;
    case Fate::pod:
    case Fate::sender:
      return oracle::Ending::redirect_peer;
    case Fate::answer:
    case Fate::host:
      return oracle::Ending::redirect;
  }
  return {};
}

}  // namespace

TEST_CASE("the oracle says of every case what the table says") {
  if (geteuid() != 0) SKIP("loading BPF programs needs root");
  const Datapath datapath({}, false);
  oracle::State state = oracle::read_state(datapath);
  for (const Case& test : all_cases()) {
    INFO(program_name(test.input.program) << ": " << test.name);
    state.config = test.config;
    const oracle::Decision decision = decide(test.input.program, oracle::skb_of(test.input), state);
    CHECK(verdict_name(decision.verdict) == verdict_name(test.verdict));
    CHECK(decision.ending == ending_of(test.fate));
    CHECK(decision.target == test.target);
    if (test.fate == Fate::uplink) CHECK(decision.next_hop == test.next_hop);
    if (test.answer) CHECK(decision.frame == test.answer);
    if (test.fate == Fate::stack) CHECK(decision.frame == test.input.frame);
  }
}

TEST_CASE("every verdict has a case of each family and mode that it can have") {
  if (geteuid() != 0) SKIP("loading BPF programs needs root");
  const Datapath datapath({}, false);
  const oracle::State state = oracle::read_state(datapath);
  std::set<Situation> seen;
  for (const Case& test : all_cases()) {
    seen.insert(situation_of(test.input.program, oracle::skb_of(test.input), state, test.verdict));
  }
  const std::set<Situation> possible = possible_situations();
  for (unsigned verdict = 0; verdict < PDL_VERDICT_COUNT; ++verdict) {
    INFO(verdict_name(verdict));
    CHECK(std::ranges::any_of(possible, [&](const Situation& one) { return one.verdict == verdict; }));
  }
  for (const Situation& situation : possible) {
    INFO(text_of(situation));
    CHECK(seen.contains(situation));
  }
  for (const Situation& situation : seen) {
    INFO(text_of(situation));
    CHECK(possible.contains(situation));
  }
}

TEST_CASE("a segmentation-offload packet without transport header counts by its own size") {
  if (geteuid() != 0) SKIP("loading BPF programs needs root");
  const Datapath datapath({}, false);
  const oracle::State state = oracle::read_state(datapath);
  const Addresses& a = addresses(Family::v4);
  const Ip later{.src = a.pod, .dst = a.outside, .dont_fragment = true, .fragment_offset = 800, .protocol = 17};
  const Input input{.program = Program::uplink_egress,
                    .ifindex = kUplink2,
                    .frame = on_wire() + std::vector<Layer>{later, Raw(uplink_mtu)},
                    .ingress_ifindex = kVethA,
                    .gso_size = 100};
  const oracle::Decision expected = decide(input.program, oracle::skb_of(input), state);
  REQUIRE(expected.verdict == PDL_VERDICT_late_too_big);
  CHECK(datapath.run(input).verdicts == std::vector<unsigned>{expected.verdict});
}

}  // namespace poduplink::tests
