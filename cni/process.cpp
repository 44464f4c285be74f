// SPDX-License-Identifier: Apache-2.0
#include "cni/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <thread>

#include "loader/base/fd.h"
#include "loader/base/file.h"

namespace poduplink {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long output is still read once the program itself has ended: what it wrote is in the pipes by then,
// and whoever else holds them is not waited for.
constexpr milliseconds drain_time(200);
// From SIGTERM to SIGKILL.
constexpr milliseconds mercy(1000);
constexpr milliseconds busy_patience(5000);
constexpr milliseconds busy_interval(100);

sigset_t original_mask;
bool holding = false;

sigset_t held_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  return set;
}

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<> set_nonblocking(const Fd& fd) {
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) return fail_errno(errno, "fcntl");
  return {};
}

struct Child {
  pid_t pid = -1;
  Fd process;  // readable once it has ended
  Fd input;
  Fd output;
  Fd errors;
};

// What the child needs between clone and execve. It shares the parent's memory until then, and the parent waits.
struct Birth {
  const char* path = nullptr;
  char* const* environment = nullptr;
  pid_t parent = -1;
  int input = -1;
  int output = -1;
  int errors = -1;
  int code = 0;  // errno of what it failed at
};

// A handler of ours would run in the parent's memory; execve takes them away too late for that.
void drop_handlers() {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGHUP}) {
    // What is ignored stays so.
    if (::signal(number, SIG_DFL) == SIG_IGN) (void)::signal(number, SIG_IGN);
  }
  (void)::signal(SIGPIPE, SIG_DFL);
}

// All signals are blocked when it begins.
int become(void* argument) {
  auto& birth = *static_cast<Birth*>(argument);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != birth.parent) {
    birth.code = ESRCH;
  } else if (::dup2(birth.input, STDIN_FILENO) < 0 || ::dup2(birth.output, STDOUT_FILENO) < 0 ||
             ::dup2(birth.errors, STDERR_FILENO) < 0) {
    birth.code = errno;
  } else {
    drop_handlers();
    ::sigprocmask(SIG_SETMASK, &original_mask, nullptr);
    char* const arguments[] = {const_cast<char*>(birth.path), nullptr};
    ::execve(birth.path, arguments, birth.environment);
    birth.code = errno;
  }
  ::_exit(127);
}

// The child without a copy of the parent's memory, which takes longer the more of it there is. Returns when it is
// another program. Errors: errno of clone, and what the child reports.
Result<Child> give_birth(Birth& birth) {
  sigset_t all;
  sigfillset(&all);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &all, &before);
  if (!holding) original_mask = before;
  constexpr int flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD;
  // Only the child writes there, and it never cleans up: nothing of this thread's own stack.
  constexpr std::size_t stack_size = 16384;
  const auto stack = std::make_unique_for_overwrite<char[]>(stack_size);
  int pidfd = -1;
  Child child;
  child.pid = ::clone(&become, stack.get() + stack_size, flags, &birth, &pidfd);
  if (child.pid < 0) birth.code = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  child.process = Fd(pidfd);
  if (birth.code == 0) return child;
  if (child.pid > 0) ::waitpid(child.pid, nullptr, 0);
  return fail_errno(birth.code, "{}", birth.path);
}

// Errors: as give_birth(), and errno of pipe and fcntl.
Result<Child> start(const ProcessRequest& request) {
  PDL_TRY_ASSIGN(Pipe input, make_pipe());
  PDL_TRY_ASSIGN(Pipe output, make_pipe());
  PDL_TRY_ASSIGN(Pipe errors, make_pipe());
  PDL_TRY(set_nonblocking(input.write));
  PDL_TRY(set_nonblocking(output.read));
  PDL_TRY(set_nonblocking(errors.read));
  std::vector<std::string> variables = request.environment;
  std::vector<char*> environment;
  environment.reserve(variables.size() + 1);
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  Birth birth{.path = request.path.c_str(),
              .environment = environment.data(),
              .parent = ::getpid(),
              .input = input.read.get(),
              .output = output.write.get(),
              .errors = errors.write.get()};
  PDL_TRY_ASSIGN(Child child, give_birth(birth));
  child.input = std::move(input.write);
  child.output = std::move(output.read);
  child.errors = std::move(errors.read);
  return child;
}

