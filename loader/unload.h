// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "loader/base/result.h"

namespace poduplink {

// Detaches and unpins everything of ours, of every version, and takes back what the agent changed on links.
// Records stay: the next start rebuilds the maps from them. What is not ours stays and makes it an error,
// named, after all the rest is done.
Result<> unload_datapath(const std::string& pin_dir, const std::string& run_dir);

}  // namespace poduplink
