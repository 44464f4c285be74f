// SPDX-License-Identifier: Apache-2.0
// A world of its own for a program that builds networks: whatever happens to it, nothing stays behind.
#pragma once

#include <string>

#include "loader/base/result.h"

namespace poduplink::harness {

// Exit code by which CTest knows a skipped test (SKIP_RETURN_CODE).
inline constexpr int skipped = 4;

// Goes on in a child process that has its own mount, network and PID namespaces, a fresh /proc and an empty
// /run. The calling process waits and ends with the child's exit code; when it is killed, the kernel ends
// everything in the PID namespace, and the namespaces, mounts and pins go with it.
// Call it first thing in main, before any thread. Returns in the child only. Without the privileges for
// it, prints why and ends the process with `skipped`, or with 1 where `required`.
void isolate(bool required);

// Processes other than this one and its namespace's first: "pid name", for a check that none was left.
Result<std::string> other_processes();

}  // namespace poduplink::harness
