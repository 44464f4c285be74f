// SPDX-License-Identifier: Apache-2.0
// The sections of `scripts/bench`. Each builds its own world, measures its variants in turns and takes everything down.
// They throw std::runtime_error where something does not work: a number of a broken path is worse than none.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/bench/series.h"

namespace poduplink::bench {

struct Request {
  unsigned rounds = 15;
  bool quick = false;  // fewer variants and shorter samples: to see that it works, not to be quoted
  // What is being done now, for a person who waits.
  std::function<void(const std::string& text)> progress = [](const std::string&) {};
};

// in_turns() with the rounds of the request, telling progress as "WHAT: round 3 of 15".
std::vector<Series> in_turns(const Request& request, const std::string& what, const std::vector<Candidate>& candidates);

// Pods' traffic, by every way it is done.
std::vector<Series> bench_datapath(const Request& request);
// What the programs themselves cost a packet, by test runs.
std::vector<Series> bench_programs(const Request& request);
// ADD and DEL, beside other plugins and what the kernel alone needs.
std::vector<Series> bench_cni(const Request& request);
// The agent on an empty and on a full node.
std::vector<Series> bench_agent(const Request& request);

}  // namespace poduplink::bench
