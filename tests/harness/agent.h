// SPDX-License-Identifier: Apache-2.0
// poduplinkd under test: started in a node, waited for by sd_notify, killed.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "tests/harness/process.h"

namespace poduplink::harness {

struct AgentStart {
  std::vector<std::string> argv;
  int netns_fd = -1;
  std::string notify_path;  // NOTIFY_SOCKET
  std::string log_path;
  std::chrono::milliseconds patience = std::chrono::seconds(20);
  bool detached = false;  // outlives this process
};

class Agent {
 public:
  Agent() = default;

  // Starts it and waits for READY=1. Errors: it ended before, or did not become ready in time; with its log.
  Result<> start(const AgentStart& start);
  // One that another process started. Nothing happens where it is gone.
  void adopt(pid_t pid, unsigned long long start_time, std::string log_path);

  [[nodiscard]] bool running() const;
  [[nodiscard]] pid_t pid() const;
  Result<> kill(int signal) const;
  // Waits for its end: exit code or 128 + signal. Errors: ETIMEDOUT.
  Result<int> wait(std::chrono::milliseconds timeout = std::chrono::seconds(10));
  // SIGTERM and wait. Errors: it did not end, or not with 0; with its log.
  Result<> stop();
  // SIGKILL and wait.
  Result<> kill_hard();
  // What it printed since it was last started.
  [[nodiscard]] std::string log() const;
  // All notifications so far, a line each ("READY=1", "STATUS=…").
  [[nodiscard]] std::string notifications();
  // Waits for a notification line. False where it did not come.
  bool wait_for_notification(const std::string& line, std::chrono::milliseconds timeout);
  // Lets it run on when this object ends.
  void release();

 private:
  Result<> open_notify_socket(const std::string& path);
  void read_notifications();

  Background process_;
  Fd notify_;
  std::string notifications_;
  std::string log_path_;
  // Of an adopted agent, which is no child of this process.
  pid_t foreign_pid_ = -1;
  unsigned long long foreign_start_ = 0;
};

}  // namespace poduplink::harness
