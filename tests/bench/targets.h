// SPDX-License-Identifier: Apache-2.0
// What the project wants to reach, held against a report.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/report.h"

namespace poduplink::bench {

// One series, or the ratio of two, and its bound.
struct Target {
  std::string text;  // "64-byte packets out, by the host itself"
  Subject ours;      // section, metric, variant and parameters count
  std::string peer_variant;
  std::map<std::string, std::string> peer_parameters;  // no peer variant: none, and the median itself is meant
  double bound = 0;
  bool is_least = false;  // else the most
};

std::vector<Target> targets();

// A target and what a report says of it.
struct Verdict {
  Target target;
  Summary measured;  // without samples where the report has not both series

  [[nodiscard]] bool is_met() const;
};

// Of every target for which the report has the series.
std::vector<Verdict> verdicts(const Report& report);

// A line each: what is wanted, what was measured, with quartiles, and whether that is enough. As Markdown or plain
// text; nothing where there are none.
std::string targets_table(const Report& report);
std::string targets_text(const Report& report);

}  // namespace poduplink::bench
