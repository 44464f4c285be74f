// SPDX-License-Identifier: Apache-2.0
// Runs another program to its end, within bounds.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "loader/base/result.h"

namespace poduplink {

struct ProcessRequest {
  std::string path;
  std::vector<std::string> environment;  // "NAME=value", all of it
  std::string input;                     // for its standard input
  std::chrono::milliseconds timeout{};
  bool stoppable = true;  // a held signal ends it
  std::size_t output_limit = std::size_t{1} << 20;
  std::function<void()> meanwhile;  // done once, while the program runs; nothing that takes long
};

enum class ProcessEnd {
  exited,       // by itself; `value` is its exit status
  signalled,    // by a signal that is not ours; `value` is its number
  timed_out,    // ended by us, with its process group
  interrupted,  // the same, because we were asked to stop
  flooding,     // the same, because its output passed the limit
};

struct ProcessOutcome {
  ProcessEnd end = ProcessEnd::exited;
  int value = 0;
  std::string output;  // its standard output
};

// The program gets its own process group and dies with us. Its standard error is passed on to ours while it
// runs. Neither a program that does not read its input nor one that leaves a child behind which holds its
// pipes makes this wait. A program that is being written to (ETXTBSY) is tried again for up to 5 s.
// Errors: errno of execve and of what comes before it.
Result<ProcessOutcome> run_process(const ProcessRequest& request);

// From now on SIGTERM, SIGINT and SIGHUP wait until somebody asks for them; programs that are started get
// the signal mask of before.
void hold_signals();

// One of the held signals has arrived.
bool stop_requested();

}  // namespace poduplink
