// SPDX-License-Identifier: Apache-2.0
// Other programs: run to their end with input and captured output, or kept running in the background.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "loader/base/fd.h"
#include "loader/base/result.h"

namespace poduplink::harness {

struct Command {
  std::vector<std::string> argv;         // argv[0]: a path, or a name looked up in PATH
  std::vector<std::string> environment;  // "NAME=value", put over the inherited ones
  bool clean_environment = false;        // inherit nothing
  std::string input;                     // standard input; then end of file
  int netns_fd = -1;                     // network namespace to run in; -1: the caller's
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

struct Outcome {
  int status = -1;         // exit code, or 128 + signal
  std::string out;         // standard output, whole
  std::string err;         // standard error, whole
  bool timed_out = false;  // it was killed, with its process group
  bool held_open = false;  // it ended, but a child of it kept its output open
  std::chrono::microseconds duration{0};

  [[nodiscard]] bool ok() const { return status == 0 && !timed_out; }
  // All of it on a few lines, for messages.
  [[nodiscard]] std::string text() const;
};

// Errors: errno of pipe and fork, ENOENT naming a program that is not there. Exit codes are no errors.
Result<Outcome> run(const Command& command);

// run(), and an exit code other than 0 is an error with what the program printed. Returns its output.
Result<std::string> run_ok(const Command& command);

// A program that runs on. Both its outputs go to one file. It is killed by the destructor.
class Background {
 public:
  Background() = default;
  // `log_path` is made anew. `detached`: it gets a session of its own and outlives this process.
  static Result<Background> start(const Command& command, const std::string& log_path, bool detached = false);
  Background(Background&& other) noexcept;
  Background& operator=(Background&& other) noexcept;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Still there, and not a zombie.
  [[nodiscard]] bool running() const;
  Result<> signal(int number) const;
  // Exit code or 128 + signal; nothing where it did not end within `timeout`.
  std::optional<int> wait(std::chrono::milliseconds timeout);
  // Forgets the process: it is left running.
  pid_t release();

 private:
  Background(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  void end();

  pid_t pid_ = -1;
  Fd pidfd_;
};

// A process is known by its number and its start time (clock ticks after boot): numbers are used again.
Result<unsigned long long> process_start_time(pid_t pid);

}  // namespace poduplink::harness
