// SPDX-License-Identifier: Apache-2.0
#include "loader/version.h"

namespace poduplink {

std::string build_version() { return PODUPLINK_VERSION; }

}  // namespace poduplink