// Talks to a running child until it is over. One object, one run.
class Conversation {
 public:
  Conversation(Child child, const ProcessRequest& request) : child_(std::move(child)), request_(request) {
    if (holding && request.stoppable) {
      const sigset_t set = held_signals();
      signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC));
    }
    if (request_.input.empty()) child_.input.reset();
    deadline_ = Clock::now() + request.timeout;
  }

  ProcessOutcome run() {
    while (!over()) {
      std::array<pollfd, 5> ready = {{{child_.input.get(), POLLOUT, 0},
                                      {child_.output.get(), POLLIN, 0},
                                      {child_.errors.get(), POLLIN, 0},
                                      {ended_ ? -1 : child_.process.get(), POLLIN, 0},
                                      {ending_ || ended_ ? -1 : signals_.get(), POLLIN, 0}}};
      const auto left = std::chrono::ceil<milliseconds>(deadline_ - Clock::now()).count();
      ::poll(ready.data(), ready.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000)));
      if (ready[0].revents != 0) feed();
      if (ready[1].revents != 0) read_output();
      if (ready[2].revents != 0) pass_errors();
      if (ready[3].revents != 0) note_end();
      if (ready[4].revents != 0) end_it(ProcessEnd::interrupted);
      if (!ended_ && Clock::now() >= deadline_) on_deadline();
    }
    // Unreaped until here, so that the group's number cannot be anybody else's.
    if (ending_) ::kill(-child_.pid, SIGKILL);
    reap();
    return std::move(outcome_);
  }

 private:
  [[nodiscard]] bool over() const {
    if (!ended_) return false;
    return ending_ || (!child_.output && !child_.errors) || Clock::now() >= deadline_;
  }

  void feed() {
    const ssize_t written = ::write(child_.input.get(), request_.input.data() + fed_, request_.input.size() - fed_);
    if (written > 0) fed_ += static_cast<std::size_t>(written);
    const bool again = written < 0 && (errno == EAGAIN || errno == EINTR);
    if (fed_ == request_.input.size() || (written < 0 && !again)) child_.input.reset();
  }

  // What can be read now; closes `fd` at its end.
  static std::string read_some(Fd& fd) {
    std::array<char, 16384> chunk;  // not initialised: read says how much of it there is
    const ssize_t got = ::read(fd.get(), chunk.data(), chunk.size());
    if (got > 0) return {chunk.data(), static_cast<std::size_t>(got)};
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) fd.reset();
    return {};
  }

  void read_output() {
    outcome_.output += read_some(child_.output);
    if (outcome_.output.size() <= request_.output_limit) return;
    outcome_.output.resize(request_.output_limit);
    end_it(ProcessEnd::flooding);
  }

  void pass_errors() {
    // Nobody can be told that standard error cannot be written.
    [[maybe_unused]] const auto written = write_all(STDERR_FILENO, read_some(child_.errors));
  }

  void note_end() {
    ended_ = true;
    child_.input.reset();
    deadline_ = Clock::now() + drain_time;
  }

  void end_it(ProcessEnd why) {
    if (ending_) return;
    ending_ = true;
    outcome_.end = why;
    ::kill(-child_.pid, SIGTERM);
    deadline_ = Clock::now() + mercy;
  }

  void on_deadline() {
    if (!ending_) {
      end_it(ProcessEnd::timed_out);
      return;
    }
    ::kill(-child_.pid, SIGKILL);
    deadline_ = Clock::now() + mercy;
  }

  void reap() {
    int status = 0;
    while (::waitpid(child_.pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (ending_) return;
    outcome_.end = WIFSIGNALED(status) ? ProcessEnd::signalled : ProcessEnd::exited;
    outcome_.value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }

  Child child_;
  const ProcessRequest& request_;
  Fd signals_;
  Clock::time_point deadline_;
  std::size_t fed_ = 0;
  bool ended_ = false;   // the program itself is over
  bool ending_ = false;  // by our hand
  ProcessOutcome outcome_;
};

}  // namespace

Result<ProcessOutcome> run_process(const ProcessRequest& request) {
  const auto give_up = Clock::now() + busy_patience;
  for (;;) {
    auto child = start(request);
    if (child) {
      Conversation conversation(std::move(*child), request);
      if (request.meanwhile) request.meanwhile();
      return conversation.run();
    }
    if (child.error().code != ETXTBSY || Clock::now() >= give_up) return Failure(std::move(child.error()));
    std::this_thread::sleep_for(busy_interval);
  }
}

void hold_signals() {
  if (holding) return;
  const sigset_t set = held_signals();
  holding = ::sigprocmask(SIG_BLOCK, &set, &original_mask) == 0;
}

bool stop_requested() {
  sigset_t pending;
  if (!holding || ::sigpending(&pending) != 0) return false;
  return ::sigismember(&pending, SIGTERM) == 1 || ::sigismember(&pending, SIGINT) == 1 ||
         ::sigismember(&pending, SIGHUP) == 1;
}

}  // namespace poduplink
