// SPDX-License-Identifier: Apache-2.0
// The versions of the CNI specification that are served, and what differs between them.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace poduplink {

inline constexpr std::array<std::string_view, 5> supported_versions = {"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};
inline constexpr std::string_view newest_version = supported_versions.back();

bool is_supported_version(std::string_view version);

// Both must be supported versions; an unknown one is older than all.
bool version_at_least(std::string_view version, std::string_view wanted);

// "0.3.0, 0.3.1, …" for messages.
std::string supported_versions_text();

// The answer to VERSION, with its newline. An unknown `version` is answered with the newest.
std::string print_versions(std::string_view version);

}  // namespace poduplink
