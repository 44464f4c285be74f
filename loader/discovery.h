// SPDX-License-Identifier: Apache-2.0
// Which interfaces are uplinks when the configuration lists none. Interfaces are judged by what they are
// (link kind, routes, addresses), never by their names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loader/base/address.h"
#include "loader/snapshot.h"

namespace poduplink {

struct ChosenUplink {
  int link = 0;
  int pass = 0;     // 1: own default route, 2: the primary's subnet, 3: inferred gateway
  std::string how;  // for the operator
};

struct RefusedLink {
  int link = 0;
  std::string reason;
};

struct Discovery {
  std::optional<int> primary;        // ifindex behind the default route with the lowest metric
  std::vector<ChosenUplink> chosen;  // by pass, then by index
  std::vector<RefusedLink> refused;  // every other link but loopback and pods' veths
};

// The gateway of a link's own default route of one family, the one with the lowest metric.
std::optional<IpAddress> default_gateway(const Snapshot& snapshot, int link, Family family);

// Why this can be no uplink that nobody listed, up or not; empty: it can.
std::string why_no_candidate(const Snapshot& snapshot, const Link& link);

// The gateway of an IPv4 subnet on a discovered uplink without a default route of its own: the primary's where that has
// the same subnet, else the subnet's first address where that is nobody's here. As the plugin does for pods.
std::optional<IpAddress> inferred_gateway(const Snapshot& snapshot, const Prefix& subnet);

Discovery discover_uplinks(const Snapshot& snapshot);

}  // namespace poduplink
