// SPDX-License-Identifier: Apache-2.0
// The ways in which a pod gets its interface, each on a node of its own, in the same network namespaces of pods. Errors
// are thrown.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/harness/lab.h"

namespace poduplink::bench {

// What one round of a verb brought, by variant: microseconds of each call.
using Times = std::map<std::string, std::vector<double>>;

// A container: its ID and its network namespace.
struct Container {
  std::string id;
  const harness::Namespace* space = nullptr;
};

class CniNode {
 public:
  CniNode() = default;
  CniNode(const CniNode&) = delete;
  CniNode& operator=(const CniNode&) = delete;
  virtual ~CniNode() = default;

  // How many attachments there can be at the same time.
  [[nodiscard]] virtual unsigned most() const { return 65536; }
  // Makes attachments, without processes, until there are so many. Others than those that are measured.
  virtual void fill(unsigned attachments) = 0;
  // ADD or DEL of each, one after the other.
  virtual Times run(const std::string& verb, const std::vector<Container>& containers) = 0;
  // The same with all at once; empty where that means nothing.
  virtual Times run_at_once(const std::string& verb, const std::vector<Container>& containers) = 0;
};

// The plugin with its own IPAM on the lab's node, beside the agent: pods with an IPv4 address, and pods with one of
// each family. Both on the same node; what is there already has both families.
std::vector<std::unique_ptr<CniNode>> poduplink_nodes(harness::Lab& lab);
// Debian's ptp and bridge with host-local, IPv4.
std::unique_ptr<CniNode> ptp_node(harness::Lab& lab);
std::unique_ptr<CniNode> bridge_node(harness::Lab& lab);
// What no plugin can do without: one request to the kernel that makes, and one that deletes, a veth whose peer is in
// the pod, and the start of as many programs as the plugins are. And each of the two apart.
std::unique_ptr<CniNode> floor_node(harness::Lab& lab);

}  // namespace poduplink::bench
