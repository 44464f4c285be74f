// SPDX-License-Identifier: Apache-2.0
// Health and readiness as functions of what the agent knows; and the names of unix sockets.
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "loader/base/file.h"
#include "loader/metrics/exporter.h"
#include "loader/metrics/listen.h"
#include "tests/harness/temporary_folder.h"

using namespace poduplink;
using poduplink::tests::TemporaryFolder;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Clock = std::chrono::steady_clock;

namespace {

ListenAddress unix_at(const std::string& path) {
  ListenAddress address;
  address.path = path;
  return address;
}

bool is_socket(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

TEST_CASE("healthy while the last reconciliation is not older than ten periods") {
  const auto now = Clock::now();
  Figures figures;
  CHECK(health(figures, now).status == 503);
  figures.reconciled = now - 10 * audit_time;
  CHECK(health(figures, now).status == 200);
  figures.reconciled -= 1s;
  CHECK(health(figures, now).status == 503);
  CHECK_THAT(health(figures, now).body, ContainsSubstring("31 s ago"));
}

TEST_CASE("ready exactly where agent.json says so, else each reason is a line") {
  CHECK(readiness(nullptr).status == 503);
  AgentState state;
  state.reasons = {"eth1 is missing", "two\nlines"};
  CHECK(readiness(&state).status == 503);
  CHECK(readiness(&state).body == "eth1 is missing\ntwo\\nlines\n");
  state.ready = true;
  CHECK(readiness(&state).status == 200);
}

TEST_CASE("a unix socket is for owner and group, and goes with the listener") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/metrics";
  {
    const auto listener = Listener::open(unix_at(path));
    REQUIRE(listener);
    struct stat status{};
    REQUIRE(::lstat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777U) == 0660);
    // Somebody answers there.
    const auto second = Listener::open(unix_at(path));
    REQUIRE_FALSE(second);
    CHECK(second.error().code == EADDRINUSE);
    CHECK_THAT(second.error().message, ContainsSubstring("unix:" + path));
  }
  CHECK_FALSE(is_socket(path));
}

TEST_CASE("a socket that nobody listens on any more is replaced; what is no socket stays") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/metrics";
  {
    auto killed = Listener::open(unix_at(path));
    REQUIRE(killed);
    {
      const Fd closed = killed->take_fd();
    }
    const auto next = Listener::open(unix_at(path));
    REQUIRE(next);
    CHECK(is_socket(path));
  }
  {
    auto first = Listener::open(unix_at(path));
    REQUIRE(first);
    REQUIRE(remove_file(path));
    const auto second = Listener::open(unix_at(path));
    REQUIRE(second);
    *first = std::move(*Listener::open(unix_at(folder.path() + "/other")));  // its name is another's now, and stays
    CHECK(is_socket(path));
  }
  REQUIRE(write_file_atomically(path, "mine"));
  const auto third = Listener::open(unix_at(path));
  REQUIRE_FALSE(third);
  CHECK(third.error().code == EEXIST);
  CHECK(read_file(path).value() == "mine");
}
