// SPDX-License-Identifier: Apache-2.0
// Programs run as a container runtime runs a CNI plugin, one after the other or many at once, each from its start to
// its exit. They are started without a copy of this process (posix_spawn), so that its size costs them nothing.
#pragma once

#include <string>
#include <vector>

namespace poduplink::bench {

struct Call {
  std::string path;
  std::vector<std::string> environment;  // all of it
  std::string input;                     // a file
};

struct Answer {
  double us = 0;    // from before the start until its output was read and its exit was known
  int status = -1;  // exit code, or 128 + signal
  std::string out;
};

// In the network namespace of the calling thread. All are running before the first is waited for. Throws where one
// cannot be started or does not end within two minutes.
std::vector<Answer> call_at_once(const std::vector<Call>& calls);
Answer call(const Call& asked);

}  // namespace poduplink::bench
