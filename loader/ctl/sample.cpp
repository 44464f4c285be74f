// SPDX-License-Identifier: Apache-2.0
#include "loader/ctl/sample.h"

#include <cmath>
#include <utility>

namespace poduplink::ctl {

Result<Sample> take_sample(const Tables& tables) {
  Sample sample;
  sample.when = std::chrono::steady_clock::now();
  PDL_TRY_ASSIGN(const auto stats, tables.stats.uplinks());
  sample.uplinks.insert(stats.begin(), stats.end());
  PDL_TRY_ASSIGN(sample.verdicts, tables.stats.verdicts());
  return sample;
}

void Rates::next(Sample now) {
  if (any_) before_ = std::move(now_);
  now_ = std::move(now);
  any_ = true;
}

std::uint64_t Rates::rate(std::uint64_t before, std::uint64_t now) const {
  const double seconds = std::chrono::duration<double>(now_.when - before_->when).count();
  // Counters that were made anew begin at 0.
  const std::uint64_t grown = now >= before ? now - before : now;
  return seconds <= 0 ? 0 : static_cast<std::uint64_t>(std::llround(static_cast<double>(grown) / seconds));
}

std::uint64_t Rates::of(__u64 pdl_verdicts::* counter) const {
  return before_ ? rate(before_->verdicts.*counter, now_.verdicts.*counter) : now_.verdicts.*counter;
}

std::optional<std::uint64_t> Rates::of(std::uint32_t uplink, __u64 pdl_uplink_stats::* counter) const {
  const auto now = now_.uplinks.find(uplink);
  if (now == now_.uplinks.end()) return std::nullopt;
  if (!before_) return now->second.*counter;
  const auto before = before_->uplinks.find(uplink);
  return rate(before == before_->uplinks.end() ? 0 : before->second.*counter, now->second.*counter);
}

}  // namespace poduplink::ctl
