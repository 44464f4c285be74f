// SPDX-License-Identifier: Apache-2.0
// From the maps of one ABI to those of another: what both know by the same name is copied, whatever its place and width
// in the struct is.
#pragma once

#include <string>

#include "loader/base/result.h"

namespace poduplink {

// Makes the maps under `to` hold what those under `from` hold (folders PIN_DIR/v<ABI>): keys and values member by
// member, by name, as the maps' BTF describes them. Members that only the new layout has are zero, for the agent to
// fill. Counters come along. Entries that `to` has beyond that are erased. The caller holds GlobalLock. Returns the
// number of entries. Errors name the map: a number that does not fit into its narrower successor, a key that changed,
// ENOSPC.
Result<unsigned> copy_maps(const std::string& from, const std::string& to);

}  // namespace poduplink
