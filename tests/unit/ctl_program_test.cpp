// SPDX-License-Identifier: Apache-2.0
// The built programs as somebody at a terminal meets them: help, manual pages, completion by the shell.
#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "loader/base/file.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary_folder.h"

using namespace poduplink;
using harness::Outcome;
using harness::value_of;

namespace {

using Words = std::set<std::string>;

std::string output_of(const std::vector<std::string>& argv) {
  const Outcome outcome = value_of(harness::run({.argv = argv}));
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return outcome.out;
}

Words matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  Words found;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), expression); at != std::sregex_iterator(); ++at)
    found.insert((*at)[1]);
  return found;
}

Words commands_in(const std::string& help) {
  const std::size_t list = help.find("Subcommands:");
  REQUIRE(list != std::string::npos);
  return matches(help.substr(list), "\n  ([a-z-]+) ");
}

// As CLI11 lists them, a line each.
Words options_in(const std::string& help) { return matches(help, "[ ,]--([a-z-]+)[ \n]"); }

std::string manual(const std::string& name) {
  return value_of(read_file(std::string(PODUPLINK_SOURCE "/docs/man/") + name + ".8"));
}

Words options_of_manual(const std::string& page) { return matches(page, "(?:Fl |\\| )-([a-z-]+)"); }

// What bash offers behind `line`, with `programs` in PATH before all others.
Words offered(const std::string& line, const std::string& programs = "/nonexistent", const std::string& folder = "/") {
  const std::string script = output_of({PODUPLINKCTL, "completion", "bash"}) + R"sh(
    PATH=$2:$PATH COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=(poduplinkctl) COMPREPLY=()
    cd "$3" && _poduplinkctl && { ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"; }
  )sh";
  return matches(output_of({"bash", "-euc", script, "bash", line, programs, folder}), "([^\n]+)\n");
}

}  // namespace

TEST_CASE("Completion offers commands, options, their values, and what a command is asked about") {
  const Words commands = commands_in(output_of({PODUPLINKCTL, "--help"}));
  CHECK(commands.size() > 10);
  CHECK(offered("poduplinkctl ") == commands);
  CHECK(offered("poduplinkctl --color never ") == commands);
  CHECK(offered("poduplinkctl ex") == Words{"exempt", "explain"});
  CHECK(offered("poduplinkctl sta") == Words{"stats", "status"});
  CHECK(offered("poduplinkctl -o ") == Words{"json", "table"});
  CHECK(offered("poduplinkctl pods --output=j") == Words{"json"});
  CHECK(offered("poduplinkctl explain --proto ") == Words{"esp", "gre", "icmp", "igmp", "ipip", "sctp", "tcp", "udp"});
  CHECK(offered("poduplinkctl explain --fragment ") == Words{"first", "later"});
  CHECK(offered("poduplinkctl pods --proto ").empty());
  CHECK(offered("poduplinkctl explain --s") == Words{"--size", "--sport"});
  CHECK(offered("poduplinkctl explain --pin") == Words{"--pin-dir"});
  CHECK(offered("poduplinkctl explain --size ").empty());
  CHECK(offered("poduplinkctl stats --") ==
        Words{"--all", "--color", "--help", "--output", "--pin-dir", "--run-dir", "--version", "--watch"});
  CHECK(offered("poduplinkctl uninstall --only ") == Words{"conflist", "plugins"});
  CHECK(offered("poduplinkctl completion ") == Words{"bash"});
  CHECK(offered("poduplinkctl status ").empty());
  CHECK(offered("poduplinkctl nonsense ") == commands);
}

TEST_CASE("Completion offers files and folders, and what has blanks as one") {
  const tests::TemporaryFolder folder;
  const std::string& path = folder.path();
  for (const char* name : {"a.json", "a b.json"}) REQUIRE(write_file_atomically(path + "/" + name, "{}"));
  REQUIRE(make_directories(path + "/adir"));
  CHECK(offered("poduplinkctl check-config a", "/nonexistent", path) == Words{"a.json", "a b.json", "adir"});
  CHECK(offered("poduplinkctl --run-dir a", "/nonexistent", path) == Words{"adir"});
  CHECK(offered("poduplinkctl --run-dir=a", "/nonexistent", path) == Words{"adir"});
  CHECK(offered("poduplinkctl install --conflist a.", "/nonexistent", path) == Words{"a.json"});
}

TEST_CASE("Completion offers the addresses of the node's pods, of both families") {
  const tests::TemporaryFolder folder;
  const std::string node = folder.file("poduplinkctl");
  REQUIRE(write_file_atomically(node,
                                "#!/bin/sh\n[ \"$*\" = 'pods -o json' ] || exit 1\n"
                                "printf '[\\n  {\\n    \"address\": \"10.2.1.1\",\\n    \"pod\": \"a\"\\n  },\\n"
                                "  {\\n    \"address\": \"fd00:2::1:1\"\\n  }\\n]\\n'\n",
                                0755));
  const std::string& programs = folder.path();
  CHECK(offered("poduplinkctl explain ", programs) == Words{"10.2.1.1", "fd00:2::1:1"});
  CHECK(offered("poduplinkctl flows 10", programs) == Words{"10.2.1.1"});
  // bash takes what stands behind the last colon for the word that is completed.
  CHECK(offered("poduplinkctl flows fd00:2::1:", programs) == Words{"1"});
  CHECK(offered("poduplinkctl explain 10.2.1.1 ", programs).empty());
  CHECK(offered("poduplinkctl explain ", "/nonexistent").empty());
}

TEST_CASE("Manual pages know every command and option of the programs, and no others") {
  const std::string page = manual("poduplinkctl");
  const std::string help = output_of({PODUPLINKCTL, "--help"});
  Words options = options_in(help);
  for (const std::string& command : commands_in(help)) {
    INFO(command);
    CHECK_THAT(page, Catch::Matchers::ContainsSubstring(".It Cm " + command));
    options.merge(options_in(output_of({PODUPLINKCTL, command, "--help"})));
  }
  CHECK(matches(page, "\\.It Cm ([a-z-]+)") == commands_in(help));
  CHECK(options_of_manual(page) == options);
  CHECK(options_of_manual(manual("poduplinkd")) == options_in(output_of({PODUPLINKD, "--help"})));
}

TEST_CASE("Manual pages are read without a warning") {
  if (value_of(harness::run({.argv = {"sh", "-c", "command -v man"}})).status != 0) SKIP("man-db is not installed");
  for (const char* name : {"poduplinkctl", "poduplinkd", "poduplink", "poduplink-ipam"}) {
    INFO(name);
    const Outcome read = value_of(harness::run({.argv = {"man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8",
                                                         std::string(PODUPLINK_SOURCE "/docs/man/") + name + ".8"}}));
    CHECK(read.status == 0);
    CHECK(read.err.empty());
    CHECK(read.out.size() > 1000);
  }
}
