// SPDX-License-Identifier: Apache-2.0
// The cni section of the benchmarks works: every ADD and DEL of every plugin succeeds, also fifty at once (the section
// itself fails with the first that does not), and its report has every series. No number is judged.
#include <algorithm>
#include <set>

#include "tests/bench/run_bench.h"
#include "tests/harness/require.h"

using namespace poduplink;
using namespace poduplink::bench;

namespace {

constexpr const char* at_once = "50 at once";

std::set<std::string> expected_series() {
  std::set<std::string> all;
  const auto expect = [&](const std::string& verb, const std::string& how, const std::string& what,
                          const std::string& variant) {
    for (const char* attachments : {"0", "100"}) {
      all.insert(text_of({.metric = formatted("{}, {}, {}", verb, how, what),
                          .variant = variant,
                          .parameters = {{"attachments", attachments}}}));
    }
  };
  for (const char* verb : {"ADD", "DEL"}) {
    for (const char* variant : {"poduplink", "poduplink, IPv4 and IPv6", "ptp", "bridge"}) {
      for (const char* how : {"one at a time", at_once}) {
        expect(verb, how, "median", variant);
        expect(verb, how, "99th percentile", variant);
      }
      expect(verb, at_once, "until the last is done", variant);
    }
    for (const char* variant : {"kernel's request", "two programs' start", "floor: request and programs"}) {
      expect(verb, "one at a time", "median", variant);
      expect(verb, "one at a time", "99th percentile", variant);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a quick run of the cni section adds and deletes with every plugin, and its report is whole") {
  const Report report = run_bench({"cni", "--quick", "--rounds", "1"});
  std::set<std::string> found;
  for (const Series& series : report.series) {
    INFO(text_of(series.subject));
    CHECK(series.subject.section == "cni");
    CHECK(series.samples.size() == 1);
    CHECK(std::ranges::all_of(series.samples, [](double sample) { return sample > 0; }));
    CHECK(found.insert(text_of(series.subject)).second);
  }
  CHECK(found == expected_series());
}
