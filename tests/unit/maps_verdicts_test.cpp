// SPDX-License-Identifier: Apache-2.0
// What is said of verdicts to operators: the tables of docs/operations.md against maps/abi.h.
#include <map>
#include <regex>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "loader/base/file.h"
#include "maps/tables.h"

using namespace poduplink;

namespace {

struct Told {
  std::string program;
  std::string meaning;
  std::string todo;
};

// The rows of "| `verdict` | meaning | what to do |", by verdict, under "### … (`program`)" of the chapter.
std::map<std::string, Told> told_by_operations() {
  const auto page = read_file(PODUPLINK_SOURCE "/docs/operations.md");
  REQUIRE(page.has_value());
  const std::size_t start = page->find("\n## Verdicts\n");
  REQUIRE(start != std::string::npos);
  const std::string chapter = page->substr(start, page->find("\n## ", start + 4) - start);
  static const std::regex line("(?:### [^\n]*\\(`([a-z_]+)`\\)|\\| `([a-z_]+)` \\| ([^|]+) \\| ([^|]+) \\|)\n");
  std::map<std::string, Told> told;
  std::string program;
  for (auto at = std::sregex_iterator(chapter.begin(), chapter.end(), line); at != std::sregex_iterator(); ++at) {
    if ((*at)[1].matched) {
      program = (*at)[1];
      continue;
    }
    INFO((*at)[2]);
    CHECK(told.emplace((*at)[2], Told{.program = program, .meaning = (*at)[3], .todo = (*at)[4]}).second);
  }
  return told;
}

}  // namespace

TEST_CASE("docs/operations.md tells of every verdict, with the words of maps/abi.h, and what to do") {
  std::map<std::string, Told> told = told_by_operations();
  for (unsigned verdict = 0; verdict < PDL_VERDICT_COUNT; ++verdict) {
    INFO(verdict_name(verdict));
    const auto row = told.extract(verdict_name(verdict));
    REQUIRE_FALSE(row.empty());
    CHECK(row.mapped().program == verdict_program(verdict));
    CHECK(row.mapped().meaning == verdict_text(verdict));
    CHECK_FALSE(row.mapped().todo.empty());
  }
  for (const auto& [name, row] : told) FAIL_CHECK(name << " is no verdict");
}
