// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "cni/delegate.h"
#include "cni/process.h"
#include "loader/base/file.h"
#include "tests/harness/temporary_folder.h"

namespace poduplink {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A shell script as a program.
class Script {
 public:
  explicit Script(const std::string& text) {
    REQUIRE(write_file_atomically(path(), "#!/bin/sh\n" + text + "\n", 0755));
  }
  [[nodiscard]] std::string path() const { return folder_.file("script"); }
  [[nodiscard]] ProcessRequest request(std::string input = {}, milliseconds timeout = milliseconds(5000)) const {
    return {path(), {"PATH=/usr/bin:/bin", "KEY=a=b c"}, std::move(input), timeout};
  }

 private:
  tests::TemporaryFolder folder_;
};

TEST_CASE("H5: a program gets input and environment, and its output and status come back") {
  const Script script("cat; echo \"$KEY\"; exit 7");
  const auto outcome = run_process(script.request("in\n"));
  REQUIRE(outcome);
  CHECK(outcome->end == ProcessEnd::exited);
  CHECK(outcome->value == 7);
  CHECK(outcome->output == "in\na=b c\n");
}

TEST_CASE("H4: much input and much output at the same time do not block each other") {
  const Script script("cat");
  const std::string text(900000, 'x');
  const auto outcome = run_process(script.request(text));
  REQUIRE(outcome);
  CHECK(outcome->output == text);
}

TEST_CASE("H4: a program that does not read its input is no fault") {
  (void)::signal(SIGPIPE, SIG_IGN);  // as prepare_standard_streams() has it
  const Script script("exec <&-; echo done");
  const auto outcome = run_process(script.request(std::string(1 << 20, 'x')));
  REQUIRE(outcome);
  CHECK(outcome->value == 0);
  CHECK(outcome->output == "done\n");
}

TEST_CASE("the default action of SIGPIPE is restored for the program") {
  (void)::signal(SIGPIPE, SIG_IGN);
  const Script script("kill -PIPE $$; echo survived");
  const auto outcome = run_process(script.request());
  REQUIRE(outcome);
  CHECK(outcome->end == ProcessEnd::signalled);
  CHECK(outcome->value == SIGPIPE);
}

TEST_CASE("H13: time is bounded, also for a program that ignores SIGTERM and its children") {
  const Script script("trap '' TERM; sleep 30 & echo $!; sleep 30; sleep 30");
  const auto start = Clock::now();
  const auto outcome = run_process(script.request({}, milliseconds(300)));
  const auto took = Clock::now() - start;
  REQUIRE(outcome);
  CHECK(outcome->end == ProcessEnd::timed_out);
  CHECK(took < milliseconds(3000));
  // The child of the program goes with its group, a moment later; at most a zombie until its new parent looks.
  const std::string child = outcome->output.substr(0, outcome->output.find('\n'));
  const auto alive = [&] {
    const auto stat = read_file("/proc/" + child + "/stat");
    return stat && stat->find("(sleep)") != std::string::npos && stat->find(") Z") == std::string::npos;
  };
  for (int i = 0; i < 200 && alive(); ++i) std::this_thread::sleep_for(milliseconds(10));
  CHECK_FALSE(alive());
}

TEST_CASE("H15: output is bounded") {
  const Script script("exec yes");
  auto request = script.request();
  request.output_limit = 100000;
  const auto start = Clock::now();
  const auto outcome = run_process(request);
  REQUIRE(outcome);
  CHECK(outcome->end == ProcessEnd::flooding);
  CHECK(outcome->output.size() == 100000);
  CHECK(Clock::now() - start < milliseconds(3000));
}

TEST_CASE("H14 A14: a child that keeps the pipes is not waited for") {
  const Script script("sleep 2 & echo out");
  const auto start = Clock::now();
  const auto outcome = run_process(script.request());
  REQUIRE(outcome);
  CHECK(outcome->value == 0);
  CHECK(outcome->output == "out\n");
  CHECK(Clock::now() - start < milliseconds(1500));
}

TEST_CASE("H17: what cannot be started is an error with its errno") {
  const tests::TemporaryFolder folder;
  CHECK(run_process({folder.file("none"), {}, "", milliseconds(1000)}).error().code == ENOENT);
  REQUIRE(write_file_atomically(folder.file("plain"), "#!/bin/sh\n", 0644));
  CHECK(run_process({folder.file("plain"), {}, "", milliseconds(1000)}).error().code == EACCES);
  REQUIRE(write_file_atomically(folder.file("binary"),
                                std::string("\x7f"
                                            "ELF garbage"),
                                0755));
  CHECK(run_process({folder.file("binary"), {}, "", milliseconds(1000)}).error().code == ENOEXEC);
}

TEST_CASE("changed variables keep their place, new ones come last") {
  ::setenv("PDL_TEST_ONE", "1", 1);
  const auto variables = environment_with({{"PDL_TEST_ONE", "2"}, {"PDL_TEST_NEW", "x"}});
  CHECK(std::ranges::count(variables, "PDL_TEST_ONE=2") == 1);
  CHECK(std::ranges::count(variables, "PDL_TEST_ONE=1") == 0);
  CHECK(variables.back() == "PDL_TEST_NEW=x");
  ::unsetenv("PDL_TEST_ONE");
}

}  // namespace
}  // namespace poduplink
