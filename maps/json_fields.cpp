// SPDX-License-Identifier: Apache-2.0
#include "maps/json_fields.h"

#include <limits>

#include <nlohmann/json.hpp>

namespace poduplink {

Result<std::int64_t> integer_at(const nlohmann::json& json, const char* key, std::int64_t max) {
  const nlohmann::json& value = json.at(key);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max))
    return value.get<std::int64_t>();
  return fail("{}: {} is no number from 0 to {}", key, value.type_name(), max);
}

Result<int> index_at(const nlohmann::json& json, const char* key) {
  PDL_TRY_ASSIGN(const std::int64_t index, integer_at(json, key, std::numeric_limits<int>::max()));
  return static_cast<int>(index);
}

}  // namespace poduplink
