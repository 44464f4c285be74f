// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "loader/agent_impl.h"
#include "loader/base/log.h"
#include "loader/base/version.h"
#include "loader/neighbours.h"
#include "loader/preflight.h"
#include "loader/proxies.h"
#include "loader/publish.h"
#include "loader/rpfilter.h"
#include "loader/warnings.h"
#include "maps/locks.h"

namespace poduplink {

void Agent::look_again() {
  began_ = std::chrono::steady_clock::now();
  auto snapshot = take_snapshot(netlink_);
  if (!snapshot) {
    tell({"the network cannot be read: " + snapshot.error().message});
    return;
  }
  const std::vector<UplinkReport> before = std::move(desired_.report);
  snapshot->lasting = events_.take_lasting(snapshot_);
  snapshot_ = std::move(*snapshot);
  desired_ = make_desired(config_, snapshot_, memory_.uplinks);
  settled_pods_.reset();
  memory_.uplinks = desired_.memory;
  log_report(before);
  std::set<int> managed;
  for (const DesiredUplink& uplink : desired_.uplinks) managed.insert(uplink.index);
  std::vector<std::string> failures = manage_rp_filter(desired_.manage_rp_filter, snapshot_, memory_);
  if (events_.learn(snapshot_, std::move(managed))) {
    if (const auto taken = snapshot_.take_neighbours(netlink_); !taken)
      failures.push_back("the neighbours cannot be read: " + taken.error().message);
  }
  append(failures, attach_wanted());
  append(failures, publish_all(Looked::fresh));
  append(failures, detach_unwanted());
  append(failures, keep_permanent_neighbours(netlink_, desired_.neighbours, snapshot_, memory_));
  tell(failures);
}

// What others may have done to pins, hooks and maps, where no event tells of it. Cheap where all is well: thousands
// of pods must not cost a node anything while nothing happens.
void Agent::audit() {
  reload(false);
  began_ = std::chrono::steady_clock::now();
  exporter_.listen(config_.metrics_listen);
  // Where the file system is gone, folders would be made in what lies beneath. Programs and maps work on without it.
  if (const auto fits = check_pin_dir(options_.pin_dir); !fits) {
    tell({fits.error().message});
    return;
  }
  std::vector<std::string> failures = mend_pins();
  append(failures, attach_wanted());
  append(failures, publish_all(Looked::audit));
  tell(failures);
}

std::vector<std::string> Agent::mend_pins() {
  const auto lock = GlobalLock::take(options_.run_dir);
  if (!lock) return {lock.error().message};
  const auto mended = datapath_->mend_pins();
  if (!mended) return {mended.error().message};
  figures_.repairs.pins += mended->size();
  for (const std::string& path : *mended) log_warning("{} was missing: pinned again", path);
  return {};
}

void Agent::reload(bool asked) {
  auto fresh = file_.look(asked);
  if (!fresh) {
    ++figures_.reloads_failed;
    log_error("{}; the configuration stays as it was", fresh.error().message);
    config_problem_ = {"configuration not taken over: " + fresh.error().message};
    return;
  }
  if (!*fresh) return;
  config_problem_.clear();
  if (**fresh == config_) {
    ++figures_.reloads_done;
    log_info("the configuration is what it was");
    return;
  }
  take_over(std::move(**fresh));
}

void Agent::take_over(AgentConfig fresh) {
  if (fresh.map_sizes != config_.map_sizes) log_warning("mapSizes has changed: that holds after --unload");
  const bool other_programs = fresh.steer_node != config_.steer_node;
  log_info("taking over a changed configuration: {} uplinks, {} exempt prefixes",
           fresh.discover ? std::string("discovered") : std::to_string(fresh.uplinks.size()), fresh.exempt.size());
  const AgentConfig old = std::exchange(config_, std::move(fresh));
  if (other_programs) {
    if (const auto loaded = load_datapath(conntrack_); !loaded) {
      ++figures_.reloads_failed;
      log_error("{}; the configuration stays as it was", loaded.error().message);
      config_problem_ = {"configuration not taken over: " + loaded.error().message};
      config_ = old;
      return;
    }
  }
  ++figures_.reloads_done;
  exporter_.listen(config_.metrics_listen);
  look_again();
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
  figures_.repairs.uplink_programs += attachments_->take_mended();
  return problems;
}

// What steers a packet comes before what lets pods use it: addresses and exempt prefixes, then uplinks, then
// pods; entries of interfaces that are no longer managed go last.
std::vector<std::string> Agent::publish_all(Looked looked) {
  const auto lock = GlobalLock::take(options_.run_dir);
  if (!lock) return {lock.error().message};
  Published all = publish_nodes(tables_, desired_);
  all.add(publish_exempt(tables_, desired_));
  all.add(publish_uplinks(tables_, desired_, attached_));
  append(all.problems, publish_pods(events_.take_pod_news()));
  all.add(retire_uplinks(tables_, desired_, attached_));
  // Also where something could not be written: the rest was.
  if (all.changes > 0) note_raised(all.problems);
  if (looked == Looked::audit) figures_.repairs.map_entries += all.changes;
  return all.problems;
}

// Entries are compared with the records where anything can have changed: the entries themselves, a record, what the
// snapshot says (look_again() forgets what was settled), or a pod whose veth went away. The caller holds GlobalLock.
std::vector<std::string> Agent::publish_pods(const Events::PodNews& news) {
  const auto changed = records_.refresh();
  if (!changed) return {changed.error().message};
  auto present = tables_.pods.entries();
  if (!present) return {present.error().message};
  const bool settled = settled_pods_ && same_entries(*settled_pods_, *present);
  std::vector<std::string> problems;
  if (!settled || *changed || news.some_gone || news.all_suspect) {
    const auto repairs =
        reconcile_pods(netlink_, tables_, *present, records_, desired_, snapshot_, events_.pod_veths());
    // Also where that ended early: some may have been made.
    if (!repairs || repairs->made > 0) note_raised(problems);
    if (!repairs) {
      problems.push_back(repairs.error().message);
      return problems;
    }
    note_gateways(repairs->silent);
    if (repairs->any()) {
      figures_.repairs.pod_entries_made += repairs->made;
      figures_.repairs.pod_entries_changed += repairs->changed;
      figures_.repairs.pod_entries_erased += repairs->erased;
      log_info("pod entries: {} made, {} changed, {} erased", repairs->made, repairs->changed, repairs->erased);
      settled_pods_.reset();
      present = tables_.pods.entries();
      if (!present) return {present.error().message};
    }
    append(problems, keep_proxy_neighbours(netlink_, records_, *present, figures_.repairs.proxy_neighbours));
    if (!repairs->any()) settled_pods_ = std::move(*present);
  }
  append(problems, pod_programs_.audit(netlink_, tables_, records_, events_.pod_veths(), news, settled && !*changed));
  figures_.repairs.pod_programs += pod_programs_.take_mended();
  return problems;
}

// The programs judge flows by what was written just now, and not by what they remember.
void Agent::note_raised(std::vector<std::string>& problems) const {
  if (const auto raised = tables_.generation.raise(); !raised) problems.push_back(raised.error().message);
}

std::vector<std::string> Agent::warnings() {
  const char* service_host = std::getenv("KUBERNETES_SERVICE_HOST");
  std::vector<std::string> all =
      service_warnings(config_, service_host != nullptr ? std::optional<std::string_view>(service_host) : std::nullopt);
  append(all, forwarding_warnings());
  append(all, gateway_warnings(silent_gateways_, desired_));
  append(all, failed_open_warnings(records_));
  for (const DesiredUplink& uplink : desired_.uplinks) {
    if (!attached_.contains(uplink.index)) continue;
    const auto names = attachments_->programs_before(netlink_, uplink.index);
    for (const std::string& name : names ? *names : std::vector<std::string>())
      all.push_back(
          formatted("{}: {} sees packets before uplink_ingress; where it ends the chain, pods are not reached "
                    "directly",
                    uplink.name(), name));
  }
  append(all, config_problem_);
  append(all, exporter_.problems());
  return all;
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
  if (!snapshot_.take_neighbours(netlink_)) {
    look_again();
    return;
  }
  std::vector<std::string> problems = keep_permanent_neighbours(netlink_, desired_.neighbours, snapshot_, memory_);
  bool news = false;
  {
    const auto lock = GlobalLock::take(options_.run_dir);
    const auto refreshed =
        lock ? refresh_pods(tables_, desired_, snapshot_) : Result<PodRepairs>(Failure(lock.error()));
    if (refreshed) {
      news = note_gateways(refreshed->silent);
    } else {
      problems.push_back(refreshed.error().message);
    }
  }
  for (const std::string& problem : problems) log_warning("{}", problem);
  remember();
  if (news) audit();  // which tells it
}

// Whether other gateways are silent than were. That one does not answer is told as a warning.
bool Agent::note_gateways(SilentGateways silent) {
  const SilentGateways before = std::exchange(silent_gateways_, std::move(silent));
  for (const auto& [link, gateway] : before) {
    if (!silent_gateways_.contains({link, gateway})) log_info("gateway {} is silent no longer", gateway.text());
  }
  return before != silent_gateways_;
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

// What keeps the agent from being ready is in `failures`, besides what it knows anyway.
void Agent::tell(const std::vector<std::string>& failures) {
  AgentState state;
  const bool retry = !failures.empty();
  state.reasons = desired_.reasons;
  append(state.reasons, load_problems_);
  append(state.reasons, conntrack_problem_);
  append(state.reasons, failures);
  state.ready = state.reasons.empty();
  state.warnings = warnings();
  for (const std::string& warning : state.warnings) {
    if (!state_ || std::ranges::find(state_->warnings, warning) == state_->warnings.end()) log_warning("{}", warning);
  }
  state.pid = ::getpid();
  state.version = build_version();
  state.uplinks = desired_.report;
  const std::string reasons = joined(state.reasons, "; ");
  if (!state_ || state_->ready != state.ready || state_->reasons != state.reasons) {
    if (state.ready) {
      log_info("ready");
    } else {
      log_error("not ready: {}", reasons);
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
                                        : "not ready: " + reasons);
  state_ = std::move(state);
  if (retry) loop_.wake_in(retry_time);

  ++(failures.empty() ? figures_.reconciliations_done : figures_.reconciliations_failed);
  figures_.reconciled = std::chrono::steady_clock::now();
  figures_.reconciled_date = std::chrono::system_clock::now();
  figures_.reconciliation_took = figures_.reconciled - began_;
}

AgentView Agent::view() const {
  return {.figures = figures_,
          .tables = tables_,
          .desired = desired_,
          .silent_gateways = silent_gateways_,
          .records = records_,
          .state = state_ ? &*state_ : nullptr,
          .events_lost = events_.times_lost(),
          .dumps_interrupted = netlink_.dumps_interrupted(),
          .config_in_force = config_problem_.empty()};
}

void Agent::remember() {
  if (memory_ == stored_memory_) return;
  if (const auto stored = store_memory(options_.run_dir, memory_); !stored) {
    log_error("{}", stored.error().message);
  } else {
    stored_memory_ = memory_;
  }
}

}  // namespace poduplink
