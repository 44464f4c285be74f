// SPDX-License-Identifier: Apache-2.0
#include "loader/metrics/reading.h"

#include <algorithm>

#include "loader/base/version.h"

namespace poduplink {
namespace {

constexpr const char* no_uplink = "none";

// Each home is there from the start, with 0.
std::map<std::string, std::size_t> none_by_home(const Desired& desired) {
  std::map<std::string, std::size_t> by_name;
  for (const DesiredUplink& uplink : desired.uplinks) {
    if (uplink.is_home()) by_name[uplink.name()] = 0;
  }
  return by_name;
}

// An attachment with both families on one uplink counts once.
Result<std::map<std::string, std::size_t>> count_attachments(const Tables& tables, const Desired& desired) {
  PDL_TRY_ASSIGN(const auto v4, tables.pods.v4().entries());
  PDL_TRY_ASSIGN(const auto v6, tables.pods.v6().entries());
  std::vector<std::pair<std::uint32_t, std::uint64_t>> homes;
  homes.reserve(v4.size() + v6.size());
  for (const auto& [address, pod] : v4) homes.emplace_back(pod.home, pod.owner);
  for (const auto& [address, pod] : v6) homes.emplace_back(pod.home, pod.owner);
  std::ranges::sort(homes);
  const auto twice = std::ranges::unique(homes);
  homes.erase(twice.begin(), twice.end());

  std::map<std::uint32_t, std::size_t> by_index;
  for (const auto& [home, owner] : homes) ++by_index[home];
  std::map<std::string, std::size_t> by_name = none_by_home(desired);
  for (const auto& [index, count] : by_index) {
    const DesiredUplink* uplink = desired.find(static_cast<int>(index));
    by_name[uplink != nullptr ? uplink->name() : no_uplink] += count;
  }
  return by_name;
}

std::map<std::string, std::size_t> count_silent(const SilentGateways& silent, const Desired& desired) {
  std::map<std::string, std::size_t> by_name = none_by_home(desired);
  for (const auto& [link, gateway] : silent) {
    if (const DesiredUplink* uplink = desired.find(link)) ++by_name[uplink->name()];
  }
  return by_name;
}

Result<std::map<std::string, pdl_uplink_stats>> read_traffic(const Tables& tables, const Desired& desired) {
  PDL_TRY_ASSIGN(const auto counted, tables.stats.uplinks());
  std::map<std::string, pdl_uplink_stats> traffic;
  for (const auto& [index, stats] : counted) {
    const DesiredUplink* uplink = desired.find(static_cast<int>(index));
    if (uplink != nullptr && uplink->present) traffic[uplink->name()] = stats;
  }
  return traffic;
}

void read_state(const AgentState& state, Reading& reading) {
  reading.ready = state.ready;
  reading.warnings = state.warnings.size();
  for (const UplinkReport& line : state.uplinks) {
    if (line.role == "none") continue;  // no uplink, and not meant to be one
    const std::string& name = line.name.empty() ? line.configured : line.name;
    bool& up = reading.uplinks_up[{name, line.role}];
    up = up || line.state == "up";
  }
}

}  // namespace

Result<Reading> take_reading(const AgentView& agent) {
  Reading reading{.figures = agent.figures,
                  .version = build_version(),
                  .config_in_force = agent.config_in_force,
                  .events_lost = agent.events_lost,
                  .dumps_interrupted = agent.dumps_interrupted};
  for (const auto& [reason, found] : agent.records.failed_open()) reading.failed_open += found.pods;
  if (agent.state != nullptr) read_state(*agent.state, reading);
  PDL_TRY_ASSIGN(reading.verdicts, agent.tables.stats.verdicts());
  PDL_TRY_ASSIGN(reading.traffic, read_traffic(agent.tables, agent.desired));
  PDL_TRY_ASSIGN(reading.attachments, count_attachments(agent.tables, agent.desired));
  reading.silent_gateways = count_silent(agent.silent_gateways, agent.desired);
  PDL_TRY_ASSIGN(reading.fills, fill_of_maps(agent.tables));
  return reading;
}

}  // namespace poduplink
