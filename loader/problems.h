// SPDX-License-Identifier: Apache-2.0
// What could not be done, a line each, where one failure does not keep the rest from being tried.
#pragma once

#include <string>
#include <vector>

#include "loader/base/result.h"

namespace poduplink {

using Problems = std::vector<std::string>;

inline void note(Problems& problems, const Result<>& result) {
  if (!result) problems.push_back(result.error().message);
}

inline void append(Problems& to, const Problems& more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace poduplink
