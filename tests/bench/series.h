// SPDX-License-Identifier: Apache-2.0
// What a benchmark measures: series of samples, taken in turns so that a machine that gets slower gets slower for all,
// and what may be said of two of them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace poduplink::bench {

// What was measured. All but `variant` and `parameters` is the same for the series that are compared.
struct Subject {
  std::string section;  // "datapath", "programs", "cni", "agent"
  std::string metric;   // "64-byte packets out"
  std::string unit;     // "packets/s", "µs"
  bool more_is_better = false;
  std::string variant;                            // "poduplink fast", "policy routing"
  std::map<std::string, std::string> parameters;  // {"family", "IPv4"}, {"pods", "110"}, {"conntrack", "yes"}
  std::optional<double> limit;                    // what the project promises of the median, on a machine like ours
};

struct Series {
  Subject subject;
  std::vector<double> samples;  // one a round, in the order of the rounds
};

// Quartiles by linear interpolation between the closest samples. All 0 where there are no samples.
struct Summary {
  double median = 0;
  double low = 0;   // first quartile
  double high = 0;  // third quartile
  std::size_t count = 0;

  // Half the distance of the quartiles, as a part of the median.
  [[nodiscard]] double spread() const;
};

Summary summary(std::vector<double> samples);

// samples[i] / peer.samples[i]: of one round each, so that what both suffered falls out. Of as many rounds as both
// have.
Summary ratio(const Series& series, const Series& peer);

// A ratio whose quartiles lie further from its median than this part of it says nothing.
inline constexpr double widest_ratio_spread = 0.15;
// Fewer rounds have no quartiles to speak of.
inline constexpr std::size_t fewest_rounds = 3;

// "1.43", or why there is none: "– (0.7…2.1)" where the spread is too wide, "–" where there are too few rounds.
std::string ratio_text(const Summary& ratio);
[[nodiscard]] bool is_meaningful(const Summary& ratio);

// The same series, those of one metric beside each other; else the order is kept.
std::vector<Series> by_metric(const std::vector<Series>& series);

// One thing to be measured: `sample` takes one sample, or throws.
struct Candidate {
  Subject subject;
  std::function<double()> sample;
};

// Takes one sample of each candidate a round, after one round that is thrown away (caches, neighbours, clock of the
// processor). Each round begins with another candidate. `progress` is called before each round, with its number from 0
// (the one thrown away) to `rounds`.
std::vector<Series> in_turns(const std::vector<Candidate>& candidates, unsigned rounds,
                             const std::function<void(unsigned round)>& progress = {});

}  // namespace poduplink::bench
