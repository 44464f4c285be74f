// SPDX-License-Identifier: Apache-2.0
// Counters of one moment, and rates between two.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include "loader/base/result.h"
#include "maps/tables.h"

namespace poduplink::ctl {

struct Sample {
  std::chrono::steady_clock::time_point when;
  std::map<std::uint32_t, pdl_uplink_stats> uplinks;  // by index
  pdl_verdicts verdicts{};
};

Result<Sample> take_sample(const Tables& tables);

// What a command that is repeated keeps from one time to the next. Without a sample before: totals.
class Rates {
 public:
  // Takes the place of the sample before.
  void next(Sample now);

  [[nodiscard]] bool known() const { return before_.has_value(); }
  [[nodiscard]] const Sample& now() const { return now_; }
  // The counter of a verdict or an uplink: its growth a second, or where there was nothing before its total.
  [[nodiscard]] std::uint64_t of(__u64 pdl_verdicts::* counter) const;
  [[nodiscard]] std::optional<std::uint64_t> of(std::uint32_t uplink, __u64 pdl_uplink_stats::* counter) const;

 private:
  [[nodiscard]] std::uint64_t rate(std::uint64_t before, std::uint64_t now) const;

  std::optional<Sample> before_;
  Sample now_;
  bool any_ = false;
};

}  // namespace poduplink::ctl
