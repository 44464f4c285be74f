// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "loader/base/result.h"
#include "loader/ctl/view.h"

namespace poduplink::ctl {

// Has the plugin `program` itself judge its part of a network's configuration, by the verb STATUS, which changes
// nothing. That it cannot work at the moment (no agent, no uplink) is no mistake of the configuration. `cni_path`:
// folders with IPAM plugins. Errors: what the plugin says; a plugin that cannot be run.
Result<> check_plugin_config(const std::string& program, const Json& config, const std::string& cni_path);

}  // namespace poduplink::ctl
