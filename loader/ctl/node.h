// SPDX-License-Identifier: Apache-2.0
// This node as the commands see it: pinned maps, the agent's last word, records, hooks. Nothing here changes anything.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/result.h"
#include "loader/net/netlink.h"
#include "loader/net/tc.h"
#include "maps/record.h"
#include "maps/tables.h"

namespace poduplink::ctl {

struct Settings {
  std::string pin_dir;
  std::string run_dir;
};

// True where an agent holds RUN_DIR/agent.lock. The lock itself is not touched: a starting agent must get it.
Result<bool> agent_runs(const std::string& run_dir);

// Programs on a hook of an interface by name, in the order in which they run. Empty where the interface is gone.
std::vector<std::string> programs_on(Netlink& netlink, int link, TcHook hook);

// Uplinks by index.
Result<std::map<std::uint32_t, pdl_uplink>> uplinks_by_index(const Tables& tables);

// "eth1", or the index where no uplink has it; "-" for 0.
std::string uplink_name(const std::map<std::uint32_t, pdl_uplink>& uplinks, std::uint32_t index);

const char* mode_name(pdl_mode mode);
const char* state_name(pdl_state state);

}  // namespace poduplink::ctl
