// SPDX-License-Identifier: Apache-2.0
// What a run of the benchmarks leaves: one JSON document, from which tables and plots are made, now or later.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "loader/base/result.h"
#include "tests/bench/series.h"

namespace poduplink::bench {

struct Report {
  // What it ran on: "processor", "processors", "memory", "kernel", "compiler", "version", "date".
  std::map<std::string, std::string> machine;
  std::vector<Series> series;
};

// Of the machine that this runs on.
std::map<std::string, std::string> this_machine();

// Three digits or a few more: "1.23", "12.3", "1234".
std::string number_text(double value);

// {"format": 1, "machine": {…}, "series": [{"section", "metric", "unit", "moreIsBetter", "variant", "parameters",
// "samples", "limit" where there is one}]}.
std::string to_json(const Report& report);
// Errors: no JSON, another format, a key that is missing or of the wrong kind (named).
Result<Report> from_json(const std::string& text);

// Whether a ratio of the two means something: no parameter that both have differs.
bool are_comparable(const Subject& one, const Subject& other);

// "policy routing (family IPv4, pods 110)".
std::string label(const Subject& subject);

// One table a section and metric: a line a variant and its parameters, with median, quartiles, spread, and the ratio to
// every comparable variant. Plain text.
std::string to_text(const Report& report);

}  // namespace poduplink::bench
