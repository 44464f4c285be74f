// SPDX-License-Identifier: Apache-2.0
// Writes what should be into the maps, entry by entry and only where it differs, so that a program never sees
// a map that is half empty.
#pragma once

#include <string>
#include <vector>

#include "loader/base/result.h"
#include "loader/desired.h"
#include "maps/tables.h"

namespace poduplink {

struct Published {
  unsigned changes = 0;               // entries that were written or erased
  std::vector<std::string> problems;  // what could not be written, by map and key; empty: the maps are as wanted

  void add(const Published& more);
};

Published publish_nodes(const Tables& tables, const Desired& desired);
Published publish_exempt(const Tables& tables, const Desired& desired);

// Entries of `uplinks` for those interfaces that `attached` holds, or that vanished, and their counters.
// Others' entries stay until retire_uplinks().
Published publish_uplinks(const Tables& tables, const Desired& desired, const std::set<int>& attached);

// Erases the entries of interfaces that are no longer managed.
Published retire_uplinks(const Tables& tables, const Desired& desired, const std::set<int>& attached);

}  // namespace poduplink
