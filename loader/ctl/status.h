// SPDX-License-Identifier: Apache-2.0
// The node at a glance, as `status` shows it and `doctor` goes on from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loader/base/result.h"
#include "loader/ctl/node.h"
#include "maps/agent_state.h"

namespace poduplink::ctl {

enum class Severity { problem, warning };

// Something that is not as it should be. A problem keeps pods from their traffic, or will.
struct Finding {
  Severity severity = Severity::problem;
  std::string what;
  std::string means;  // for the pods
  std::string todo;
};

struct NodeStatus {
  std::vector<Finding> findings;
  bool agent_runs = false;
  std::optional<AgentState> agent;  // its last word
  std::string folder;               // PIN_DIR/v<ABI>; empty: there is no datapath
  std::vector<Fill> fills;
  std::size_t attachments = 0;

  [[nodiscard]] std::vector<std::string> all(Severity severity) const;
};

// What cannot be read is a problem of the node, and no error.
Result<NodeStatus> node_status(const Settings& settings);

}  // namespace poduplink::ctl
