// SPDX-License-Identifier: Apache-2.0
// The benchmarks as their tests run them.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/report.h"

namespace poduplink::bench {

// Runs poduplink-bench with these arguments, requires that it succeeds, and reads its report.
Report run_bench(const std::vector<std::string>& arguments);

// "METRIC: VARIANT (PARAMETERS)"
std::string text_of(const Subject& subject);

}  // namespace poduplink::bench
