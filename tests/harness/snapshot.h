// SPDX-License-Identifier: Apache-2.0
// What a node's network looks like, so that a test can say what was changed and not put back.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "loader/base/result.h"
#include "tests/harness/namespace.h"

namespace poduplink::harness {

// Items by a name that says what they are: "link eth1" → "up mtu 1500 …". Without counters, ages and what
// the kernel learns by itself (neighbours that were resolved).
struct Snapshot {
  std::map<std::string, std::string> items;
};

// Links with MTU, MAC, flags, queues and whatever else can be set; addresses; routes of all tables; rules; permanent
// and proxy neighbours; multicast groups; qdiscs; the settings of the links named in `uplinks`, of "all" and "default"
// under /proc/sys/net/ipv4|ipv6/conf|neigh. Read by the `ip` and `tc` programs, so that no code under test has a part
// in it.
Result<Snapshot> take_snapshot(const Namespace& space, const std::vector<std::string>& uplinks);

// One line for each item that is new, gone or different.
std::vector<std::string> differences(const Snapshot& before, const Snapshot& now);

}  // namespace poduplink::harness
