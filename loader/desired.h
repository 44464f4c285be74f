// SPDX-License-Identifier: Apache-2.0
// What the maps, hooks and neighbours should be: a pure function of configuration, snapshot and memory.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "loader/base/address.h"
#include "loader/config.h"
#include "loader/snapshot.h"
#include "maps/abi.h"
#include "maps/agent_state.h"

namespace poduplink {

// A name and the MAC that went with it: records of pods say so what uplink theirs was when they were added.
struct UplinkIdentity {
  std::string name;
  MacAddress mac;

  friend bool operator==(const UplinkIdentity&, const UplinkIdentity&) = default;
};

// How an uplink is found again after a rename, a MAC change or a return under another index.
struct KnownUplink {
  std::string name;
  MacAddress mac;
  int index = 0;
  std::vector<UplinkIdentity> former;  // the latest last

  friend bool operator==(const KnownUplink&, const KnownUplink&) = default;
};

// By UplinkConfig::label(); discovered ones by "discovered " and the MAC of their first sight.
using UplinkMemory = std::map<std::string, KnownUplink>;

struct DesiredUplink {
  int index = 0;
  bool present = true;  // false: vanished; its entry stays so that whenDown holds for its pods
  pdl_uplink value{};
  std::vector<UplinkIdentity> former;

  [[nodiscard]] bool is_home() const { return value.role == PDL_ROLE_HOME; }
  [[nodiscard]] std::string name() const { return value.name; }
};

struct PermanentNeighbour {
  int link = 0;
  IpAddress address;
  MacAddress mac;

  friend auto operator<=>(const PermanentNeighbour&, const PermanentNeighbour&) = default;
};

struct Desired {
  std::vector<DesiredUplink> uplinks;  // homes first, then transit, each in order of index
  std::map<IpAddress, pdl_node> nodes;
  std::vector<std::pair<Prefix, std::uint32_t>> exempt;  // with the number of the item
  std::set<PermanentNeighbour> neighbours;
  std::set<int> manage_rp_filter;  // homes that may be set to loose
  std::vector<UplinkReport> report;
  std::vector<std::string> reasons;  // why the agent is not ready; empty: nothing stands in the way
  UplinkMemory memory;

  [[nodiscard]] const DesiredUplink* find(int index) const;
};

// Reasons name the interface or map at fault.
Desired make_desired(const AgentConfig& config, const Snapshot& snapshot, const UplinkMemory& memory);

}  // namespace poduplink
