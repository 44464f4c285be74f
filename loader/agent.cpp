// SPDX-License-Identifier: Apache-2.0
#include "loader/agent.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "loader/agent_lock.h"
#include "loader/attach.h"
#include "loader/base/log.h"
#include "loader/config.h"
#include "loader/datapath.h"
#include "loader/desired.h"
#include "loader/event_loop.h"
#include "loader/events.h"
#include "loader/memory.h"
#include "loader/neighbours.h"
#include "loader/pods.h"
#include "loader/preflight.h"
#include "loader/publish.h"
#include "loader/rpfilter.h"
#include "loader/snapshot.h"
#include "loader/version.h"
#include "maps/agent_state.h"
#include "maps/bpf.h"
#include "maps/locks.h"
#include "maps/tables.h"

namespace poduplink {
namespace {

using namespace std::chrono_literals;

// Events come in bursts (a new interface brings a dozen); one look serves them all.
constexpr auto settle_time = 30ms;
// After something failed that may mend itself, and while connection tracking is looked for.
constexpr auto retry_time = 1s;

// What of the homes matters to pod entries.
using HomeKey = std::tuple<int, std::string, MacAddress, unsigned, bool>;

std::vector<HomeKey> home_keys(const Desired& desired) {
  std::vector<HomeKey> keys;
  for (const DesiredUplink& one : desired.uplinks) {
    if (one.is_home()) keys.emplace_back(one.index, one.name(), to_mac(one.value.mac), one.value.mtu, one.present);
  }
  return keys;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

class Agent {
 public:
  Agent(AgentOptions options, AgentConfig config, Fd lock, Netlink netlink, Events events, AgentMemory memory)
      : options_(std::move(options)),
        config_(std::move(config)),
        agent_lock_(std::move(lock)),
        netlink_(std::move(netlink)),
        events_(std::move(events)),
        memory_(std::move(memory)),
        stored_memory_(memory_) {}

  Result<> bring_up();
  Result<> run();

 private:
  Result<> load_datapath(bool conntrack);
  std::vector<std::string> switch_programs();
  void look_again();
  std::vector<std::string> attach_wanted();
  std::vector<std::string> publish_all();
  std::vector<std::string> detach_unwanted();
  void refresh_neighbours();
  void look_for_conntrack();
  void tell(std::vector<std::string> reasons, bool retry);
  void log_report(const std::vector<UplinkReport>& before) const;
  void remember();

  AgentOptions options_;
  AgentConfig config_;
  Fd agent_lock_;
  Netlink netlink_;
  Events events_;
  AgentMemory memory_;
  AgentMemory stored_memory_;

  bool conntrack_ = false;
  std::optional<Datapath> datapath_;
  std::optional<Attachments> attachments_;
  Tables tables_;

  Snapshot snapshot_;
  Desired desired_;
  std::set<int> attached_;
  std::optional<std::vector<HomeKey>> reconciled_homes_;
  std::vector<std::string> load_problems_;  // of pods' veths, from the last load
  std::vector<std::string> conntrack_problem_;
  std::optional<AgentState> state_;
  EventLoop loop_;
};

Result<> Agent::bring_up() {
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
  PDL_TRY(fresh.pin());
  datapath_ = std::move(fresh);
  if (!attachments_) attachments_.emplace(*datapath_, bpf::have_tcx() && !options_.force_clsact, memory_);
  PDL_TRY_ASSIGN(tables_, open_tables(datapath_->folder()));
  load_problems_ = switch_programs();
  PDL_TRY(datapath_->make_current());
  log_info("datapath loaded under {}, connection tracking {}", datapath_->folder(),
           conntrack ? "is asked" : "is not there");
  return {};
}

// Every hook that bears a program of ours gets this build's, in place.
std::vector<std::string> Agent::switch_programs() {
  const auto links = dump_links(netlink_);
  if (!links) return {links.error().message};
  std::vector<std::string> problems = switch_pod_programs(netlink_, tables_, options_.run_dir, *links);
  std::set<int> candidates;
  for (const Link& link : *links) {
    if (link.is_ethernet() && !is_pod_veth(link)) candidates.insert(link.index);
  }
  const auto bearing = attachments_->attached(netlink_, candidates);
  if (!bearing) return {bearing.error().message};
  for (const int index : *bearing) {
    // One that is gone has lost its programs; look_again() clears its pins.
    if (const auto attached = candidates.contains(index) ? attachments_->attach(netlink_, index) : Result<>();
        !attached)
      log_warning("interface {}: {}", index, attached.error().message);
  }
  return problems;
}

void Agent::look_again() {
  auto snapshot = take_snapshot(netlink_);
  if (!snapshot) {
    tell({"the network cannot be read: " + snapshot.error().message}, true);
    return;
  }
  const std::vector<UplinkReport> before = std::move(desired_.report);
  snapshot_ = std::move(*snapshot);
  desired_ = make_desired(config_, snapshot_, memory_.uplinks);
  memory_.uplinks = desired_.memory;
  log_report(before);

  std::vector<std::string> failures = manage_rp_filter(desired_.manage_rp_filter, snapshot_, memory_);
  append(failures, attach_wanted());
  append(failures, publish_all());
  append(failures, detach_unwanted());
  append(failures, keep_permanent_neighbours(netlink_, desired_.neighbours, snapshot_, memory_));
  std::set<int> managed;
  for (const DesiredUplink& uplink : desired_.uplinks) managed.insert(uplink.index);
  events_.learn(snapshot_, std::move(managed));

  const bool retry = !failures.empty();
  std::vector<std::string> reasons = desired_.reasons;
  append(reasons, load_problems_);
  append(reasons, conntrack_problem_);
  append(reasons, failures);
  tell(std::move(reasons), retry);
}

std::vector<std::string> Agent::attach_wanted() {
  attached_.clear();
  std::vector<std::string> problems;
  for (const DesiredUplink& uplink : desired_.uplinks) {
    if (!uplink.present) continue;
    const auto attached = attachments_->attach(netlink_, uplink.index);
    if (attached) {
      attached_.insert(uplink.index);
    } else {
      problems.push_back(formatted("{} cannot bear the programs: {}", uplink.name(), attached.error().message));
    }
  }
  return problems;
}

// What steers a packet comes before what lets pods use it: addresses and exempt prefixes, then uplinks, then
// pods; entries of interfaces that are no longer managed go last.
std::vector<std::string> Agent::publish_all() {
  const auto lock = GlobalLock::take(options_.run_dir);
  if (!lock) return {lock.error().message};
  std::vector<std::string> problems = publish_nodes(tables_, desired_);
  append(problems, publish_exempt(tables_, desired_));
  append(problems, publish_uplinks(tables_, desired_, attached_));
  const std::vector<HomeKey> homes = home_keys(desired_);
  const bool changed = reconciled_homes_ != homes;
  const auto repairs = changed ? reconcile_pods(netlink_, tables_, options_.run_dir, desired_, snapshot_)
                               : refresh_pods(tables_, desired_, snapshot_);
  if (!repairs) {
    problems.push_back(repairs.error().message);
  } else {
    reconciled_homes_ = homes;
    if (changed && repairs->any())
      log_info("pod entries: {} made, {} changed, {} erased", repairs->made, repairs->changed, repairs->erased);
  }
  append(problems, retire_uplinks(tables_, desired_, attached_));
  return problems;
}

std::vector<std::string> Agent::detach_unwanted() {
  std::set<int> candidates;
  for (const Link& link : snapshot_.links) {
    if (link.is_ethernet() && !is_pod_veth(link)) candidates.insert(link.index);
  }
  const auto bearing = attachments_->attached(netlink_, candidates);
  if (!bearing) return {bearing.error().message};
  std::vector<std::string> problems;
  for (const int index : *bearing) {
    const DesiredUplink* wanted = desired_.find(index);
    if (wanted != nullptr && wanted->present) continue;
    if (const auto detached = attachments_->detach(netlink_, index); !detached) {
      problems.push_back(formatted("interface {}: {}", index, detached.error().message));
    } else {
      log_info("interface {} is no longer managed", index);
    }
  }
  return problems;
}

void Agent::refresh_neighbours() {
  auto neighbours = dump_neighbours(netlink_);
  if (!neighbours) {
    look_again();
    return;
  }
  snapshot_.neighbours = std::move(*neighbours);
  std::vector<std::string> problems = keep_permanent_neighbours(netlink_, desired_.neighbours, snapshot_, memory_);
  {
    const auto lock = GlobalLock::take(options_.run_dir);
    const auto refreshed =
        lock ? refresh_pods(tables_, desired_, snapshot_) : Result<PodRepairs>(Failure(lock.error()));
    if (!refreshed) problems.push_back(refreshed.error().message);
  }
  for (const std::string& problem : problems) log_warning("{}", problem);
  remember();
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

void Agent::log_report(const std::vector<UplinkReport>& before) const {
  for (const UplinkReport& line : desired_.report) {
    if (std::ranges::find(before, line) != before.end()) continue;
    const std::string& name = line.name.empty() ? line.configured : line.name;
    if (line.reason.empty()) {
      log_info("{} {} (ifindex {}) is {}: {}", line.role, name, line.ifindex, line.state, line.how);
    } else if (line.role == "none") {
      log_info("{} is no uplink: {}", name, line.reason);
    } else {
      log_warning("uplink {} is {}: {}", name, line.state, line.reason);
    }
  }
}

void Agent::tell(std::vector<std::string> reasons, bool retry) {
  AgentState state;
  state.ready = reasons.empty();
  state.reasons = std::move(reasons);
  state.pid = ::getpid();
  state.version = build_version();
  state.uplinks = desired_.report;
  std::string joined;
  for (const std::string& reason : state.reasons) joined += (joined.empty() ? "" : "; ") + reason;
  if (!state_ || state_->ready != state.ready || state_->reasons != state.reasons) {
    if (state.ready) {
      log_info("ready");
    } else {
      log_error("not ready: {}", joined);
    }
  }
  if (state_ != state) {
    if (const auto stored = store_agent_state(options_.run_dir, state); !stored)
      log_error("{}", stored.error().message);
  }
  remember();
  const auto homes =
      std::ranges::count_if(desired_.uplinks, [](const DesiredUplink& one) { return one.is_home() && one.present; });
  const auto transit = std::ranges::count_if(desired_.uplinks, [](const DesiredUplink& one) { return !one.is_home(); });
  loop_.notify(state.ready, state.ready ? formatted("ready: {} uplinks, {} transit interfaces", homes, transit)
                                        : "not ready: " + joined);
  state_ = std::move(state);
  if (retry) loop_.wake_in(retry_time);
}

void Agent::remember() {
  if (memory_ == stored_memory_) return;
  if (const auto stored = store_memory(options_.run_dir, memory_); !stored) {
    log_error("{}", stored.error().message);
  } else {
    stored_memory_ = memory_;
  }
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

}  // namespace

Result<> run_agent(const AgentOptions& options) {
  PDL_TRY_ASSIGN(AgentConfig config, load_config(options.config_path, options.config_named));
  PDL_TRY(check_capabilities());
  PDL_TRY(check_pin_dir(options.pin_dir));
  PDL_TRY_ASSIGN(Fd lock, take_agent_lock(options.run_dir));
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open());
  PDL_TRY_ASSIGN(Events events, Events::open());
  Agent agent(options, std::move(config), std::move(lock), std::move(netlink), std::move(events),
              load_memory(options.run_dir));
  PDL_TRY(agent.bring_up());
  return agent.run();
}

}  // namespace poduplink
