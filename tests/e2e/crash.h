// SPDX-License-Identifier: Apache-2.0
// The plugin with each of its steps made to fail, or made the last one before SIGKILL (tests/faults). The steps are not
// listed anywhere: each run counts them anew, so that a new one is among them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/e2e/stand_in.h"

namespace poduplink::harness {

struct Step {
  bool change = false;  // it changes something outside of the process
  std::string name;
};

PluginAnswer plain(StandIn& node, const std::string& verb, const Pod& pod);
// `how`: "fail" or "kill" at step `at`.
PluginAnswer faulty(StandIn& node, const std::string& verb, const Pod& pod, std::size_t at, const std::string& how);
// What the verb does, step by step. Folders that the first ADD makes are there already.
std::vector<Step> steps_of(StandIn& node, const std::string& verb, const Pod& pod);

enum class Cleaner { del, gc };

// DEL, or a GC of a runtime that has no attachment any more, succeeds and leaves nothing, `if_name` neither.
void require_cleared(StandIn& node, const Pod& pod, Cleaner by, const std::string& if_name = "eth0");
void require_new_add_works(StandIn& node, const Pod& pod);
// One that names each step which a result of it stands on, so that an empty list cannot pass.
void require_has(const std::vector<Step>& steps, std::initializer_list<const char*> names);

}  // namespace poduplink::harness
