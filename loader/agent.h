// SPDX-License-Identifier: Apache-2.0
// The node agent: brings the datapath to what configuration and machine say, and keeps it there.
#pragma once

#include <memory>
#include <string>

#include "loader/base/result.h"

namespace poduplink {

struct AgentOptions {
  std::string config_path;
  bool config_named = false;  // by the operator: it must exist
  std::string pin_dir;
  std::string run_dir;
  bool force_clsact = false;  // filters on uplinks even where the kernel has tcx
};

// Runs until SIGTERM or SIGINT and leaves the datapath in place. Errors: what kept it from starting; then
// nothing was changed, or it was taken back.
Result<> run_agent(const AgentOptions& options);

}  // namespace poduplink
