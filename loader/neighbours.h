// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "loader/desired.h"
#include "loader/memory.h"
#include "loader/net/netlink.h"
#include "loader/snapshot.h"

namespace poduplink {

// Permanent neighbours of gateways ("gatewayMac"): sets those that are not there as wanted, removes those that
// the agent set before and are wanted no more. Returns what failed.
std::vector<std::string> keep_permanent_neighbours(Netlink& netlink, const std::set<PermanentNeighbour>& wanted,
                                                   const Snapshot& snapshot, AgentMemory& memory);

}  // namespace poduplink
