// SPDX-License-Identifier: Apache-2.0
// What could not be done, a line each, where one failure does not keep the rest from being tried.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "loader/base/format.h"
#include "loader/base/result.h"

namespace poduplink {

using Problems = std::vector<std::string>;

inline void note(Problems& problems, const Result<>& result) {
  if (!result) problems.push_back(result.error().message);
}

// The first of many that have one cause: thousands of pods must not make a log unreadable.
inline Problems few(Problems all) {
  constexpr std::size_t shown = 5;
  if (all.size() <= shown) return all;
  const std::size_t more = all.size() - shown;
  all.resize(shown);
  all.push_back(formatted("and {} more", more));
  return all;
}

inline void append(Problems& to, const Problems& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace poduplink
