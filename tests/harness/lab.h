// SPDX-License-Identifier: Apache-2.0
// A node with uplinks, their gateways, an agent and pods, all of it in network namespaces. One harness for the
// end-to-end tests, `scripts/lab` and `scripts/demo`.
//
// Uplink i (1…N) is ethI in the node and eth0 in the namespace of its gateway:
//   subnets 10.I.0.0/16 and fd00:I::/64, node .0.10 and ::10, gateway .0.1 and ::1,
//   MACs 02:00:00:00:0I:02 (node) and 02:00:00:00:0I:01 (gateway).
// The node's default route leads by the first. Every gateway owns the outside address: whichever gets a
// packet can count and answer it. Uplink 0 is eth0 with the default route, not in the agent's configuration;
// it is there with `unlisted_default` only.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/result.h"
#include "maps/tables.h"
#include "tests/harness/agent.h"
#include "tests/harness/cni_answer.h"
#include "tests/harness/namespace.h"
#include "tests/harness/pod.h"
#include "tests/harness/snapshot.h"

namespace poduplink::harness {

inline constexpr const char* outside4 = "198.51.100.10";
inline constexpr const char* outside6 = "2001:db8:ffff::10";

struct LabOptions {
  std::string name = "lab";
  unsigned uplinks = 3;              // 1 to 9
  bool unlisted_default = false;     // eth0 bears the default route and the agent is not told of it
  bool addressless = false;          // the node has no addresses on its uplinks (but on eth0)
  std::map<unsigned, unsigned> mtu;  // by uplink; 1500 where it says nothing
  std::string node_setup;            // further `ip` commands in the node, before the snapshot is taken
};

// The addresses of one uplink, from its number alone.
struct Uplink {
  unsigned number = 0;
  unsigned mtu = 1500;

  [[nodiscard]] std::string name() const;  // in the node
  [[nodiscard]] MacAddress mac() const;
  [[nodiscard]] MacAddress gateway_mac() const;
  [[nodiscard]] std::string subnet4() const;  // "10.2.0.0/16"
  [[nodiscard]] std::string subnet6() const;
  [[nodiscard]] IpAddress node4() const;
  [[nodiscard]] IpAddress node6() const;
  [[nodiscard]] IpAddress gateway4() const;
  [[nodiscard]] IpAddress gateway6() const;
  // The host'th address of the pods' part of the subnet: 10.2.<group>.<host>, fd00:2::<group>:<host>.
  [[nodiscard]] IpAddress pod4(unsigned group, unsigned host) const;
  [[nodiscard]] IpAddress pod6(unsigned group, unsigned host) const;
};

class Lab {
 public:
  // Builds node, gateways, folders and bpffs. Errors name the step; nothing is left behind.
  static Result<std::unique_ptr<Lab>> create(LabOptions options);
  // A lab that an earlier process made and released. Errors: ENOENT where there is none of that name.
  static Result<std::unique_ptr<Lab>> open(const std::string& name);
  // Removes what bears the name, whatever state it is in: agent, namespaces, mount, folder. Says what it removed.
  static std::vector<std::string> remove_by_force(const std::string& name);
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;
  // close(), where that was not called; what it finds is printed and counted (see failures_at_end()).
  ~Lab();

  // Deletes the pods through the plugin, looks for leftovers, stops the agent, unloads, compares the node with
  // what it was, takes everything down, and looks again. Each line is something that should not have been.
  std::vector<std::string> close();
  // Writes the state to RUN/lab.json and lets go: nothing is taken down, the agent runs on.
  Result<> release();

  [[nodiscard]] const LabOptions& options() const { return options_; }
  [[nodiscard]] const Namespace& node() const { return node_; }
  [[nodiscard]] const Namespace& gateway(unsigned uplink) const { return gateways_.at(uplink); }
  [[nodiscard]] Uplink uplink(unsigned number) const;
  // All that exist, in order.
  [[nodiscard]] std::vector<unsigned> uplink_numbers() const;
  // "node", "gw2" or a pod's name. Errors: ENOENT with the names that there are.
  [[nodiscard]] Result<const Namespace*> find_namespace(const std::string& name) const;
  // A further namespace, removed with the lab.
  Result<const Namespace*> add_namespace(const std::string& name);

  [[nodiscard]] std::string folder() const;  // RUN: everything of this lab lies in here
  [[nodiscard]] std::string pin_dir() const { return folder() + "/bpf/poduplink"; }
  [[nodiscard]] std::string run_dir() const { return folder() + "/run"; }
  [[nodiscard]] std::string cni_path() const;  // RUN/cni-bin (tests may put plugins there), build/bin …
  [[nodiscard]] std::string ipam_dir(const std::string& kind) const { return folder() + "/ipam/" + kind; }

