// SPDX-License-Identifier: Apache-2.0
// What the agent remembers over its restarts: how uplinks are found again, and every change on a link that
// --unload, or a changed configuration, has to take back. RUN_DIR/agent-memory.json, nobody else's business.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "loader/base/result.h"
#include "loader/desired.h"

namespace poduplink {

// The device's own rp_filter before the agent set it to loose.
struct SavedRpFilter {
  std::string name;
  int value = 0;

  friend bool operator==(const SavedRpFilter&, const SavedRpFilter&) = default;
};

struct AgentMemory {
  UplinkMemory uplinks;
  std::map<int, SavedRpFilter> rp_filter;  // by ifindex
  std::set<int> clsact;                    // links on which the agent made the qdisc
  std::set<PermanentNeighbour> neighbours;

  friend bool operator==(const AgentMemory&, const AgentMemory&) = default;
};

std::string agent_memory_path(const std::string& run_dir);

std::string write_memory_text(const AgentMemory& memory);
Result<AgentMemory> parse_memory_text(const std::string& text);

// Empty where there is none, or one that cannot be read (logged): then nothing is taken back, rather than too much.
AgentMemory load_memory(const std::string& run_dir);
Result<> store_memory(const std::string& run_dir, const AgentMemory& memory);

}  // namespace poduplink
