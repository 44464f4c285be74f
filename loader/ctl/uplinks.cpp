// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "loader/ctl/commands.h"
#include "maps/agent_state.h"

namespace poduplink::ctl {
namespace {

// The counters that are shown, in this order.
constexpr std::pair<const char*, __u64 pdl_uplink_stats::*> counters[] = {
    {"outPackets", &pdl_uplink_stats::out_packets},      {"outBytes", &pdl_uplink_stats::out_bytes},
    {"inPackets", &pdl_uplink_stats::in_packets},        {"inBytes", &pdl_uplink_stats::in_bytes},
    {"outRedirects", &pdl_uplink_stats::out_redirects},  {"inRedirects", &pdl_uplink_stats::in_redirects},
    {"lateRedirects", &pdl_uplink_stats::late_redirects}};

void add_traffic(Json& row, const Rates& rates, int index) {
  for (const auto& [name, member] : counters) {
    const auto value = rates.of(static_cast<std::uint32_t>(index), member);
    row[rates.known() ? std::string(name) + "PerSecond" : name] = value ? Json(*value) : Json(nullptr);
  }
}

Json row_of(const UplinkReport& line, const std::map<std::uint32_t, pdl_uplink>& uplinks,
            const std::map<std::uint32_t, unsigned>& pods) {
  const auto index = static_cast<std::uint32_t>(line.ifindex);
  const auto entry = uplinks.find(index);
  Json row;
  row["name"] = line.name.empty() ? line.configured : line.name;
  row["ifindex"] = line.ifindex == 0 ? Json(nullptr) : Json(line.ifindex);
  row["mac"] = line.mac.empty() ? Json(nullptr) : Json(line.mac);
  row["role"] = line.role;
  row["state"] = line.state;
  row["mtu"] = entry == uplinks.end() ? Json(nullptr) : Json(entry->second.mtu);
  const auto number = pods.find(index);
  row["pods"] = number == pods.end() ? 0U : number->second;
  row["how"] = line.how;
  row["reason"] = line.reason;
  return row;
}

std::vector<Column> columns(bool rates) {
  const std::string per = rates ? "/s" : "";
  const std::string suffix = rates ? "PerSecond" : "";
  return {{.title = "UPLINK", .key = "name"},
          {.title = "INDEX", .key = "ifindex", .right = true},
          {.title = "ROLE", .key = "role"},
          {.title = "STATE", .key = "state", .tone = tone_of_state},
          {.title = "MTU", .key = "mtu", .right = true},
          {.title = "ADDRESSES", .key = "pods", .right = true},
          {.title = "OUT PKT" + per, .key = "outPackets" + suffix, .right = true},
          {.title = "OUT OCT" + per, .key = "outBytes" + suffix, .right = true},
          {.title = "IN PKT" + per, .key = "inPackets" + suffix, .right = true},
          {.title = "IN OCT" + per, .key = "inBytes" + suffix, .right = true},
          {.title = "LATE" + per, .key = "lateRedirects" + suffix, .right = true},
          {.title = "WHY", .key = "why"}};
}

}  // namespace

Result<View> uplinks_view(const Settings& settings, Rates& rates) {
  PDL_TRY_ASSIGN(const auto state, load_agent_state(settings.run_dir));
  if (!state) return fail("no agent has run on this node: it is the agent that finds the uplinks");
  PDL_TRY_ASSIGN(const Tables tables, open_current_tables(settings.pin_dir));
  PDL_TRY_ASSIGN(const auto uplinks, uplinks_by_index(tables));
  PDL_TRY_ASSIGN(const auto entries, tables.pods.entries());
  std::map<std::uint32_t, unsigned> pods;
  for (const auto& [address, pod] : entries) ++pods[pod.home];
  PDL_TRY_ASSIGN(Sample now, take_sample(tables));
  rates.next(std::move(now));

  Section section{.columns = columns(rates.known()), .none = "no interfaces"};
  View view;
  view.document = Json::array();
  for (const UplinkReport& line : state->uplinks) {
    Json row = row_of(line, uplinks, pods);
    add_traffic(row, rates, line.ifindex);
    view.document.push_back(row);
    row["why"] = line.reason.empty() ? line.how : line.reason;
    section.rows.push_back(std::move(row));
  }
  view.sections.push_back(std::move(section));
  return view;
}

}  // namespace poduplink::ctl
