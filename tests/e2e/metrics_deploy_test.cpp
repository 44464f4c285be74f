// SPDX-License-Identifier: Apache-2.0
// The real output against those who read it: promtool, the dashboard, the alert rules and the documentation.
#include <algorithm>
#include <regex>
#include <set>

#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "tests/e2e/scraper.h"
#include "tests/e2e/steps.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::Equals;
using nlohmann::json;

namespace {

std::string source_file(const std::string& path) { return value_of(read_file(PODUPLINK_SOURCE "/" + path)); }

// Every match of the first group.
std::set<std::string> all_matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
    found.insert((*match)[1]);
  return found;
}

// Of a node that has something of everything.
std::string real_output() {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod pod = add_pod(*lab, "a", {.uplink = 1});
  talk(*pod.space, Outside::echo(Family::v4));
  std::string text = value_of(http_get(lab->node(), "/metrics")).body;
  value_of(lab->del_pod("a"));
  REQUIRE_CLOSED(*lab);
  return text;
}

std::set<std::string> metric_names(const std::string& output) { return all_matches(output, "# TYPE ([a-z_]+) "); }
std::set<std::string> names_used(const std::string& text) {
  return all_matches(text, "\\b((?:poduplink|process)_[a-z_]+)\\b");
}

void collect_expressions(const json& node, std::set<std::string>& found) {
  if (node.is_object() && node.contains("expr")) found.insert(node.at("expr").get<std::string>());
  if (!node.is_structured()) return;
  for (const json& child : node) collect_expressions(child, found);
}

// What `all` has and `others` lacks, a line each.
std::string beyond(const std::set<std::string>& all, const std::set<std::string>& others) {
  std::vector<std::string> missing;
  std::ranges::set_difference(all, others, std::back_inserter(missing));
  return lines_of(missing);
}

}  // namespace

TEST_CASE("promtool has nothing to say of names, types, units and help of the real output") {
  if (!run_ok({.argv = {"promtool", "--version"}})) SKIP("no promtool: scripts/setup takes it from Debian's package");
  const Outcome outcome = value_of(run({.argv = {"promtool", "check", "metrics"}, .input = real_output()}));
  INFO(outcome.text());
  CHECK(outcome.ok());
  CHECK_THAT(outcome.out + outcome.err, Equals(""));
}

TEST_CASE("Dashboard, alert rules and documentation speak of metrics that there are, and the documentation of all") {
  const std::string output = real_output();
  const std::set<std::string> names = metric_names(output);
  CHECK(names.size() > 20);

  std::set<std::string> expressions;
  collect_expressions(json::parse(source_file("scripts/deploy/grafana/poduplink.json")), expressions);
  std::set<std::string> shown;
  for (const std::string& expression : expressions) shown.merge(names_used(expression));
  CHECK_THAT(beyond(shown, names), Equals(""));
  CHECK_THAT(beyond(names, shown), Equals(""));

  const std::string rules = source_file("scripts/deploy/prometheus/alerts.yml");
  CHECK_THAT(beyond(names_used(rules), names), Equals(""));

  const std::string page = source_file("docs/operations.md");
  const std::set<std::string> documented = all_matches(page, "\n\\| `((?:poduplink|process)_[a-z_]+)` \\|");
  CHECK_THAT(beyond(documented, names), Equals(""));
  CHECK_THAT(beyond(names, documented), Equals(""));

  // Values of labels that rules and dashboard name are ones that the agent gives.
  std::string all_text = rules;
  for (const std::string& expression : expressions) all_text += expression;
  std::set<std::string> verdicts;
  for (const std::string& list : all_matches(all_text, "verdict=~?\"([a-z_|]+)\""))
    verdicts.merge(all_matches(list, "([a-z_]+)"));
  CHECK(verdicts.size() >= 10);
  CHECK_THAT(beyond(verdicts, all_matches(output, "verdict=\"([a-z_]+)\"")), Equals(""));
  CHECK_THAT(beyond(all_matches(all_text, "outcome=\"([a-z_]+)\""), all_matches(output, "outcome=\"([a-z_]+)\"")),
             Equals(""));
  CHECK_THAT(beyond(all_matches(all_text, "kind!?=\"([a-z_]+)\""), all_matches(output, "kind=\"([a-z_]+)\"")),
             Equals(""));
}

TEST_CASE("Each alert says what it is, and the documentation what to do") {
  const std::string rules = source_file("scripts/deploy/prometheus/alerts.yml");
  const std::string page = source_file("docs/operations.md");
  const std::set<std::string> alerts = all_matches(rules, "- alert: ([A-Za-z]+)");
  CHECK(alerts.size() >= 10);
  for (const std::string& alert : alerts) {
    INFO(alert);
    const std::size_t start = rules.find("- alert: " + alert + "\n");
    const std::string rule = rules.substr(start, rules.find("- alert: ", start + 1) - start);
    std::string anchor = alert;
    std::ranges::transform(anchor, anchor.begin(),
                           [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    for (const std::string& part : {std::string("summary: "), std::string("description: "), std::string("severity: "),
                                    "runbook: docs/operations.md#" + anchor + "\n"})
      CHECK_THAT(rule, Catch::Matchers::ContainsSubstring(part));
    CHECK_THAT(page, Catch::Matchers::ContainsSubstring("\n#### " + alert + "\n"));
  }
  CHECK_THAT(beyond(all_matches(page, "\n#### (Poduplink[A-Za-z]+)"), alerts), Equals(""));
}
