// SPDX-License-Identifier: Apache-2.0
// Text from fmt format strings, checked at compile time. fmt's engine is compiled once, in format.cpp,
// because Debian has no static libfmt for the plugins to link.
#pragma once

#include <string>
#include <string_view>

#include <fmt/core.h>

namespace poduplink {

std::string formatted_args(fmt::string_view text, fmt::format_args args);

// formatted("uplink {} not found", name). Takes what fmt/core.h can print: numbers, strings, pointers.
template <typename... Args>
[[nodiscard]] std::string formatted(fmt::format_string<Args...> text, Args&&... args) {
  return poduplink::formatted_args(text, fmt::make_format_args(args...));
}

// The texts with `between` between them.
template <typename Texts>
[[nodiscard]] std::string joined(const Texts& texts, std::string_view between) {
  std::string all;
  bool first = true;
  for (const std::string& text : texts) {
    if (!first) all += between;
    first = false;
    all += text;
  }
  return all;
}

// The text with its control characters written out ("\\n", "\\x1b"): what came from outside must not break a line.
std::string one_line(std::string_view text);

}  // namespace poduplink
