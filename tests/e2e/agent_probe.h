// SPDX-License-Identifier: Apache-2.0
// What the agent's end-to-end tests look at: hooks, entries, agent.json; and a foreign program to meet.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "loader/base/fd.h"
#include "loader/base/file.h"
#include "loader/net/tc.h"
#include "maps/bpf.h"
#include "maps/paths.h"
#include "tests/harness/require.h"

namespace poduplink::harness {

// The agent's own program with these folders, run to its end.
Outcome run_agent_to_end(const Lab& lab, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& before = {});

// Starts another agent object than the lab's, with further options, and waits until it is ready.
void start_with(Agent& agent, const Lab& lab, const std::vector<std::string>& arguments);

// Names of the programs on a hook, in the order in which they run: tcx first, then filters.
std::vector<std::string> programs_on(const Lab& lab, const std::string& interface, TcHook hook);

int index_of(const Lab& lab, const std::string& interface);

// agent.json as it is now; null where there is none.
nlohmann::json agent_state(const Lab& lab);
// The line of one interface in it, by name or by what the configuration calls it; null where there is none.
nlohmann::json state_of(const Lab& lab, const std::string& interface);

// For what the agent does by itself. It looks every 3 s; a machine that is busy may take its time, and an emulated one
// some 15 s to verify the programs.
inline constexpr std::chrono::seconds patience{60};
bool in_time(const auto& test) {
  return eventually([&] { return test(); }, patience);
}

// A program that only lets packets go on, of a name that is not ours.
Fd load_foreign_program(const std::string& name);

}  // namespace poduplink::harness
