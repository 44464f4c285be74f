// SPDX-License-Identifier: Apache-2.0
// A node as a cluster makes it: pods get their first network from one of Debian's plugins, and poduplink, chained
// behind it, gives them a second interface on uplink 2. Called as libcni calls a list of plugins.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/harness/require.h"

namespace poduplink::harness {

// The cluster's ranges, which stay with the first network.
inline constexpr const char* cluster_cidrs = R"(["10.244.0.0/16","10.96.0.0/12","fd00:244::/32","fd00:96::/112"])";
// The interface that leads out of the cluster.
inline constexpr const char* external_name = "ext0";
inline constexpr unsigned external_uplink = 2;
inline constexpr unsigned first_mtu = 1400;

struct ChainOptions {
  std::string first = "bridge";  // or "ptp"
  std::string mode;
  std::string version = "1.0.0";
  Ipam ipam = Ipam::poduplink;
  std::string patch = "{}";         // of our configuration (RFC 7386)
  std::string first_patch = "{}";   // of the first plugin's
  std::vector<std::string> behind;  // further plugins, each a JSON object with its type
};

// Waits until the kernel has looked for others with the addresses of every interface.
void require_settled(const Namespace& space);

class ExternalNode;

// One container and its list of plugins.
class ChainedPod {
 public:
  ChainedPod(ExternalNode& node, const std::string& name, ChainOptions options);

  // ADD of the first plugin; once. The pod's first network is as it will be again.
  void add_first();
  // A first network that somebody made by hand, and what its plugin would have said.
  void take_first(const std::string& result);
  // ADD of ours, and where it succeeds, of those behind.
  PluginAnswer add();
  void require_add();
  // One verb of ours, with the last result as libcni sends it.
  PluginAnswer call(const std::string& verb);
  void require_check();
  // DEL of those behind and of ours.
  void del_ours();
  // DEL of the first plugin.
  void del_first();
  void del();

  // What is different in the container since add_first(); empty: nothing.
  [[nodiscard]] std::string changes() const;
  void require_unchanged() const;

  [[nodiscard]] const Namespace& space() const { return *pod_.space; }
  [[nodiscard]] const Pod& pod() const { return pod_; }
  Pod& pod() { return pod_; }
  // Addresses of the first network and of the external one.
  [[nodiscard]] IpAddress first(Family family) const;
  [[nodiscard]] IpAddress external(Family family) const;
  [[nodiscard]] bool has_external() const { return pod_.v4.has_value() || pod_.v6.has_value(); }
  // The result of the list as it stands.
  [[nodiscard]] const std::string& result() const { return result_; }
  // Our configuration with that result in it.
  [[nodiscard]] std::string config() const;
  void set_config(const std::string& patch);

 private:
  std::string run(const std::string& verb, const std::string& config);
  [[nodiscard]] Invocation asked(const std::string& verb) const;

  ExternalNode& node_;
  ChainOptions options_;
  Pod pod_;
  std::string first_config_;
  std::string result_;
  Snapshot before_;
};

class ExternalNode {
 public:
  // `number` tells nodes of one cluster apart: pods are 10.244.<number>.0/24 and fd00:244:<number>::/64. The agent has
  // `agent_patch` over a configuration with uplinks 1 and 2 and the cluster's ranges exempt.
  explicit ExternalNode(unsigned number = 1, const std::string& agent_patch = "{}");
  ExternalNode(const ExternalNode&) = delete;
  ExternalNode& operator=(const ExternalNode&) = delete;

  Lab& operator*() { return *lab_; }
  Lab* operator->() { return lab_.get(); }
  [[nodiscard]] unsigned number() const { return number_; }

  // The network's configuration as the first plugin gets it.
  [[nodiscard]] std::string first_config(const ChainOptions& options) const;
  [[nodiscard]] std::string our_config(const ChainOptions& options);
  // A vxlan between two nodes: each reaches the other's pods by it.
  static void connect(ExternalNode& one, ExternalNode& other);
  // Reservations of the first plugin's IPAM.
  [[nodiscard]] std::size_t first_reservations() const;

 private:
  void join(const ExternalNode& other);

  unsigned number_;
  std::unique_ptr<Lab> lab_;
};

}  // namespace poduplink::harness
