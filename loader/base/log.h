// SPDX-License-Identifier: Apache-2.0
// One line a message. Where the lines go is the program's choice: standard error by itself, spdlog in the
// agent. Nothing here ever writes to standard output, which belongs to results.
#pragma once

#include <string>
#include <string_view>

#include "loader/base/format.h"

namespace poduplink {

enum class LogLevel { debug, info, warning, error };

using LogSink = void (*)(LogLevel level, std::string_view line);

// Sends later lines to `sink` instead of standard error. Not thread-safe: called once, at the start.
void set_log_sink(LogSink sink);

void log_line(LogLevel level, std::string_view line);

template <typename... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::info, poduplink::formatted_args(text, fmt::make_format_args(args...)));
}

template <typename... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::warning, poduplink::formatted_args(text, fmt::make_format_args(args...)));
}

template <typename... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::error, poduplink::formatted_args(text, fmt::make_format_args(args...)));
}

template <typename... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::debug, poduplink::formatted_args(text, fmt::make_format_args(args...)));
}

}  // namespace poduplink
