// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "loader/base/file.h"

namespace poduplink::harness {
namespace {

using Clock = std::chrono::steady_clock;

// Exit code of a child that could not even start the program; its errno comes through a pipe.
constexpr int start_failed = 127;

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// What execvpe needs, made before the fork: after it a child of a threaded program may not allocate.
class Image {
 public:
  explicit Image(const Command& command) : arguments_(command.argv) {
    if (!command.clean_environment) {
      for (char** entry = environ; *entry != nullptr; ++entry) put(*entry);
    }
    for (const std::string& entry : command.environment) put(entry);
    for (std::string& text : arguments_) argv_.push_back(text.data());
    for (std::string& text : variables_) environment_.push_back(text.data());
    argv_.push_back(nullptr);
    environment_.push_back(nullptr);
  }

  void execute() const { execvpe(argv_[0], argv_.data(), environment_.data()); }

 private:
  void put(const std::string& entry) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    std::erase_if(variables_, [&](const std::string& other) { return other.starts_with(name); });
    variables_.push_back(entry);
  }

  std::vector<std::string> arguments_;
  std::vector<std::string> variables_;
  std::vector<char*> argv_;
  std::vector<char*> environment_;
};

struct ChildSetup {
  int input = -1;
  int output = -1;
  int errors = -1;
  int failure = -1;
  int netns = -1;
  bool new_session = false;
};

[[noreturn]] void become(const Image& image, const ChildSetup& setup) {
  if (setup.new_session) {
    setsid();
  } else {
    setpgid(0, 0);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  const bool ready = (setup.netns < 0 || setns(setup.netns, CLONE_NEWNET) == 0) && dup2(setup.input, 0) >= 0 &&
                     dup2(setup.output, 1) >= 0 && dup2(setup.errors, 2) >= 0;
  if (ready) image.execute();
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = write(setup.failure, &reason, sizeof(reason));
  _exit(start_failed);
}

// Forks; returns once the program runs. Errors: errno of what kept it from running.
Result<pid_t> launch(const Command& command, ChildSetup setup) {
  if (command.argv.empty()) return fail("a command without a program");
  PDL_TRY_ASSIGN(Pipe failure, make_pipe());
  setup.failure = failure.write.get();
  setup.netns = command.netns_fd;
  const Image image(command);
  const pid_t pid = fork();
  if (pid < 0) return fail_errno(errno, "fork for {}", command.argv[0]);
  if (pid == 0) become(image, setup);
  failure.write.reset();
  int reason = 0;
  ssize_t size = 0;
  do {
    size = read(failure.read.get(), &reason, sizeof(reason));
  } while (size < 0 && errno == EINTR);
  if (size != static_cast<ssize_t>(sizeof(reason))) return pid;
  waitpid(pid, nullptr, 0);
  return fail_errno(reason, "starting {}", command.argv[0]);
}

Result<Fd> open_pidfd(pid_t pid) {
  const long fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return fail_errno(errno, "pidfd_open {}", pid);
  return Fd(static_cast<int>(fd));
}

int exit_status(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

// Feeds and drains one child until it ended and its outputs are closed, or time is up.
class Conversation {
 public:
  Conversation(pid_t pid, Fd pidfd, Fd input, Fd output, Fd errors, const Command& command)
      : pid_(pid), pidfd_(std::move(pidfd)), input_(std::move(input)), command_(command) {
    outputs_[0] = std::move(output);
    outputs_[1] = std::move(errors);
    for (const int fd : {input_.get(), outputs_[0].get(), outputs_[1].get()}) fcntl(fd, F_SETFL, O_NONBLOCK);
    if (command_.input.empty()) input_.reset();
  }

  Outcome hold() {
    const Clock::time_point start = Clock::now();
    Clock::time_point deadline = start + command_.timeout;
    while (pidfd_ || outputs_[0] || outputs_[1]) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) {
        give_up();
        break;
      }
      const bool was_running = pidfd_.valid();
      step(static_cast<int>(left));
      if (was_running && !pidfd_) {
        outcome_.duration = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
        deadline = Clock::now() + std::chrono::seconds(1);
      }
    }
    return std::move(outcome_);
  }

 private:
  void step(int timeout_ms) {
    std::array<pollfd, 4> polled{};
    polled[0] = {pidfd_.get(), POLLIN, 0};
    polled[1] = {outputs_[0].get(), POLLIN, 0};
    polled[2] = {outputs_[1].get(), POLLIN, 0};
    polled[3] = {input_.get(), POLLOUT, 0};
    if (poll(polled.data(), polled.size(), timeout_ms) <= 0) return;
    if (polled[1].revents != 0) drain(outputs_[0], outcome_.out);
    if (polled[2].revents != 0) drain(outputs_[1], outcome_.err);
    if (polled[3].revents != 0) feed();
    if (polled[0].revents != 0) reap();
  }

  static void drain(Fd& fd, std::string& into) {
    std::array<char, 16384> buffer;
    const ssize_t size = read(fd.get(), buffer.data(), buffer.size());
    if (size > 0) {
      into.append(buffer.data(), static_cast<std::size_t>(size));
    } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
      fd.reset();
    }
  }

