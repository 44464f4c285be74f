// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY
#include <algorithm>

#include <fmt/format.h>

#include "loader/base/format.h"

namespace poduplink {

std::string formatted_args(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

std::string one_line(std::string_view text) {
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; };
  std::string line;
  line.reserve(text.size());
  for (;;) {
    const auto plain = static_cast<std::size_t>(std::ranges::find_if(text, is_control) - text.begin());
    line += text.substr(0, plain);
    if (plain == text.size()) return line;
    const char control = text[plain];
    line += control == '\n' ? "\\n" : fmt::format("\\x{:02x}", static_cast<unsigned>(control));
    text.remove_prefix(plain + 1);
  }
}

}  // namespace poduplink
