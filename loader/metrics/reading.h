// SPDX-License-Identifier: Apache-2.0
// What a scrape tells, read at that moment: nothing is kept between scrapes, so that nothing of an uplink that is gone
// or renamed stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "loader/base/result.h"
#include "loader/desired.h"
#include "loader/figures.h"
#include "loader/pods.h"
#include "loader/records.h"
#include "maps/agent_state.h"
#include "maps/tables.h"

namespace poduplink {

// What the agent knows, by reference: for the moment of a call.
struct AgentView {
  const Figures& figures;
  const Tables& tables;
  const Desired& desired;
  const SilentGateways& silent_gateways;
  const Records& records;
  const AgentState* state = nullptr;  // null before the first look
  std::uint64_t events_lost = 0;
  std::uint64_t dumps_interrupted = 0;
  bool config_in_force = true;  // the file as it is now was taken over
};

struct Reading {
  Figures figures;
  std::string version;
  bool ready = false;
  std::size_t warnings = 0;
  std::size_t failed_open = 0;  // pods without their external network
  bool config_in_force = true;
  std::uint64_t events_lost = 0;
  std::uint64_t dumps_interrupted = 0;
  pdl_verdicts verdicts{};
  std::map<std::pair<std::string, std::string>, bool> uplinks_up;  // by name and role
  std::map<std::string, pdl_uplink_stats> traffic;                 // of those that are there
  std::map<std::string, std::size_t> attachments;                  // by home; "none": of no uplink
  std::map<std::string, std::size_t> silent_gateways;              // by home
  std::vector<Fill> fills;
};

// Errors: a map that cannot be read, by name.
Result<Reading> take_reading(const AgentView& agent);

}  // namespace poduplink
