// SPDX-License-Identifier: Apache-2.0
#include "loader/unload.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
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
#include "loader/rpfilter.h"
#include "loader/snapshot.h"
#include "maps/bpf.h"
#include "maps/locks.h"
#include "maps/paths.h"

namespace poduplink {
namespace {

constexpr std::array map_names{"pods4",   "pods6",   "nodes4",   "nodes6",       "uplinks",
                               "exempt4", "exempt6", "verdicts", "uplink_stats", "events"};
constexpr std::array program_names{pod_egress_program, uplink_ingress_program, uplink_egress_program};

template <typename Names>
bool contains(const Names& names, const std::string& name) {
  return std::ranges::any_of(names, [&](std::string_view one) { return one == name; });
}

// What could not be removed, or was left since it is not ours.
using Problems = std::vector<std::string>;

void note(Problems& problems, const Result<>& result) {
  if (!result) problems.push_back(result.error().message);
}

bool is_version_name(const std::string& name) {
  return name.size() > 1 && name[0] == 'v' && name.find_first_not_of("0123456789", 1) == std::string::npos;
}

// Whether a pin is what its name says: only then is it ours to remove.
bool is_ours(const std::string& path, const std::string& name, PinKind kind) {
  const auto fd = bpf::open_pinned(path);
  if (!fd) return false;
  if (kind == PinKind::map) {
    const auto info = bpf::map_info(fd->get());
    return info && info->name == name && contains(map_names, name);
  }
  if (kind == PinKind::program) {
    const auto info = bpf::program_info(fd->get());
    // A temporary name is left by a start that was killed between pinning and renaming.
    const std::string base = name.starts_with("new-") ? name.substr(4) : name;
    return info && info->name == base && contains(program_names, base);
  }
  return kind == PinKind::link;
}

Result<> remove_link(const std::string& path) {
  PDL_TRY_ASSIGN(const Fd link, bpf::open_pinned(path));
  PDL_TRY(detach_link(link.get()));
  return remove_file(path);
}

void remove_pins(const std::string& folder, PinKind wanted, Problems& problems) {
  const auto names = list_directory(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    const std::string path = formatted("{}/{}", folder, name);
    const auto kind = pin_kind(path);
    if (!kind) {
      note(problems, Failure(kind.error()));
    } else if (*kind == wanted && is_ours(path, name, *kind)) {
      note(problems, wanted == PinKind::link ? remove_link(path) : remove_file(path));
    } else if (*kind != PinKind::folder || (name != "progs" && name != "links")) {
      problems.push_back(formatted("{} is {} that is not ours; it is left untouched", path, pin_kind_name(*kind)));
    }
  }
}

void remove_folder(const std::string& folder, Problems& problems) {
  // Not empty: what is in it was named already.
  if (::rmdir(folder.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY)
    problems.push_back(fail_errno(errno, "removing {}", folder).error().message);
}

void remove_version(const std::string& folder, Problems& problems) {
  remove_pins(folder + "/links", PinKind::link, problems);
  remove_pins(folder + "/progs", PinKind::program, problems);
  remove_pins(folder, PinKind::map, problems);
  for (const std::string& one : {folder + "/links", folder + "/progs", folder}) remove_folder(one, problems);
}

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
      remove_version(formatted("{}/{}", pin_dir, name), problems);
    } else {
      problems.push_back(formatted("{}/{} is not ours; it is left untouched", pin_dir, name));
    }
  }
  remove_folder(pin_dir, problems);
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
  std::string text;
  for (const std::string& problem : problems) text += (text.empty() ? "" : "; ") + problem;
  return fail("{}", text);
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
