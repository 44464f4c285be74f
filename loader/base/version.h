// SPDX-License-Identifier: Apache-2.0
// Which build this is. In a library of its own (pdl_version), so that a new commit compiles one file.
#pragma once

#include <string>
#include <string_view>

namespace poduplink {

// "0.1.0+3.gabc1234": cmake/PoduplinkVersion.cmake says how it is made.
std::string build_version();

// Stands before the version in every program of poduplink: how a file is known for one without being run.
std::string_view version_mark();

}  // namespace poduplink
