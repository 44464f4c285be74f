// SPDX-License-Identifier: Apache-2.0
#include "loader/base/log.h"

#include <unistd.h>

#include "loader/base/file.h"

namespace poduplink {
namespace {

void write_to_standard_error(LogLevel level, std::string_view line) {
  if (level == LogLevel::debug) return;
  std::string text(line);
  text += '\n';
  // There is no other place to say that standard error cannot be written.
  [[maybe_unused]] const auto written = write_all(STDERR_FILENO, text);
}

LogSink current_sink = &write_to_standard_error;

}  // namespace

void set_log_sink(LogSink sink) { current_sink = sink; }

void log_line(LogLevel level, std::string_view line) { current_sink(level, line); }

}  // namespace poduplink
