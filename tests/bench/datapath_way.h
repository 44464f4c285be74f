// SPDX-License-Identifier: Apache-2.0
// The ways in which a pod's packets are steered, each on a node of its own. The nodes are alike (tests/harness/lab.h):
// two uplinks with a gateway each, and the default route by the first. What differs is who steers a pod's packets, and
// how. Errors are thrown.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "maps/abi.h"
#include "tests/bench/drain.h"
#include "tests/bench/traffic.h"
#include "tests/harness/lab.h"

namespace poduplink::bench {

// The end that is measured, and what its packets look like on the wire.
struct PodEnd {
  const harness::Namespace* space = nullptr;
  std::string device = "eth0";
  IpAddress v4;
  IpAddress v6;
  unsigned uplink = 1;
  MacAddress mac;               // by which the uplink's network knows it
  unsigned routers = 1;         // between it and the wire: each takes one from the TTL
  bool meets_netfilter = true;  // of the node

  [[nodiscard]] const IpAddress& address(Family family) const { return family == Family::v4 ? v4 : v6; }
};

// Packets that the code under test says it has steered.
struct Steered {
  std::uint64_t out = 0;
  std::uint64_t in = 0;
};

struct Way {
  std::string variant;
  std::unique_ptr<harness::Lab> lab;
  PodEnd pod;
  // The numbers of pods that there can be; empty where their number means nothing to it.
  std::vector<unsigned> sizes;
  // The node with one of these numbers of pods, before a sample. Absent: it has no other.
  std::function<void(unsigned pods)> set_pods;
  // Absent: nothing counts.
  std::function<Steered()> steered;
  // Where packets end, on the gateway and in the pod.
  std::unique_ptr<Drain> outside_drain;
  std::unique_ptr<Drain> pod_drain;

  // From the pod to the outside.
  [[nodiscard]] Path out(Family family) const;
};

using Sizes = std::vector<unsigned>;

// A process of the node itself, by the first uplink.
Way host_way();
// poduplink, fast or netfilter mode, the pod's home being the second uplink; entries of so many pods in the maps. The
// agent has been stopped: it has no part in a packet's path, and takes away entries that have no record.
Way poduplink_way(pdl_mode mode, const Sizes& sizes);
// A program that redirects without a question, in the place of poduplink's: the limit of steering on a pod's veth.
Way redirect_way();
// As the AWS VPC CNI does it: two rules a pod, and a table with the second uplink's default route.
Way policy_way(unsigned pods);
// Debian's ptp plugin with host-local. Its pods leave by the node's default route.
Way ptp_way();
// A macvlan of the first uplink, bridge mode, in the pod.
Way macvlan_way();

// From now on the node tracks connections, by a rule that asks for their state. Nothing did before.
void track_connections(const Way& way);

// Sends some packets each way and looks where they go: by the right uplink and no other, with the MACs and the TTL that
// the way gives them, counted at their end, steered by the code that the variant is named after; and, of a way through
// the node's stack, tracked there or not. Throws where it is otherwise.
void check(const Way& way, bool tracked);

}  // namespace poduplink::bench
