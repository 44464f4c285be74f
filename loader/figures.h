// SPDX-License-Identifier: Apache-2.0
// What the agent counts of itself since it started, for its metrics. The agent alone writes it.
#pragma once

#include <chrono>
#include <cstdint>

namespace poduplink {

// Between two looks at everything that no event tells of. Faults are to be mended within 5 s.
inline constexpr std::chrono::seconds audit_time{3};

// What was found other than it should have been, and was put right.
struct Repairs {
  std::uint64_t pod_entries_made = 0;
  std::uint64_t pod_entries_changed = 0;  // this also follows uplinks and gateways
  std::uint64_t pod_entries_erased = 0;
  std::uint64_t map_entries = 0;  // of nodes4, nodes6, exempt4, exempt6 and uplinks
  std::uint64_t pins = 0;
  std::uint64_t uplink_programs = 0;
  std::uint64_t pod_programs = 0;
  std::uint64_t proxy_neighbours = 0;
};

struct Figures {
  std::chrono::system_clock::time_point started = std::chrono::system_clock::now();

  std::uint64_t reconciliations_done = 0;
  std::uint64_t reconciliations_failed = 0;  // something could not be put right
  // Of the last reconciliation, done or failed. `reconciled` is when it ended; zero before the first.
  std::chrono::steady_clock::duration reconciliation_took{};
  std::chrono::steady_clock::time_point reconciled;
  std::chrono::system_clock::time_point reconciled_date;
  Repairs repairs;

  std::uint64_t reloads_done = 0;
  std::uint64_t reloads_failed = 0;
  std::uint64_t entries_copied = 0;  // at the start, from the maps of another version
};

}  // namespace poduplink
