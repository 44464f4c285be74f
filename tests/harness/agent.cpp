// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/agent.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "loader/base/file.h"

namespace poduplink::harness {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto step = std::chrono::milliseconds(20);

}  // namespace

Result<> Agent::open_notify_socket(const std::string& path) {
  PDL_TRY(remove_file(path));
  notify_.reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return fail("notify socket: path too long: {}", path);
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (bind(notify_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return fail_errno(errno, "notify socket {}", path);
  notifications_.clear();
  return {};
}

Result<> Agent::start(const AgentStart& start) {
  if (running()) return fail("an agent runs already, process {}", pid());
  PDL_TRY(open_notify_socket(start.notify_path));
  log_path_ = start.log_path;
  foreign_pid_ = -1;
  const Command command{
      .argv = start.argv, .environment = {"NOTIFY_SOCKET=" + start.notify_path}, .netns_fd = start.netns_fd};
  PDL_TRY_ASSIGN(process_, Background::start(command, start.log_path, start.detached));
  if (wait_for_notification("READY=1", start.patience)) return {};
  const bool alive = running();
  std::string how = formatted("was not ready within {} ms", start.patience.count());
  if (!alive) how = formatted("ended with {} before it was ready", process_.wait(std::chrono::seconds(1)).value_or(-1));
  process_ = {};
  return fail("agent {}; its log:\n{}", how, log());
}

void Agent::adopt(pid_t pid, unsigned long long start_time, std::string log_path) {
  foreign_pid_ = pid;
  foreign_start_ = start_time;
  log_path_ = std::move(log_path);
}

bool Agent::running() const {
  if (foreign_pid_ > 0) {
    const auto since = process_start_time(foreign_pid_);
    return since && *since == foreign_start_;
  }
  return process_.running();
}

pid_t Agent::pid() const { return foreign_pid_ > 0 ? foreign_pid_ : process_.pid(); }

Result<> Agent::kill(int signal) const {
  if (!running()) return fail("no agent runs");
  if (::kill(pid(), signal) != 0) return fail_errno(errno, "signal {} to agent {}", signal, pid());
  return {};
}

Result<int> Agent::wait(std::chrono::milliseconds timeout) {
  if (foreign_pid_ <= 0) {
    if (const auto status = process_.wait(timeout)) return *status;
    return fail_errno(ETIMEDOUT, "end of agent {}", pid());
  }
  const Clock::time_point deadline = Clock::now() + timeout;
  while (running()) {
    if (Clock::now() > deadline) return fail_errno(ETIMEDOUT, "end of agent {}", pid());
    std::this_thread::sleep_for(step);
  }
  foreign_pid_ = -1;
  return 0;  // the exit code of a process that is not a child is not to be had
}

Result<> Agent::stop() {
  PDL_TRY(kill(SIGTERM));
  auto status = wait();
  if (!status) {
    const std::string said = log();
    const auto killed = kill_hard();
    return fail("{}{}; its log:\n{}", status.error().message, killed ? "" : ", and " + killed.error().message, said);
  }
  if (*status != 0) return fail("agent ended with {} at SIGTERM; its log:\n{}", *status, log());
  return {};
}

Result<> Agent::kill_hard() {
  PDL_TRY(kill(SIGKILL));
  PDL_TRY(wait());
  return {};
}

std::string Agent::log() const { return read_file(log_path_).value_or("(no log)"); }

void Agent::read_notifications() {
  std::array<char, 4096> buffer;
  ssize_t size = 0;
  while (notify_ && (size = recv(notify_.get(), buffer.data(), buffer.size(), 0)) > 0) {
    notifications_.append(buffer.data(), static_cast<std::size_t>(size));
    if (notifications_.back() != '\n') notifications_ += '\n';
  }
}

std::string Agent::notifications() {
  read_notifications();
  return notifications_;
}

bool Agent::wait_for_notification(const std::string& line, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  for (;;) {
    if (("\n" + notifications()).find("\n" + line + "\n") != std::string::npos) return true;
    if (Clock::now() > deadline || !running()) return false;
    pollfd polled{notify_.get(), POLLIN, 0};
    poll(&polled, 1, 100);
  }
}

void Agent::release() { process_.release(); }

}  // namespace poduplink::harness
