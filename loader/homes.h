// SPDX-License-Identifier: Apache-2.0
// Which interfaces are the homes: the configuration's uplinks found in a snapshot, or the discovered ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loader/config.h"
#include "loader/desired.h"
#include "loader/snapshot.h"

namespace poduplink {

// One uplink that was asked for: a link, or why there is none.
struct Home {
  std::string label;                 // key in the memory
  UplinkConfig config;               // of a discovered one: the defaults
  const Link* link = nullptr;        // null: missing or refused
  std::optional<KnownUplink> known;  // what was or is known of it
  std::string how;
  std::string problem;   // why link is null
  bool refused = false;  // it is there, but cannot be an uplink
  bool discovered = false;
};

// Configured items in order, or discovered links by pass; then, for the report, the links that discovery refused.
std::vector<Home> find_homes(const AgentConfig& config, const Snapshot& snapshot, const UplinkMemory& memory);

// Devices that unicast routes of the main table leave by, with the first such route, other than homes and pods' veths.
std::map<int, std::string> transit_links(const Snapshot& snapshot, const std::set<int>& homes);

// Refuses homes that are stacked on an interface which bears the uplink programs too.
void refuse_stacked(std::vector<Home>& homes, const Snapshot& snapshot, const std::set<int>& transit);

}  // namespace poduplink
