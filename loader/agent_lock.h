// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "loader/base/fd.h"
#include "loader/base/result.h"

namespace poduplink {

// RUN_DIR/agent.lock, held by an agent for its whole life and by --unload. Freed with the descriptor, so by
// the kernel when the agent is killed. Errors: EAGAIN, with the process that holds it.
Result<Fd> take_agent_lock(const std::string& run_dir);

}  // namespace poduplink
