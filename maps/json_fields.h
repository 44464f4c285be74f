// SPDX-License-Identifier: Apache-2.0
// Fields of the files in RUN_DIR, read strictly.
#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "loader/base/result.h"

namespace poduplink {

// A whole number from 0 to `max` as it stands there: the library would make one of 1.5, true, 1e300 and 2^32 + 1 too.
// Throws what nlohmann/json throws where the key is absent. Errors: any other value, by its key.
Result<std::int64_t> integer_at(const nlohmann::json& json, const char* key, std::int64_t max);
// An interface index.
Result<int> index_at(const nlohmann::json& json, const char* key);

}  // namespace poduplink
