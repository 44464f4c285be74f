// SPDX-License-Identifier: Apache-2.0
// The datapath section of the benchmarks works: every way delivers (the section itself refuses to measure one that
// sends a packet by a wrong uplink), and its report has every series. No number is judged.
#include <algorithm>
#include <map>
#include <set>

#include "tests/bench/run_bench.h"
#include "tests/harness/require.h"

using namespace poduplink;
using namespace poduplink::bench;

namespace {

// "METRIC: VARIANT (PARAMETERS)" of everything that a quick run measures.
std::set<std::string> expected_series() {
  const std::map<std::string, std::vector<std::string>> sizes{{"host", {""}},
                                                              {"poduplink", {"1", "110"}},
                                                              {"poduplink netfilter", {"1", "110"}},
                                                              {"policy routing", {"1", "110"}},
                                                              {"redirect alone", {""}},
                                                              {"ptp", {""}},
                                                              {"macvlan", {""}}};
  std::set<std::string> all;
  for (const char* metric : {"64-byte packets out", "64-byte packets in", "TCP stream", "new TCP connections",
                             "TCP round trip, median", "TCP round trip, 99th percentile"}) {
    for (const auto& [variant, pods] : sizes) {
      for (const std::string& number : pods) {
        if (number == "110" && metric != std::string("64-byte packets out")) continue;
        for (const char* family : {"IPv4", "IPv6"}) {
          for (const char* conntrack : {"no", "yes"}) {
            Subject subject{
                .metric = metric, .variant = variant, .parameters = {{"family", family}, {"conntrack", conntrack}}};
            if (!number.empty()) subject.parameters["pods"] = number;
            all.insert(text_of(subject));
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a quick run of the datapath section measures every way, and its report is whole") {
  const Report report = run_bench({"datapath", "--quick", "--rounds", "1"});
  std::set<std::string> found;
  for (const Series& series : report.series) {
    INFO(text_of(series.subject));
    CHECK(series.subject.section == "datapath");
    CHECK(series.samples.size() == 1);
    CHECK(std::ranges::all_of(series.samples, [](double sample) { return sample > 0; }));
    CHECK(found.insert(text_of(series.subject)).second);
  }
  CHECK(found == expected_series());
}
