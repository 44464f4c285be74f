// SPDX-License-Identifier: Apache-2.0
#include "loader/ctl/node.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>

#include "loader/base/file.h"
#include "maps/bpf.h"
#include "maps/paths.h"

namespace poduplink::ctl {
Result<bool> agent_runs(const std::string& run_dir) {
  struct stat status{};
  const std::string path = run_dir + "/agent.lock";
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    return fail_errno(errno, "{}", path);
  }
  PDL_TRY_ASSIGN(const std::string locks, read_file("/proc/locks"));
  // "3: FLOCK  ADVISORY  WRITE 812 00:1a:4711 0 EOF": major and minor in hexadecimal, then the inode.
  const std::string wanted =
      formatted(" {:02x}:{:02x}:{} ", major(status.st_dev), minor(status.st_dev), std::uint64_t{status.st_ino});
  std::size_t start = 0;
  while (start < locks.size()) {
    const std::size_t end = std::min(locks.find('\n', start), locks.size());
    const std::string_view line = std::string_view(locks).substr(start, end - start);
    if (line.contains(" FLOCK ") && line.contains(" WRITE ") && line.contains(wanted)) return true;
    start = end + 1;
  }
  return false;
}

std::vector<std::string> programs_on(Netlink& netlink, int link, TcHook hook) {
  std::vector<std::string> names;
  if (bpf::have_tcx()) {
    const auto tcx = bpf::tcx_programs(link, hook == TcHook::ingress ? bpf::TcxHook::ingress : bpf::TcxHook::egress);
    for (const bpf::TcxProgram& one : tcx ? *tcx : std::vector<bpf::TcxProgram>()) {
      const auto fd = bpf::program_by_id(one.program_id);
      const auto info = fd ? bpf::program_info(fd->get()) : Result<bpf::ProgramInfo>(Failure(fd.error()));
      names.push_back(info ? info->name : formatted("program {}", one.program_id));
    }
  }
  const auto filters = dump_filters(netlink, link, hook);
  for (const TcFilter& filter : filters ? *filters : std::vector<TcFilter>())
    names.push_back(filter.name.empty() ? formatted("{} filter {}", filter.kind, filter.priority) : filter.name);
  return names;
}

Result<std::map<std::uint32_t, pdl_uplink>> uplinks_by_index(const Tables& tables) {
  PDL_TRY_ASSIGN(const auto entries, tables.uplinks.entries());
  return std::map<std::uint32_t, pdl_uplink>(entries.begin(), entries.end());
}

std::string uplink_name(const std::map<std::uint32_t, pdl_uplink>& uplinks, std::uint32_t index) {
  const auto found = uplinks.find(index);
  if (found != uplinks.end()) return found->second.name;
  return index == 0 ? "-" : std::to_string(index);
}

const char* mode_name(pdl_mode mode) { return mode == PDL_MODE_NETFILTER ? "netfilter" : "fast"; }
const char* state_name(pdl_state state) { return state == PDL_STATE_UP ? "up" : "down"; }

}  // namespace poduplink::ctl
