// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include "loader/base/format.h"

namespace poduplink {

std::string formatted_args(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

std::string one_line(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if ((c >= 0 && c < ' ') || c == '\x7f') {
      line += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace poduplink
