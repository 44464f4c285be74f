// SPDX-License-Identifier: Apache-2.0
// A report in documents: tables of Markdown between marks, and plots.
#pragma once

#include <string>
#include <vector>

#include "loader/base/result.h"
#include "tests/bench/report.h"

namespace poduplink::bench {

// The text with each table made anew. Between the lines
//   <!-- bench: SECTION | METRIC | KEY=VALUE, KEY=VALUE | PEER, PEER -->
//   <!-- /bench -->
// stands a table of the series of that section and metric with those parameters (which its lines need not name again):
// median, quartiles, spread, and the ratio to each peer. The last two parts may be left out. `<!-- bench: machine -->`
// stands for a table of what it ran on, `<!-- bench: targets -->` for what is wanted and was reached. Errors: a mark
// that is not closed; one that no series fits, by its words.
Result<std::string> with_tables(const std::string& markdown, const Report& report);

struct Plot {
  std::string file;  // "packets-by-pods.svg"
  std::string svg;
};

// Every plot that the report has series for, all made from the report alone.
std::vector<Plot> plots(const Report& report);

}  // namespace poduplink::bench
