// SPDX-License-Identifier: Apache-2.0
// What a loaded program makes of a packet that nobody sends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/base/result.h"

namespace poduplink::ctl {

struct ProgramRun {
  unsigned verdict = 0;  // enum pdl_verdict
  int action = 0;        // TC_ACT_*
};

// Runs the program that is pinned under a version folder by BPF_PROG_TEST_RUN: on the node's own maps and connection
// tracking, and without sending anything. Its verdict is read from the counters, which therefore go up (by one, or a
// few where other packets came between), and a drop is told as an event. Needs the network namespace of the node.
// Errors: the kernel's refusal; so much traffic that the verdict cannot be told.
Result<ProgramRun> run_program(const std::string& version_folder, const std::string& program,
                               const std::vector<std::uint8_t>& frame, int ifindex, int ingress_ifindex);

}  // namespace poduplink::ctl
