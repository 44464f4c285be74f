// SPDX-License-Identifier: Apache-2.0
#include "loader/unload.h"

#include <vector>

#include "loader/agent_lock.h"
#include "loader/attach.h"
#include "loader/base/file.h"
#include "loader/base/log.h"
#include "loader/datapath.h"
#include "loader/memory.h"
#include "loader/neighbours.h"
#include "loader/pins.h"
#include "loader/preflight.h"
#include "loader/problems.h"
#include "loader/rpfilter.h"
#include "loader/snapshot.h"
#include "loader/versions.h"
#include "maps/locks.h"
#include "maps/paths.h"

namespace poduplink {
namespace {

void remove_pin_dir(const std::string& pin_dir, Problems& problems) {
  // Whoever looks for the version in force finds none from here on.
  for (const char* name : {"/current", "/new-current"}) {
    const auto kind = pin_kind(pin_dir + name);
    if (kind && *kind == PinKind::symlink) note(problems, remove_file(pin_dir + name));
  }
  const auto names = list_directory(pin_dir);
  if (!names) return;
  for (const std::string& name : *names) {
    if (is_version_name(name)) {
      append(problems, remove_version(formatted("{}/{}", pin_dir, name), Removal::unload));
    } else {
      problems.push_back(formatted("{}/{} is not ours; it is left untouched", pin_dir, name));
    }
  }
  note(problems, remove_folder(pin_dir));
}

void remove_filters(Netlink& netlink, const Snapshot& snapshot, const AgentMemory& memory, Problems& problems) {
  for (const Link& link : snapshot.links) {
    if (link.is_loopback()) continue;
    // The plugin made the clsact of a pod's veth; it is removed when nothing else uses it.
    const Result<> removed =
        remove_our_filters(netlink, link.index, is_pod_veth(link) || memory.clsact.contains(link.index));
    if (!removed) problems.push_back(link.name + ": " + removed.error().message);
  }
}

Result<> as_result(const Problems& problems) {
  if (problems.empty()) return {};
  return fail("{}", joined(problems, "; "));
}

}  // namespace

Result<> unload_datapath(const std::string& pin_dir, const std::string& run_dir) {
  PDL_TRY(check_capabilities());
  PDL_TRY(check_pin_dir(pin_dir));
  PDL_TRY_ASSIGN(const Fd agent_lock, take_agent_lock(run_dir));
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open());
  PDL_TRY_ASSIGN(const GlobalLock lock, GlobalLock::take(run_dir));
  PDL_TRY_ASSIGN(const Snapshot snapshot, take_snapshot(netlink));
  AgentMemory memory = load_memory(run_dir);
  Problems problems;
  remove_filters(netlink, snapshot, memory, problems);
  remove_pin_dir(pin_dir, problems);
  for (const std::string& problem : keep_permanent_neighbours(netlink, {}, snapshot, memory))
    problems.push_back(problem);
  for (const std::string& problem : manage_rp_filter({}, snapshot, memory)) problems.push_back(problem);
  note(problems, remove_file(agent_state_path(run_dir)));
  note(problems, remove_file(agent_memory_path(run_dir)));
  if (problems.empty()) log_info("unloaded: nothing of poduplink is left under {} and on the interfaces", pin_dir);
  return as_result(problems);
}

}  // namespace poduplink
