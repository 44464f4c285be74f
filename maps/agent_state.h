// SPDX-License-Identifier: Apache-2.0
// RUN_DIR/agent.json: what the agent made of its configuration, for the plugin's STATUS and for poduplinkctl. It
// stays when the agent ends, as the datapath does: it is the agent's last word, and no sign of life.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loader/base/result.h"

namespace poduplink {

// One interface that the agent manages, or should and cannot.
struct UplinkReport {
  std::string configured;  // name or MAC in the configuration; empty where the agent found it
  std::string name;
  std::string mac;
  int ifindex = 0;     // 0: there is none
  std::string role;    // "home", "transit", "none"
  std::string state;   // "up", "down", "missing", "refused"
  std::string how;     // how it came to be managed
  std::string reason;  // what is wrong with it; empty where nothing is

  friend bool operator==(const UplinkReport&, const UplinkReport&) = default;
};

struct AgentState {
  bool ready = false;
  std::vector<std::string> reasons;   // why not
  std::vector<std::string> warnings;  // what an operator should look at; none keeps pods from working
  int pid = 0;
  std::string version;
  std::vector<UplinkReport> uplinks;

  friend bool operator==(const AgentState&, const AgentState&) = default;
};

std::string write_agent_state_text(const AgentState& state);
// Errors: text that is no such document, with what is wrong.
Result<AgentState> parse_agent_state_text(const std::string& text);

Result<> store_agent_state(const std::string& run_dir, const AgentState& state);
// Nothing where no agent has come so far. Errors: a file that cannot be read, by its path.
Result<std::optional<AgentState>> load_agent_state(const std::string& run_dir);

}  // namespace poduplink
