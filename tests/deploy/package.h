// SPDX-License-Identifier: Apache-2.0
// The Debian package of this build, and one of a version behind it.
#pragma once

#include <string>

#include "loader/base/result.h"

namespace poduplink::harness {

// Packs what is built, into `folder`. Returns the package's path. Errors: cpack failed, with what it said.
Result<std::string> make_package(const std::string& folder);

// The same package as version 9…, its programs too, whose agent has other code in the datapath. Errors: dpkg-deb
// failed.
Result<std::string> make_next_package(const std::string& package, const std::string& folder);

}  // namespace poduplink::harness
