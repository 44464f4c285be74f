// SPDX-License-Identifier: Apache-2.0
// poduplinkctl in a lab's node.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/harness/require.h"

namespace poduplink::harness {

// With the lab's folders, run to its end.
Outcome ctl(const Lab& lab, const std::vector<std::string>& arguments);

// Its document, whatever its exit code says of the node.
nlohmann::json ctl_json(const Lab& lab, std::vector<std::string> arguments);

}  // namespace poduplink::harness
