// SPDX-License-Identifier: Apache-2.0
// The agent itself, in two files: agent.cpp loads and switches, agent_look.cpp looks and puts right. Nobody else's
// business: others include agent.h.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "loader/agent.h"
#include "loader/attach.h"
#include "loader/config_file.h"
#include "loader/datapath.h"
#include "loader/desired.h"
#include "loader/event_loop.h"
#include "loader/events.h"
#include "loader/figures.h"
#include "loader/memory.h"
#include "loader/metrics/exporter.h"
#include "loader/pod_programs.h"
#include "loader/pods.h"
#include "loader/problems.h"
#include "loader/records.h"
#include "loader/snapshot.h"
#include "maps/agent_state.h"
#include "maps/tables.h"

namespace poduplink {

// After something failed that may mend itself, and while connection tracking is looked for.
inline constexpr std::chrono::seconds retry_time{1};

class Agent {
 public:
  Agent(AgentOptions options, ConfigFile file, AgentConfig config, Fd lock, Netlink netlink, Events events,
        AgentMemory memory)
      : options_(std::move(options)),
        file_(std::move(file)),
        config_(std::move(config)),
        records_(options_.run_dir),
        agent_lock_(std::move(lock)),
        netlink_(std::move(netlink)),
        events_(std::move(events)),
        memory_(std::move(memory)),
        stored_memory_(memory_) {}

  Result<> bring_up();
  Result<> run();

 private:
  Result<> load_datapath(bool conntrack);
  Result<> take_over_version(const std::string& before, const std::string& folder);
  Result<> give_up_version(const std::string& before, const std::vector<std::string>& problems);
  void retire_other_versions();
  std::vector<std::string> switch_programs(std::vector<std::string>& uplink_problems);
  void look_again();
  void audit();
  void reload(bool asked);
  void take_over(AgentConfig fresh);
  std::vector<std::string> mend_pins();
  std::vector<std::string> attach_wanted();
  enum class Looked { fresh, audit };  // the network was read anew, or everything should be as it was left
  std::vector<std::string> publish_all(Looked looked);
  std::vector<std::string> publish_pods(const Events::PodNews& news);
  void note_raised(std::vector<std::string>& problems) const;
  std::vector<std::string> warnings();
  std::vector<std::string> detach_unwanted();
  void refresh_neighbours();
  bool note_gateways(SilentGateways silent);
  void look_for_conntrack();
  void tell(const std::vector<std::string>& failures);
  void log_report(const std::vector<UplinkReport>& before) const;
  void remember();
  [[nodiscard]] AgentView view() const;

  AgentOptions options_;
  ConfigFile file_;
  AgentConfig config_;
  Records records_;
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
  std::optional<PodEntries> settled_pods_;  // what the maps held when nothing was left to do
  SilentGateways silent_gateways_;
  PodPrograms pod_programs_;
  std::vector<std::string> load_problems_;  // of pods' veths, from the last load
  std::vector<std::string> conntrack_problem_;
  std::vector<std::string> config_problem_;  // of a changed file that was not taken over
  std::optional<AgentState> state_;
  Figures figures_;
  std::chrono::steady_clock::time_point began_;  // the reconciliation that is going on
  EventLoop loop_;
  Exporter exporter_{loop_, [this] { return view(); }};
};

}  // namespace poduplink
