// SPDX-License-Identifier: Apache-2.0
// Verdict, family and mode: which of them can meet. The tables must have a case of each meeting, and the random packets
// must reach each and no other.
#pragma once

#include <compare>
#include <set>
#include <string>

#include "tests/bpf/oracle.h"

namespace poduplink::tests {

enum class Net {
  none,  // neither; or not looked at
  v4,    // ARP too
  v6,
};

enum class PodMode {
  none,  // no pod is concerned, or the verdict comes before one is looked for
  fast,
  netfilter,
};

struct Situation {
  unsigned verdict = 0;
  Net net = Net::none;
  PodMode mode = PodMode::none;
  friend auto operator<=>(const Situation&, const Situation&) = default;
};

std::string text_of(const Situation& situation);

// All that docs/datapath.md allows.
std::set<Situation> possible_situations();

// Of a packet that got this verdict. The pod is the source of what goes out, the destination of what comes in.
Situation situation_of(Program program, const oracle::Skb& skb, const oracle::State& state, unsigned verdict);

}  // namespace poduplink::tests
