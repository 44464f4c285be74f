// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "loader/base/file.h"
#include "tests/bench/plot.h"
#include "tests/bench/publish.h"
#include "tests/bench/targets.h"

using namespace poduplink;
using namespace poduplink::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

Series series(const std::string& variant, const std::string& pods, std::vector<double> samples,
              const std::string& family = "IPv4") {
  Subject subject{.section = "datapath",
                  .metric = "64-byte packets out",
                  .unit = "packets/s",
                  .more_is_better = true,
                  .variant = variant,
                  .parameters = {{"family", family}, {"conntrack", "yes"}}};
  if (!pods.empty()) subject.parameters.emplace("pods", pods);
  return {.subject = subject, .samples = std::move(samples)};
}

Report report() {
  return {.machine = {{"kernel", "6.1"}},
          .series = {series("poduplink", "1", {2000, 2100, 1900}), series("poduplink", "110", {2000, 2000, 2000}),
                     series("policy routing", "1", {1000, 1050, 950}), series("policy routing", "110", {100, 900, 300}),
                     series("host", "", {4000, 4000, 4000}), series("host", "", {7, 7, 7}, "IPv6")}};
}

std::string message(const std::string& text) {
  const auto made = with_tables(text, report());
  REQUIRE_FALSE(made);
  return made.error().message;
}

}  // namespace

TEST_CASE("a mark's table is made anew, and nothing else is touched") {
  const std::string mark =
      "<!-- bench: datapath | 64-byte packets out | family=IPv4, conntrack=yes | policy routing, host -->";
  const auto made = with_tables("before\n" + mark + "\nold\n<!-- /bench -->\nafter\n", report());
  REQUIRE(made);
  CHECK(*made == "before\n" + mark + R"(

| | pods | median, packets/s | quartiles | spread | by policy routing | by host |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
| poduplink | 1 | 2,000 | 1,950 … 2,050 | 2.5 % | 2.00 | 0.50 |
| poduplink | 110 | 2,000 | 2,000 … 2,000 | 0.0 % | – (4.4…13) | 0.50 |
| policy routing | 1 | 1,000 | 975 … 1,025 | 2.5 % |  | 0.25 |
| policy routing | 110 | 300 | 200 … 600 | 66.7 % |  | – (0.05…0.15) |
| host |  | 4,000 | 4,000 … 4,000 | 0.0 % |  |  |

<!-- /bench -->
after
)");
  // Once more changes nothing.
  CHECK(with_tables(*made, report()).value() == *made);
  CHECK(with_tables("no mark\n", report()).value() == "no mark\n");
  CHECK_THAT(with_tables("<!-- bench: machine -->\n<!-- /bench -->\n", report()).value(),
             ContainsSubstring("| kernel | 6.1 |"));
}

TEST_CASE("targets are held against the series of a report, and those without series are not spoken of") {
  const auto all = verdicts(report());
  REQUIRE(all.size() == 3);
  CHECK(targets_text(report()) == R"(targets
  64-byte packets out, by the host itself (conntrack)              at least 0.80  0.50 (0.49 … 0.51)     MISSED
  64-byte packets out, by policy routing, pods: 1 (conntrack)      at least 1.40  2.00 (2.00 … 2.00)     met
  64-byte packets out, by policy routing, pods: 110 (conntrack)    at least 3.00  6.67 (4.44 … 13.3)     met
)");
  CHECK_THAT(with_tables("<!-- bench: targets -->\n<!-- /bench -->\n", report()).value(),
             ContainsSubstring("(conntrack) | at least 0.80 | 0.50 (0.49 … 0.51) | **missed** |"));
  CHECK(targets_text({}).empty());
}

TEST_CASE("what is wanted of a number is the least or the most of it") {
  Verdict verdict{.target = {.bound = 2, .is_least = true}, .measured = summary({2})};
  CHECK(verdict.is_met());
  verdict.measured = summary({1.9});
  CHECK_FALSE(verdict.is_met());
  verdict.target.is_least = false;
  CHECK(verdict.is_met());
  verdict.measured = summary({2.1});
  CHECK_FALSE(verdict.is_met());
}

TEST_CASE("a mark that cannot be filled is named") {
  CHECK_THAT(message("<!-- bench: datapath | nothing -->\n<!-- /bench -->\n"), ContainsSubstring("datapath | nothing"));
  CHECK_THAT(message("<!-- bench: datapath -->\n<!-- /bench -->\n"), ContainsSubstring("no metric"));
  CHECK_THAT(message("<!-- bench: datapath | 64-byte packets out | pods -->\n<!-- /bench -->\n"),
             ContainsSubstring("'pods' is no KEY=VALUE"));
  CHECK_THAT(message("<!-- bench: machine -->\n"), ContainsSubstring("not closed"));
  CHECK_THAT(message("<!-- bench: machine -->\n<!-- bench: machine -->\n<!-- /bench -->\n"),
             ContainsSubstring("not closed"));
}

TEST_CASE("plots are made of the series that are there") {
  const std::vector<Plot> made = plots(report());
  REQUIRE(made.size() == 1);
  CHECK(made[0].file == "packets-by-pods.svg");
  CHECK_THAT(made[0].svg, ContainsSubstring("policy routing"));
  CHECK_THAT(made[0].svg, ContainsSubstring(">110</text>"));
  CHECK(plots({}).empty());
}

TEST_CASE("a plot without a value above zero is an empty one, and names are escaped") {
  CHECK_THAT(line_plot("a < b", "x", {{.name = "none", .points = {{.x = 1, .y = {}}}}}), ContainsSubstring("a &lt; b"));
  CHECK_THAT(bar_plot("none", {{.name = "a & b", .value = {}}}), ContainsSubstring("a &amp; b"));
}
