// SPDX-License-Identifier: Apache-2.0
// The one setting of an uplink that the agent may change, and only with "manageRpFilter": strict rp_filter to
// loose, and back.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "loader/memory.h"
#include "loader/snapshot.h"

namespace poduplink {

// Sets the devices of `manage` to loose where they are strict and remembers what they had; puts back those
// that are remembered and no longer managed. Returns what failed, by interface.
std::vector<std::string> manage_rp_filter(const std::set<int>& manage, const Snapshot& snapshot, AgentMemory& memory);

}  // namespace poduplink
