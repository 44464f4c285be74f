// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include "loader/base/format.h"

namespace poduplink {

std::string formatted_args(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

}  // namespace poduplink
