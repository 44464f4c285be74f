// SPDX-License-Identifier: Apache-2.0
#include "loader/migrate.h"

#include <linux/bpf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <set>
#include <vector>

#include "loader/base/fd.h"
#include "loader/layout.h"
#include "maps/bpf.h"
#include "maps/paths.h"

namespace poduplink {
namespace {

// What is worth taking along: all but the events and what was found out about flows.
constexpr std::array map_names{"pods4",   "pods6",   "nodes4",   "nodes6",      "uplinks",
                               "exempt4", "exempt6", "verdicts", "uplink_stats"};

using Octets = std::vector<std::uint8_t>;

struct OpenMap {
  Fd fd;
  bpf::MapInfo info;
  MapLayout layout;

  [[nodiscard]] bool per_cpu() const {
    return info.type == BPF_MAP_TYPE_PERCPU_ARRAY || info.type == BPF_MAP_TYPE_PERCPU_HASH;
  }
  // A value of one CPU takes a multiple of eight octets.
  [[nodiscard]] std::size_t slot() const { return per_cpu() ? (info.value_size + 7U) / 8U * 8U : info.value_size; }
};

Result<OpenMap> open_map(const std::string& path) {
  OpenMap map;
  PDL_TRY_ASSIGN(map.fd, bpf::open_pinned(path));
  PDL_TRY_ASSIGN(map.info, bpf::map_info(map.fd.get()));
  PDL_TRY_ASSIGN(map.layout, map_layout(map.fd.get()));
  return map;
}

Result<std::vector<Octets>> keys_of(const OpenMap& map) {
  std::vector<Octets> keys;
  Octets next(map.info.key_size);
  for (;;) {
    const auto found = bpf::next_key(map.fd.get(), keys.empty() ? nullptr : keys.back().data(), next.data());
    if (!found && found.error().code == ENOENT) return keys;
    if (!found) return Failure(found.error());
    keys.push_back(next);
  }
}

class Copy {
 public:
  Copy(OpenMap from, OpenMap to, unsigned cpus)
      : from_(std::move(from)), to_(std::move(to)), slots_(from_.per_cpu() ? cpus : 1) {}

  Result<unsigned> run() {
    // A key of which a part is lost would make two entries one.
    if (!same_members(from_.layout.key, to_.layout.key)) return fail_errno(EINVAL, "its key has changed");
    PDL_TRY_ASSIGN(const auto keys, keys_of(from_));
    std::set<Octets> wanted;
    for (const Octets& key : keys) {
      Octets fresh(to_.info.key_size);
      PDL_TRY(convert(from_.layout.key, key, to_.layout.key, fresh));
      PDL_TRY(copy_value(key, fresh));
      wanted.insert(std::move(fresh));
    }
    PDL_TRY_ASSIGN(const auto present, keys_of(to_));
    for (const Octets& key : present) {
      if (!wanted.contains(key)) PDL_TRY(bpf::erase(to_.fd.get(), key.data()));
    }
    return static_cast<unsigned>(keys.size());
  }

 private:
  Result<> copy_value(const Octets& key, const Octets& fresh_key) {
    Octets value(from_.slot() * slots_);
    Octets fresh(to_.slot() * slots_);
    const auto found = bpf::lookup(from_.fd.get(), key.data(), value.data());
    if (!found && found.error().code == ENOENT) return {};
    if (!found) return found;
    for (unsigned i = 0; i < slots_; ++i)
      PDL_TRY(convert(from_.layout.value, std::span(value).subspan(i * from_.slot(), from_.info.value_size),
                      to_.layout.value, std::span(fresh).subspan(i * to_.slot(), to_.info.value_size)));
    return bpf::update(to_.fd.get(), fresh_key.data(), fresh.data(), bpf::Update::any);
  }

  OpenMap from_;
  OpenMap to_;
  unsigned slots_;
};

Result<unsigned> copy_map(const std::string& from, const std::string& to, unsigned cpus) {
  auto old_map = open_map(from);
  // A map that the version before did not have stays as it is.
  if (!old_map && old_map.error().code == ENOENT) return 0U;
  if (!old_map) return Failure(old_map.error());
  PDL_TRY_ASSIGN(OpenMap new_map, open_map(to));
  if (old_map->info.type != new_map.info.type) return fail_errno(EINVAL, "its type has changed");
  return Copy(std::move(*old_map), std::move(new_map), cpus).run();
}

}  // namespace

Result<unsigned> copy_maps(const std::string& from, const std::string& to) {
  PDL_TRY_ASSIGN(const unsigned cpus, bpf::possible_cpus());
  unsigned entries = 0;
  for (const char* name : map_names) {
    auto copied = copy_map(map_pin(from, name), map_pin(to, name), cpus);
    if (!copied) return fail_within(std::move(copied.error()), formatted("copying map {} of {}", name, from));
    entries += *copied;
  }
  return entries;
}

}  // namespace poduplink
