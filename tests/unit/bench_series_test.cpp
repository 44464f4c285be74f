// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/bench/report.h"
#include "tests/bench/series.h"

using namespace poduplink;
using namespace poduplink::bench;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

namespace {

Subject subject(const std::string& variant, std::map<std::string, std::string> parameters = {}) {
  return {.section = "datapath",
          .metric = "packets out",
          .unit = "packets/s",
          .more_is_better = true,
          .variant = variant,
          .parameters = std::move(parameters)};
}

Series series(const std::string& variant, std::vector<double> samples,
              std::map<std::string, std::string> parameters = {}) {
  return {.subject = subject(variant, std::move(parameters)), .samples = std::move(samples)};
}

}  // namespace

TEST_CASE("quartiles lie between the samples, whatever their order") {
  const Summary four = summary({4, 1, 3, 2});
  CHECK_THAT(four.median, WithinRel(2.5));
  CHECK_THAT(four.low, WithinRel(1.75));
  CHECK_THAT(four.high, WithinRel(3.25));
  CHECK_THAT(four.spread(), WithinRel(0.3));
  CHECK(four.count == 4);
  CHECK(summary({7}).median == 7);
  CHECK(summary({}).count == 0);
  CHECK(summary({0, 0}).spread() == 0);
}

TEST_CASE("a ratio is taken round by round, so that what slows both falls out") {
  const Summary of = ratio(series("a", {20, 2, 200, 2000}), series("b", {10, 1, 100}));
  CHECK(of.count == 3);
  CHECK(of.median == 2);
  CHECK(of.spread() == 0);
  CHECK(ratio_text(of) == "2.00");
  CHECK(ratio(series("a", {1, 1}), series("b", {0, 1})).count == 1);
}

TEST_CASE("a ratio that says nothing is not printed") {
  const Series even = series("b", {10, 10, 10, 10, 10});
  CHECK(ratio_text(ratio(series("a", {15, 15, 15, 15, 15}), even)) == "1.50");
  CHECK(ratio_text(ratio(series("a", {5, 40, 12, 25, 10}), even)) == "– (1…2.5)");
  CHECK(ratio_text(ratio(series("a", {15, 15}), even)) == "–");
  // Just inside and just outside of what is allowed.
  CHECK(is_meaningful({.median = 1, .low = 0.86, .high = 1.14, .count = 5}));
  CHECK_FALSE(is_meaningful({.median = 1, .low = 0.84, .high = 1.16, .count = 5}));
}

TEST_CASE("candidates are measured in turns, each round beginning with another, the first round thrown away") {
  std::vector<std::string> order;
  double next = 0;
  const auto candidate = [&](const std::string& name) {
    return Candidate{subject(name), [&order, &next, name] {
                       order.push_back(name);
                       return next++;
                     }};
  };
  const std::vector<Series> all = in_turns({candidate("a"), candidate("b")}, 2);
  CHECK(order == std::vector<std::string>{"a", "b", "b", "a", "a", "b"});
  REQUIRE(all.size() == 2);
  CHECK(all[0].samples == std::vector<double>{3, 4});
  CHECK(all[1].samples == std::vector<double>{2, 5});
}

TEST_CASE("series of one metric come together, in the order in which they came") {
  Series other = series("a", {3});
  other.subject.metric = "packets in";
  const std::vector<Series> sorted = by_metric({series("a", {1}), other, series("b", {2})});
  REQUIRE(sorted.size() == 3);
  CHECK(sorted[0].samples == std::vector<double>{1});
  CHECK(sorted[1].samples == std::vector<double>{2});
  CHECK(sorted[2].samples == std::vector<double>{3});
}

TEST_CASE("a report is the same after it was written and read") {
  const Report report{.machine = {{"kernel", "6.1"}, {"processor", "a \"quoted\" one"}},
                      .series = {series("ours", {1.5, 2}, {{"pods", "110"}}), series("theirs", {})}};
  const auto read = from_json(to_json(report));
  REQUIRE(read);
  CHECK(read->machine == report.machine);
  REQUIRE(read->series.size() == 2);
  CHECK(read->series[0].samples == report.series[0].samples);
  CHECK(read->series[0].subject.parameters == report.series[0].subject.parameters);
  CHECK(read->series[0].subject.more_is_better);
  CHECK(read->series[1].subject.variant == "theirs");
  CHECK(to_json(*read) == to_json(report));
}

TEST_CASE("what is no report is refused by name") {
  const auto message = [](const char* text) {
    const auto read = from_json(text);
    REQUIRE_FALSE(read);
    return read.error().message;
  };
  CHECK_THAT(message("nonsense"), ContainsSubstring("not a report"));
  CHECK_THAT(message(R"({"format": 2})"), ContainsSubstring("format 2"));
  CHECK_THAT(message(R"({"format": 1, "machine": {}, "series": [{"section": "x"}]})"), ContainsSubstring("metric"));
  CHECK_THAT(message(R"({"format": 1, "machine": {}, "series": 5})"), ContainsSubstring("not a report"));
}

TEST_CASE("tables compare what is comparable") {
  const Report report{.machine = {},
                      .series = {series("ours", {30, 30, 30}, {{"pods", "1"}, {"family", "IPv4"}}),
                                 series("host", {60, 60, 60}, {{"family", "IPv4"}}),
                                 series("rules", {10, 10, 10}, {{"pods", "1"}, {"family", "IPv4"}}),
                                 series("rules", {1, 1, 1}, {{"pods", "110"}, {"family", "IPv4"}}),
                                 series("host", {7, 7, 7}, {{"family", "IPv6"}})}};
  const std::string text = to_text(report);
  CHECK_THAT(text, ContainsSubstring("0.50 host, 3.00 rules\n"));
  CHECK_THAT(text, ContainsSubstring("2.00 ours (pods 1), 6.00 rules (pods 1), 60.0 rules (pods 110)\n"));
  CHECK_THAT(text, !ContainsSubstring("30.0 rules"));
}
