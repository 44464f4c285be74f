// SPDX-License-Identifier: Apache-2.0
#include "loader/publish.h"

#include <cerrno>
#include <cstring>
#include <map>

namespace poduplink {
namespace {

template <typename Value>
bool same_octets(const Value& one, const Value& other) {
  return std::memcmp(&one, &other, sizeof(Value)) == 0;
}
bool same_octets(std::uint32_t one, std::uint32_t other) { return one == other; }

// Brings a table to `wanted`. New entries come before old ones go; where the map is too full for that, the
// old ones go first and the new ones are tried again.
template <typename Key, typename Value, typename Map>
std::vector<std::string> bring_to(const Map& table, const std::map<Key, Value>& wanted) {
  const auto present = table.entries();
  if (!present) return {present.error().message};
  std::map<Key, Value> missing = wanted;
  std::vector<Key> stale;
  for (const auto& [key, value] : *present) {
    const auto found = missing.find(key);
    if (found != missing.end() && same_octets(found->second, value)) {
      missing.erase(found);
    } else if (found == missing.end()) {
      stale.push_back(key);
    }
  }
  std::map<Key, Value> again;
  std::vector<std::string> problems;
  for (const auto& [key, value] : missing) {
    const Result<> put = table.put(key, value);
    if (!put && put.error().code == ENOSPC) again.emplace(key, value);
    if (!put && put.error().code != ENOSPC) problems.push_back(put.error().message);
  }
  for (const Key& key : stale) {
    if (const auto erased = table.erase(key); !erased) problems.push_back(erased.error().message);
  }
  for (const auto& [key, value] : again) {
    const Result<> put = table.put(key, value);
    if (put) continue;
    problems.push_back(put.error().message);
    break;  // full: the others would say the same
  }
  return problems;
}

void note(std::vector<std::string>& problems, const Result<>& result) {
  if (!result) problems.push_back(result.error().message);
}

bool keeps_entry(const DesiredUplink& uplink, const std::set<int>& attached) {
  return !uplink.present || attached.contains(uplink.index);
}

}  // namespace

std::vector<std::string> publish_nodes(const Tables& tables, const Desired& desired) {
  return bring_to(tables.nodes, desired.nodes);
}

std::vector<std::string> publish_exempt(const Tables& tables, const Desired& desired) {
  std::map<Prefix, std::uint32_t> wanted;
  for (const auto& [prefix, item] : desired.exempt) wanted.emplace(prefix, item);
  return bring_to(tables.exempt, wanted);
}

std::vector<std::string> publish_uplinks(const Tables& tables, const Desired& desired, const std::set<int>& attached) {
  std::vector<std::string> problems;
  for (const DesiredUplink& uplink : desired.uplinks) {
    if (!keeps_entry(uplink, attached)) continue;
    const auto index = static_cast<std::uint32_t>(uplink.index);
    // Counters first: the programs count only in an entry that is there.
    if (uplink.present) note(problems, tables.stats.add_uplink(index));
    const auto present = tables.uplinks.find(index);
    if (!present) {
      problems.push_back(present.error().message);
    } else if (!*present || !same_octets(**present, uplink.value)) {
      note(problems, tables.uplinks.put(index, uplink.value));
    }
  }
  return problems;
}

std::vector<std::string> retire_uplinks(const Tables& tables, const Desired& desired, const std::set<int>& attached) {
  const auto present = tables.uplinks.entries();
  if (!present) return {present.error().message};
  std::vector<std::string> problems;
  for (const auto& [index, value] : *present) {
    const DesiredUplink* wanted = desired.find(static_cast<int>(index));
    if (wanted != nullptr && keeps_entry(*wanted, attached)) continue;
    if (const auto erased = tables.uplinks.erase(index); !erased) problems.push_back(erased.error().message);
    note(problems, tables.stats.remove_uplink(index));
  }
  return problems;
}

}  // namespace poduplink
