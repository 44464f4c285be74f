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

template <typename T>
void note_problem(Published& done, const Result<T>& result) {
  if (!result) done.problems.push_back(result.error().message);
}

// Of something that changes an entry.
template <typename T>
void note(Published& done, const Result<T>& written) {
  note_problem(done, written);
  if (written) ++done.changes;
}

// Brings a table to `wanted`. New entries come before old ones go; where the map is too full for that, the
// old ones go first and the new ones are tried again.
template <typename Key, typename Value, typename Map>
Published bring_to(const Map& table, const std::map<Key, Value>& wanted) {
  const auto present = table.entries();
  if (!present) return {.problems = {present.error().message}};
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
  Published done;
  for (const auto& [key, value] : missing) {
    const Result<> put = table.put(key, value);
    if (!put && put.error().code == ENOSPC) {
      again.emplace(key, value);
    } else {
      note(done, put);
    }
  }
  for (const Key& key : stale) note(done, table.erase(key));
  for (const auto& [key, value] : again) {
    const Result<> put = table.put(key, value);
    note(done, put);
    if (!put) break;  // full: the others would say the same
  }
  return done;
}

bool keeps_entry(const DesiredUplink& uplink, const std::set<int>& attached) {
  return !uplink.present || attached.contains(uplink.index);
}

}  // namespace

void Published::add(const Published& more) {
  changes += more.changes;
  problems.insert(problems.end(), more.problems.begin(), more.problems.end());
}

Published publish_nodes(const Tables& tables, const Desired& desired) { return bring_to(tables.nodes, desired.nodes); }

Published publish_exempt(const Tables& tables, const Desired& desired) {
  std::map<Prefix, std::uint32_t> wanted;
  for (const auto& [prefix, item] : desired.exempt) wanted.emplace(prefix, item);
  return bring_to(tables.exempt, wanted);
}

Published publish_uplinks(const Tables& tables, const Desired& desired, const std::set<int>& attached) {
  Published done;
  for (const DesiredUplink& uplink : desired.uplinks) {
    if (!keeps_entry(uplink, attached)) continue;
    const auto index = static_cast<std::uint32_t>(uplink.index);
    // Counters first: the programs count only in an entry that is there.
    if (uplink.present) note_problem(done, tables.stats.add_uplink(index));
    const auto present = tables.uplinks.find(index);
    if (!present) {
      note_problem(done, present);
    } else if (!*present || !same_octets(**present, uplink.value)) {
      note(done, tables.uplinks.put(index, uplink.value));
    }
  }
  return done;
}

Published retire_uplinks(const Tables& tables, const Desired& desired, const std::set<int>& attached) {
  const auto present = tables.uplinks.entries();
  if (!present) return {.problems = {present.error().message}};
  Published done;
  for (const auto& [index, value] : *present) {
    const DesiredUplink* wanted = desired.find(static_cast<int>(index));
    if (wanted != nullptr && keeps_entry(*wanted, attached)) continue;
    note(done, tables.uplinks.erase(index));
    note_problem(done, tables.stats.remove_uplink(index));
  }
  return done;
}

}  // namespace poduplink
