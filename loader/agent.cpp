// SPDX-License-Identifier: Apache-2.0
#include "loader/agent.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "loader/agent_impl.h"
#include "loader/agent_lock.h"
#include "loader/base/log.h"
#include "loader/migrate.h"
#include "loader/preflight.h"
#include "loader/versions.h"
#include "maps/bpf.h"
#include "maps/locks.h"

namespace poduplink {
namespace {

using namespace std::chrono_literals;

// Events come in bursts (a new interface brings a dozen); one look serves them all.
constexpr auto settle_time = 30ms;

// A pod in netfilter mode costs a descriptor, its link's; 1,024 is what services start with.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Result<> Agent::bring_up() {
  exporter_.listen(config_.metrics_listen);
  load_conntrack_module();
  PDL_TRY_ASSIGN(conntrack_, conntrack_can_be_asked());
  if (!conntrack_) log_warning("no connection tracking in this kernel yet: loading without it and looking each second");
  PDL_TRY(load_datapath(conntrack_));
  look_again();
  return {};
}

Result<> Agent::load_datapath(bool conntrack) {
  // Compiled by the kernel before the lock is taken: plugins wait for the switch alone. Maps are adopted by pin, and
  // no other process makes or replaces map pins while the agent's own lock is held.
  PDL_TRY_ASSIGN(Datapath fresh, Datapath::load({.pin_dir = options_.pin_dir,
                                                 .sizes = config_.map_sizes,
                                                 .steer_node = config_.steer_node,
                                                 .conntrack = conntrack}));
  PDL_TRY_ASSIGN(const GlobalLock lock, GlobalLock::take(options_.run_dir));
  const std::optional<std::string> before = fresh.folder_before();
  PDL_TRY(fresh.pin());
  if (before) PDL_TRY(take_over_version(*before, fresh.folder()));
  datapath_ = std::move(fresh);
  if (!attachments_) attachments_.emplace(*datapath_, bpf::have_tcx() && !options_.force_clsact, memory_);
  PDL_TRY_ASSIGN(tables_, open_tables(datapath_->folder()));
  std::vector<std::string> uplink_problems;
  load_problems_ = switch_programs(uplink_problems);
  note_raised(load_problems_);  // the programs before may have judged by other rules
  append(uplink_problems, load_problems_);
  if (before && !uplink_problems.empty()) return give_up_version(*before, uplink_problems);
  PDL_TRY(datapath_->make_current());
  retire_other_versions();
  log_info("datapath loaded under {}, connection tracking {}", datapath_->folder(),
           conntrack ? "is asked" : "is not there");
  return {};
}

// Fills this build's maps from those of the version in force, which stay as they are until all hooks are switched.
Result<> Agent::take_over_version(const std::string& before, const std::string& folder) {
  const auto copied = copy_maps(before, folder);
  const Result<> carried = copied ? carry_links(before, folder) : Result<>(Failure(copied.error()));
  if (carried) {
    figures_.entries_copied = *copied;
    log_info("upgrade from {} to {}: {} entries copied", before, folder, *copied);
    return {};
  }
  for (const std::string& left : remove_version(folder, Removal::retire)) log_warning("{}", left);
  return fail_within(carried.error(), "the version before stays in force");
}

// Back to the version before: its maps are still the ones that plugins write, so its programs must run.
Result<> Agent::give_up_version(const std::string& before, const std::vector<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) text += "; " + problem;
  const auto links = dump_links(netlink_);
  const auto left = restore_programs(netlink_, before, records_, links ? *links : std::vector<Link>());
  for (const std::string& problem : left) log_error("not put back: {}", problem);
  for (const std::string& problem : remove_version(datapath_->folder(), Removal::retire)) log_warning("{}", problem);
  return fail("the version before stays in force, since hooks could not be switched{}", text);
}

// The one before, or what an upgrade that was interrupted left.
void Agent::retire_other_versions() {
  const auto folders = other_versions(options_.pin_dir, datapath_->folder());
  for (const std::string& folder : folders ? *folders : std::vector<std::string>()) {
    log_info("removing the pins of {}", folder);
    for (const std::string& left : remove_version(folder, Removal::retire)) log_warning("{}", left);
  }
}

// Every hook that bears a program of ours gets this build's, in place. Returns what is wrong with pods' veths.
std::vector<std::string> Agent::switch_programs(std::vector<std::string>& uplink_problems) {
  const auto links = dump_links(netlink_);
  if (!links) return {links.error().message};
  if (const auto read = records_.refresh(); !read) return {read.error().message};
  std::vector<std::string> problems = pod_programs_.switch_all(netlink_, tables_, records_, *links);
  std::set<int> candidates;
  for (const Link& link : *links) {
    if (link.is_ethernet() && !is_pod_veth(link)) candidates.insert(link.index);
  }
  const auto bearing = attachments_->attached(netlink_, candidates);
  if (!bearing) return {bearing.error().message};
  for (const int index : *bearing) {
    // One that is gone has lost its programs; look_again() clears its pins.
    if (const auto attached = candidates.contains(index) ? attachments_->attach(netlink_, index) : Result<>();
        !attached) {
      uplink_problems.push_back(formatted("interface {}: {}", index, attached.error().message));
      log_warning("{}", uplink_problems.back());
    }
  }
  return problems;
}

void Agent::look_for_conntrack() {
  if (conntrack_ || !connection_tracking_is_present()) return;
  const auto usable = conntrack_can_be_asked();
  if (!usable) {
    conntrack_problem_ = {usable.error().message};
    look_again();
    return;
  }
  conntrack_problem_.clear();
  if (!*usable) return;
  log_info("connection tracking was loaded");
  if (const auto loaded = load_datapath(true); !loaded) {
    conntrack_problem_ = {loaded.error().message};
  } else {
    conntrack_ = true;
  }
  look_again();
}

Result<> Agent::run() {
  Change pending = Change::none;
  PDL_TRY(loop_.watch(events_.fd(), [this, &pending] {
    pending = std::max(pending, events_.read());
    if (pending != Change::none) loop_.wake_in(settle_time);
  }));
  loop_.on_wake([this, &pending] {
    const Change what = std::exchange(pending, Change::none);
    if (what == Change::neighbours) {
      refresh_neighbours();
    } else {
      look_again();
    }
  });
  loop_.on_hangup([this] {
    reload(true);
    audit();
  });
  loop_.every(audit_time, [this] {
    audit();
    return true;
  });
  if (!conntrack_) {
    loop_.every(retry_time, [this] {
      look_for_conntrack();
      return !conntrack_;
    });
  }
  PDL_TRY(loop_.run());
  log_info("stopped; the datapath stays in place");
  return {};
}

Result<> run_agent(const AgentOptions& options) {
  raise_descriptor_limit();
  ConfigFile file(options.config_path, options.config_named);
  PDL_TRY_ASSIGN(AgentConfig config, file.load());
  PDL_TRY(check_capabilities());
  PDL_TRY(check_pin_dir(options.pin_dir));
  PDL_TRY_ASSIGN(Fd lock, take_agent_lock(options.run_dir));
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open());
  PDL_TRY_ASSIGN(Events events, Events::open());
  Agent agent(options, std::move(file), std::move(config), std::move(lock), std::move(netlink), std::move(events),
              load_memory(options.run_dir));
  PDL_TRY(agent.bring_up());
  return agent.run();
}

}  // namespace poduplink
