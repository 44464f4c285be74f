// SPDX-License-Identifier: Apache-2.0
// Views as text, and rates between two samples.
#include <memory>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "loader/ctl/render.h"
#include "loader/ctl/sample.h"

using namespace poduplink;
using namespace poduplink::ctl;
using Catch::Matchers::ContainsSubstring;

namespace {

View table_view() {
  View view;
  view.sections.push_back({.columns = {{.title = "NAME", .key = "name"},
                                       {.title = "N", .key = "number", .right = true},
                                       {.title = "STATE", .key = "state", .tone = tone_of_state}},
                           .rows = {{{"name", "a"}, {"number", 7}, {"state", "up"}},
                                    {{"name", "longer"}, {"number", 12345}, {"state", "down"}}}});
  return view;
}

// Of rows that are kept after all.
class KeptList : public List {
 public:
  explicit KeptList(std::vector<Fields> rows) : rows_(std::move(rows)) {}
  [[nodiscard]] std::size_t size() const override { return rows_.size(); }
  void row(std::size_t number, Fields& fields) const override { fields = rows_[number]; }
  [[nodiscard]] std::string cell(std::size_t number, std::size_t column) const override {
    return cell_text(rows_[number][column].second);
  }

 private:
  std::vector<Fields> rows_;
};

View list_view(std::vector<Fields> rows) {
  View view;
  view.list = std::make_shared<KeptList>(std::move(rows));
  view.sections.push_back(
      {.columns = {{.title = "NAME"}, {.title = "N", .right = true}}, .of_list = true, .none = "no rows"});
  return view;
}

}  // namespace

TEST_CASE("columns are aligned by the widest cell, numbers to the right, and no line ends in blanks") {
  CHECK(as_table(table_view(), false) ==
        "NAME        N  STATE\n"
        "a           7  up\n"
        "longer  12345  down\n");
}

TEST_CASE("colours stand around the text alone, so that columns stay aligned") {
  CHECK(as_table(table_view(), true) ==
        "NAME        N  STATE\n"
        "a           7  \x1b[32mup\x1b[0m\n"
        "longer  12345  \x1b[31mdown\x1b[0m\n");
}

TEST_CASE("remarks come first; a table without rows says so, or is left out") {
  View view;
  view.remarks = {{Tone::bad, "problem: x"}, {Tone::plain, "y"}};
  view.sections.push_back({.columns = {{.title = "A", .key = "a"}}});
  CHECK(as_table(view, false) == "problem: x\ny\n");
  view.sections.push_back({.columns = {{.title = "A", .key = "a"}}, .none = "no rows"});
  CHECK(as_table(view, false) == "problem: x\ny\n\nno rows\n");
}

TEST_CASE("every kind of value has its text") {
  CHECK(cell_text(nullptr) == "-");
  CHECK(cell_text("") == "-");
  CHECK(cell_text("x") == "x");
  CHECK(cell_text(true) == "yes");
  CHECK(cell_text(false) == "no");
  CHECK(cell_text(12) == "12");
  CHECK(cell_text(Json::array({"a", 1})) == "a, 1");
  CHECK(cell_text(Json::array()) == "-");
}

TEST_CASE("nothing in a name steers the terminal or breaks the document") {
  View view;
  view.remarks = {{Tone::plain, "a\x1b[2Jb\nc"}};
  view.sections.push_back({.columns = {{.title = "A", .key = "a"}}, .rows = {{{"a", "x\x07y"}}}});
  CHECK(as_table(view, false) == "a\\x1b[2Jb\\nc\n\nA\nx\\x07y\n");
  view.document = {{"name", "\xff\xfe"}};
  CHECK_THAT(as_json(view, true), ContainsSubstring("name"));
}

TEST_CASE("rates are per second since the sample before; without one totals; counters made anew begin at 0") {
  const auto sample = [](int seconds, std::uint64_t packets) {
    Sample one;
    one.when = std::chrono::steady_clock::time_point(std::chrono::seconds(seconds));
    one.uplinks[3].out_packets = packets;
    one.verdicts.redirected = 2 * packets;
    return one;
  };
  Rates rates;
  rates.next(sample(10, 1000));
  CHECK_FALSE(rates.known());
  CHECK(rates.of(3, &pdl_uplink_stats::out_packets) == 1000);
  CHECK_FALSE(rates.of(4, &pdl_uplink_stats::out_packets));
  rates.next(sample(12, 1100));
  CHECK(rates.known());
  CHECK(rates.of(3, &pdl_uplink_stats::out_packets) == 50);
  CHECK(rates.of(&pdl_verdicts::redirected) == 100);
  rates.next(sample(14, 10));
  CHECK(rates.of(3, &pdl_uplink_stats::out_packets) == 5);
}

TEST_CASE("a list is the document that all its rows are, and the same table") {
  const std::vector<Fields> rows{
      {{"name", "a"}, {"number", 7U}, {"none", nullptr}, {"list", Json::array()}, {"yes", true}, {"no", false}},
      {{"name", "quote \" back \\ line \n escape \x1b delete \x7f"}, {"number", -1}, {"half", 0.5}},
      {{"name", "\xff and \xc3\xa9"}, {"number", std::uint64_t{1} << 63U}, {"list", {"x\ny", Json::array({1, 2})}}},
      {{"name", ""}, {"number", "text"}, {"object", {{"key", {{"inner", 1}}}, {"empty", Json::object()}}}}};
  View all;
  View table;
  all.document = Json::array();
  table.sections.push_back(
      {.columns = {{.title = "NAME", .key = "name"}, {.title = "N", .key = "number", .right = true}}});
  for (const Fields& fields : rows) {
    Json row = Json::object();
    for (const auto& [key, value] : fields) row[key] = value;
    all.document.push_back(row);
    table.sections.front().rows.push_back(row);
  }
  for (const bool yes : {true, false}) {
    CHECK(as_json(list_view(rows), yes) == as_json(all, yes));
    CHECK(as_table(list_view(rows), yes) == as_table(table, yes));
  }
  all.document = Json::array();
  for (const bool compact : {true, false}) CHECK(as_json(list_view({}), compact) == as_json(all, compact));
  CHECK(as_table(list_view({}), false) == "no rows\n");
}
