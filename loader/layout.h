// SPDX-License-Identifier: Apache-2.0
// Layouts of map keys and values as BTF describes them, and values moved from one layout to another.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "loader/base/result.h"

struct btf;

namespace poduplink {

// One type with the BTF that describes it.
struct Layout {
  std::shared_ptr<const btf> types;
  std::uint32_t type = 0;
};

struct MapLayout {
  Layout key;
  Layout value;
};

// Errors: the map has no BTF.
Result<MapLayout> map_layout(int map_fd);

// Copies what both layouts have by the same name: numbers whatever their width, arrays as far as the shorter one goes,
// structs member by member. The rest of `target` stays. Errors name the member: another kind of type, a number that
// does not fit.
Result<> convert(const Layout& from, std::span<const std::uint8_t> source, const Layout& to,
                 std::span<std::uint8_t> target);

// Where every member of `from` is in `to` as well, and the other way round.
bool same_members(const Layout& from, const Layout& to);

}  // namespace poduplink
