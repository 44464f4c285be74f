// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/series.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "loader/base/format.h"

namespace poduplink::bench {
namespace {

// `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted.at(below), sorted.at(above), place - static_cast<double>(below));
}

}  // namespace

double Summary::spread() const { return median == 0 ? 0 : (high - low) / 2 / std::abs(median); }

Summary summary(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  return {.median = quantile(samples, 0.5),
          .low = quantile(samples, 0.25),
          .high = quantile(samples, 0.75),
          .count = samples.size()};
}

Summary ratio(const Series& series, const Series& peer) {
  std::vector<double> ratios;
  const std::size_t rounds = std::min(series.samples.size(), peer.samples.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    if (peer.samples.at(round) != 0) ratios.push_back(series.samples.at(round) / peer.samples.at(round));
  }
  return summary(std::move(ratios));
}

bool is_meaningful(const Summary& ratio) {
  return ratio.count >= fewest_rounds && ratio.spread() <= widest_ratio_spread;
}

std::string ratio_text(const Summary& ratio) {
  if (ratio.count < fewest_rounds) return "–";
  if (!is_meaningful(ratio)) return formatted("– ({:.2g}…{:.2g})", ratio.low, ratio.high);
  return ratio.median < 10 ? formatted("{:.2f}", ratio.median) : formatted("{:.1f}", ratio.median);
}

std::vector<Series> by_metric(const std::vector<Series>& series) {
  std::vector<Series> sorted;
  sorted.reserve(series.size());
  for (const Series& first : series) {
    const auto is_same = [&](const Series& one) { return one.subject.metric == first.subject.metric; };
    if (std::ranges::none_of(sorted, is_same)) std::ranges::copy_if(series, std::back_inserter(sorted), is_same);
  }
  return sorted;
}

std::vector<Series> in_turns(const std::vector<Candidate>& candidates, unsigned rounds,
                             const std::function<void(unsigned round)>& progress) {
  std::vector<Series> all;
  all.reserve(candidates.size());
  for (const Candidate& candidate : candidates) all.push_back({.subject = candidate.subject, .samples = {}});
  for (unsigned round = 0; round <= rounds; ++round) {
    if (progress) progress(round);
    for (std::size_t turn = 0; turn < candidates.size(); ++turn) {
      const std::size_t which = (turn + round) % candidates.size();
      const double sample = candidates.at(which).sample();
      if (round > 0) all.at(which).samples.push_back(sample);
    }
  }
  return all;
}

}  // namespace poduplink::bench
