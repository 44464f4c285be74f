// SPDX-License-Identifier: Apache-2.0
// A reading in Prometheus' text format. docs/operations.md has the table of all metrics.
#pragma once

#include <string>
#include <string_view>

#include "loader/metrics/reading.h"

namespace poduplink {

inline constexpr const char* metrics_content_type = "text/plain; version=0.0.4; charset=utf-8";

std::string metrics_text(const Reading& reading);

// The text where it is valid UTF-8, else each octet that is not as "\xNN": one interface of a strange name (any octets
// can be one) must not make the whole text unreadable.
std::string utf8_or_escaped(std::string_view text);

}  // namespace poduplink