  void feed() {
    const ssize_t size = write(input_.get(), command_.input.data() + fed_, command_.input.size() - fed_);
    if (size > 0) fed_ += static_cast<std::size_t>(size);
    const bool broken = size < 0 && errno != EAGAIN && errno != EINTR;
    if (broken || fed_ == command_.input.size()) input_.reset();
  }

  void reap() {
    int status = 0;
    waitpid(pid_, &status, 0);
    outcome_.status = exit_status(status);
    pidfd_.reset();
  }

  void give_up() {
    if (!pidfd_) {
      outcome_.held_open = true;
      return;
    }
    outcome_.timed_out = true;
    kill(-pid_, SIGKILL);
    reap();
  }

  pid_t pid_;
  Fd pidfd_;
  Fd input_;
  std::array<Fd, 2> outputs_;
  const Command& command_;
  std::size_t fed_ = 0;
  Outcome outcome_;
};

// A child that ends without reading must not end us by SIGPIPE.
void ignore_broken_pipes() {
  [[maybe_unused]] static const bool once = [] {
    signal(SIGPIPE, SIG_IGN);
    return true;
  }();
}

}  // namespace

std::string Outcome::text() const {
  std::string text = timed_out ? "timed out" : formatted("exit status {}", status);
  if (held_open) text += ", output kept open by a child";
  if (!out.empty()) text += "\nstdout: " + out;
  if (!err.empty()) text += "\nstderr: " + err;
  return text;
}

Result<Outcome> run(const Command& command) {
  ignore_broken_pipes();
  PDL_TRY_ASSIGN(Pipe input, make_pipe());
  PDL_TRY_ASSIGN(Pipe output, make_pipe());
  PDL_TRY_ASSIGN(Pipe errors, make_pipe());
  ChildSetup setup;
  setup.input = input.read.get();
  setup.output = output.write.get();
  setup.errors = errors.write.get();
  PDL_TRY_ASSIGN(const pid_t pid, launch(command, setup));
  input.read.reset();
  output.write.reset();
  errors.write.reset();
  auto pidfd = open_pidfd(pid);
  if (!pidfd) {
    kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return Failure(std::move(pidfd.error()));
  }
  return Conversation(pid, std::move(*pidfd), std::move(input.write), std::move(output.read), std::move(errors.read),
                      command)
      .hold();
}

Result<std::string> run_ok(const Command& command) {
  PDL_TRY_ASSIGN(Outcome outcome, run(command));
  if (outcome.ok()) return std::move(outcome.out);
  std::string line;
  for (const std::string& argument : command.argv) line += (line.empty() ? "" : " ") + argument;
  return fail("{}: {}", line, outcome.text());
}

Result<Background> Background::start(const Command& command, const std::string& log_path, bool detached) {
  PDL_TRY_ASSIGN(const Fd log, open_file(log_path, O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0600));
  PDL_TRY_ASSIGN(const Fd nothing, open_file("/dev/null", O_RDONLY));
  ChildSetup setup;
  setup.input = nothing.get();
  setup.output = log.get();
  setup.errors = log.get();
  setup.new_session = detached;
  PDL_TRY_ASSIGN(const pid_t pid, launch(command, setup));
  PDL_TRY_ASSIGN(Fd pidfd, open_pidfd(pid));
  return Background(pid, std::move(pidfd));
}

Background::Background(Background&& other) noexcept : pid_(other.pid_), pidfd_(std::move(other.pidfd_)) {
  other.pid_ = -1;
}

Background& Background::operator=(Background&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = other.pid_;
    pidfd_ = std::move(other.pidfd_);
    other.pid_ = -1;
  }
  return *this;
}

Background::~Background() { end(); }

void Background::end() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool Background::running() const {
  if (pid_ < 0) return false;
  pollfd polled{pidfd_.get(), POLLIN, 0};
  return poll(&polled, 1, 0) == 0;
}

Result<> Background::signal(int number) const {
  if (pid_ < 0) return fail("no process to send signal {} to", number);
  if (kill(pid_, number) != 0) return fail_errno(errno, "signal {} to process {}", number, pid_);
  return {};
}

std::optional<int> Background::wait(std::chrono::milliseconds timeout) {
  if (pid_ < 0) return std::nullopt;
  pollfd polled{pidfd_.get(), POLLIN, 0};
  if (poll(&polled, 1, static_cast<int>(timeout.count())) <= 0) return std::nullopt;
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return exit_status(status);
}

pid_t Background::release() {
  const pid_t pid = pid_;
  pid_ = -1;
  return pid;
}

Result<unsigned long long> process_start_time(pid_t pid) {
  PDL_TRY_ASSIGN(const std::string text, read_file(formatted("/proc/{}/stat", pid)));
  // Field 22; the name in parentheses may hold blanks and parentheses.
  std::size_t place = text.rfind(')');
  for (int field = 2; place != std::string::npos && field < 22; ++field) place = text.find(' ', place + 1);
  if (place == std::string::npos) return fail("/proc/{}/stat: cannot be read", pid);
  return std::strtoull(text.c_str() + place, nullptr, 10);
}

}  // namespace poduplink::harness
