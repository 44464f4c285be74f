// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/calls.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <utility>

#include "loader/base/fd.h"
#include "loader/base/format.h"
#include "loader/base/result.h"

namespace poduplink::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int patience_ms = 120000;

[[noreturn]] void give_up(int code, const std::string& what) {
  throw std::runtime_error(formatted("{}: {}", what, errno_text(code)));
}

// Standard input is the file, standard output the pipe; nobody reads what it logs.
class Redirections {
 public:
  Redirections(const std::string& input, int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, input.c_str(), O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  Redirections(const Redirections&) = delete;
  Redirections& operator=(const Redirections&) = delete;
  ~Redirections() { ::posix_spawn_file_actions_destroy(&actions_); }

  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// A running call. Killed where it is not over.
class Running {
 public:
  explicit Running(const Call& call) : path_(call.path) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) give_up(errno, "pipe");
    output_ = Fd(ends[0]);
    const Fd theirs(ends[1]);
    const Redirections redirections(call.input, theirs.get());
    std::vector<std::string> variables = call.environment;
    std::vector<char*> environment;
    environment.reserve(variables.size() + 1);
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    std::array<char*, 2> arguments{path_.data(), nullptr};
    begin_ = Clock::now();
    const int code =
        ::posix_spawn(&pid_, path_.c_str(), redirections.get(), nullptr, arguments.data(), environment.data());
    if (code != 0) give_up(code, path_);
    process_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  Running(Running&& other) noexcept
      : path_(std::move(other.path_)),
        pid_(std::exchange(other.pid_, -1)),
        begin_(other.begin_),
        output_(std::move(other.output_)),
        process_(std::move(other.process_)),
        answer_(std::move(other.answer_)) {}
  Running& operator=(Running&&) = delete;
  ~Running() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] bool over() const { return pid_ <= 0; }
  // What to wait for: output first, then the exit. -1: nothing.
  [[nodiscard]] int waits_for() const { return output_ ? output_.get() : process_.get(); }

  // When that is ready.
  void go_on() {
    if (output_) {
      std::array<char, 16384> chunk;
      const ssize_t got = ::read(output_.get(), chunk.data(), chunk.size());
      if (got > 0) {
        answer_.out.append(chunk.data(), static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        output_.reset();
      }
      return;
    }
    int status = 0;
    if (::waitpid(pid_, &status, 0) != pid_) return;
    answer_.us = std::chrono::duration<double, std::micro>(Clock::now() - begin_).count();
    answer_.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    pid_ = -1;
    process_.reset();
  }

  [[nodiscard]] Answer& answer() { return answer_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  pid_t pid_ = -1;
  Clock::time_point begin_;
  Fd output_;
  Fd process_;
  Answer answer_;
};

}  // namespace

std::vector<Answer> call_at_once(const std::vector<Call>& calls) {
  std::vector<Running> running;
  running.reserve(calls.size());
  for (const Call& one : calls) running.emplace_back(one);
  std::vector<pollfd> ready(running.size());
  while (!std::ranges::all_of(running, &Running::over)) {
    for (std::size_t i = 0; i < running.size(); ++i) ready[i] = {running[i].waits_for(), POLLIN, 0};
    if (::poll(ready.data(), ready.size(), patience_ms) == 0)
      throw std::runtime_error(running.front().path() + " does not end");
    for (std::size_t i = 0; i < running.size(); ++i) {
      if (ready[i].revents != 0) running[i].go_on();
    }
  }
  std::vector<Answer> answers;
  answers.reserve(running.size());
  for (Running& one : running) answers.push_back(std::move(one.answer()));
  return answers;
}

Answer call(const Call& asked) { return std::move(call_at_once({asked}).front()); }

}  // namespace poduplink::bench
