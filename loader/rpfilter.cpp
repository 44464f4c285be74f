// SPDX-License-Identifier: Apache-2.0
#include "loader/rpfilter.h"

#include <charconv>

#include "loader/base/log.h"
#include "loader/net/netns.h"

namespace poduplink {
namespace {

constexpr int strict = 1;
constexpr int loose = 2;

std::string setting(const std::string& device) { return "ipv4/conf/" + device + "/rp_filter"; }

Result<int> own_value(const std::string& device) {
  PDL_TRY_ASSIGN(const std::string text, read_net_sysctl(setting(device)));
  int value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{})
    return fail("{} reads '{}'", setting(device), text);
  return value;
}

Result<> loosen(const Link& link, AgentMemory& memory) {
  PDL_TRY_ASSIGN(const int value, own_value(link.name));
  PDL_TRY(write_net_sysctl(setting(link.name), std::to_string(loose)));
  memory.rp_filter.emplace(link.index, SavedRpFilter{link.name, value});
  log_info("rp_filter of {} set from {} to {} (manageRpFilter)", link.name, value, loose);
  return {};
}

// Only where it still is what the agent made of it: a later change by the operator stays.
Result<> put_back(const Link& link, const SavedRpFilter& saved) {
  PDL_TRY_ASSIGN(const int value, own_value(link.name));
  if (value != loose) return {};
  log_info("rp_filter of {} put back to {}", link.name, saved.value);
  return write_net_sysctl(setting(link.name), std::to_string(saved.value));
}

}  // namespace

std::vector<std::string> manage_rp_filter(const std::set<int>& manage, const Snapshot& snapshot, AgentMemory& memory) {
  std::vector<std::string> problems;
  const auto note = [&](const Link& link, const Result<>& result) {
    if (!result) problems.push_back(formatted("rp_filter of {}: {}", link.name, result.error().message));
  };
  for (const int index : manage) {
    const auto effective = snapshot.rp_filter.find(index);
    const Link* link = snapshot.find(index);
    if (link != nullptr && effective != snapshot.rp_filter.end() && effective->second == strict)
      note(*link, loosen(*link, memory));
  }
  std::erase_if(memory.rp_filter, [&](const auto& entry) {
    const auto& [index, saved] = entry;
    if (manage.contains(index)) return false;
    // A device that is gone took its setting along.
    if (const Link* link = snapshot.find(index)) note(*link, put_back(*link, saved));
    return true;
  });
  return problems;
}

}  // namespace poduplink
