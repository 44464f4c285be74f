// SPDX-License-Identifier: Apache-2.0
// Service rules of a node in the manner of kube-proxy: DNAT of service addresses and node ports, masquerade where it
// is asked for and of a pod that calls itself, and the drop of what connection tracking calls invalid, counted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/harness/traffic.h"

namespace poduplink::harness {

// iptables: Debian's, with ip6tables.
enum class RuleKind { nftables, iptables };

// TCP and UDP. Of the backend's family.
struct Service {
  std::optional<IpAddress> address;  // where it is called; absent: every address of the node (NodePort, hostPort)
  std::uint16_t port = 0;
  Endpoint backend;
  bool masquerade = false;  // every caller ("externalTrafficPolicy: Cluster"), not only the backend itself
};

class Firewall {
 public:
  // Takes the place of what was installed before, of either kind, without a moment in which nothing is NATed:
  // connections that are about to end must not come out as something else.
  static Result<Firewall> install(const Namespace& node, RuleKind kind, const std::vector<Service>& services);
  // Packets of both families that the forward chain dropped as invalid.
  [[nodiscard]] Result<std::uint64_t> invalid() const;

 private:
  Firewall(const Namespace& node, RuleKind kind) : node_(&node), kind_(kind) {}
  const Namespace* node_;
  RuleKind kind_;
};

// Packets counted by `counter NAME` of one nftables table ("inet NAME").
Result<std::uint64_t> named_counter(const Namespace& node, const std::string& table, const std::string& name);

}  // namespace poduplink::harness