  // ---- the agent ----
  // The configuration that lists uplinks 1…N by name.
  [[nodiscard]] std::string default_agent_config() const;
  // Writes the configuration (empty: the default one), starts the agent and waits until it is ready.
  // Errors: it ended or was not ready in time, with its log.
  Result<> start_agent(const std::string& config = {}, std::chrono::milliseconds patience = std::chrono::seconds(20));
  // The running agent, or the one that last ran. Its methods: pid, running, kill, stop, log.
  [[nodiscard]] Agent& agent() { return agent_; }
  // `poduplinkd --unload` with the lab's folders.
  Result<Outcome> unload_agent();

  // ---- pods ----
  // Makes the pod's namespace and adds it. Errors: the plugin refused (with its answer), the answer breaks
  // the specification, or the kernel does not show what the answer says.
  Result<Pod> add_pod(const std::string& name, const PodOptions& options = {});
  // DEL. Its namespace goes too.
  Result<> del_pod(const std::string& name);
  // CHECK with the result of ADD as prevResult.
  Result<> check_pod(const std::string& name);
  [[nodiscard]] const Pod& pod(const std::string& name) const { return pods_.at(name); }
  [[nodiscard]] const std::map<std::string, Pod>& pods() const { return pods_; }

  // The parts of add_pod, for tests that want the plugin to refuse, or call it in several threads.
  // A pod with its namespace, that nothing was added to.
  Result<Pod> make_pod(const std::string& name, const PodOptions& options = {});
  // The configuration that make_pod takes for these options.
  [[nodiscard]] std::string pod_config(const PodOptions& asked);
  // One verb of the plugin in the node, with what the lab gives it and `more` variables; the answer is held against
  // the specification and, of an ADD, against the kernel (PluginAnswer::faults). Thread-safe.
  [[nodiscard]] Result<PluginAnswer> invoke(const Invocation& asked, const std::vector<std::string>& more = {}) const;
  // The same for a pod. Thread-safe.
  [[nodiscard]] Result<PluginAnswer> call(const std::string& verb, const Pod& pod) const;
  // The plugin with a raw environment (nothing else is inherited) and input.
  [[nodiscard]] Result<Outcome> run_plugin(const std::vector<std::string>& environment, const std::string& input) const;
  // Takes the answer of ADD over into the pod. Errors: as add_pod().
  Result<> adopt(Pod& pod, const PluginAnswer& answer) const;
  // Forgets a pod and removes its namespace, without the plugin.
  Result<> forget_pod(const std::string& name);
  // Makes a pod from make_pod() known to pods(), del_pod() and close().
  void keep_pod(Pod pod);

  // ---- what is there ----
  // Maps of the version in force.
  [[nodiscard]] Result<Tables> tables() const { return open_current_tables(pin_dir()); }
  // What pods left behind: entries, records, pins, veths, routes, rules, reservations, changed uplinks. Empty
  // when all pods were deleted and all is as it was before the first.
  [[nodiscard]] std::vector<std::string> leftovers() const;
  // Takes what a test itself has changed for "as it was before": the items that name one of these ("eth2",
  // "rp_filter", "10.96."). All else stays to be answered for.
  Result<> accept_changes(const std::vector<std::string>& about);

 private:
  explicit Lab(LabOptions options) : options_(std::move(options)) {}
  Result<> build();
  Result<> build_uplink(unsigned number);
  Result<> save() const;
  Result<> load();
  Result<> load_agent();
  // A pod that an earlier process added, by what ADD printed then.
  Result<> restore_pod(Pod pod, const std::string& result);
  Result<> take_down(std::vector<std::string>& problems);
  [[nodiscard]] std::string namespace_name(const std::string& role) const {
    return "pdl-" + options_.name + "-" + role;
  }
  [[nodiscard]] Invocation invocation(const std::string& verb, const Pod& pod) const;
  [[nodiscard]] std::string stub_addresses(const PodOptions& options);
  [[nodiscard]] std::vector<std::string> uplink_names() const;

  LabOptions options_;
  Namespace node_;
  std::map<unsigned, Namespace> gateways_;
  std::map<std::string, Namespace> others_;
  Agent agent_;
  std::map<std::string, Pod> pods_;
  Snapshot before_;
  unsigned next_stub_host_ = 1;
  unsigned next_container_ = 1;
  bool closed_ = true;  // until there is something that is ours to take down
};

// Labs that were destroyed with something left behind. A test program that ends with a number here has failed.
unsigned failures_at_end();

// build/bin, found from the running program's own place in build/bin or build/bin/tests.
std::string program_folder();

}  // namespace poduplink::harness
