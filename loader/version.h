// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace poduplink {

// Of this build: the git description.
std::string build_version();

}  // namespace poduplink
