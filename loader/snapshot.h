// SPDX-License-Identifier: Apache-2.0
// What the network namespace looks like at one moment. Everything the agent decides is a function of this,
// its configuration and what it remembers, so that decisions are tested without a kernel.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/base/result.h"
#include "loader/net/link.h"
#include "loader/net/netlink.h"
#include "loader/net/route.h"

namespace poduplink {

struct Snapshot {
  std::vector<Link> links;  // in order of index
  std::vector<InterfaceAddress> addresses;
  std::vector<Route> routes;                                  // all tables
  std::map<std::pair<int, IpAddress>, Neighbour> neighbours;  // by link and address, of links that are no pod's
  // Effective rp_filter, the greater of "all" and the device's, by ifindex. Missing where it cannot be read.
  std::map<int, int> rp_filter;
  // Links that were there at the last look and have not gone since: the same devices, whatever they are called now.
  std::set<int> lasting;

  [[nodiscard]] const Link* find(int index) const;
  // By name, then by alternative name.
  [[nodiscard]] const Link* find(std::string_view name) const;
  [[nodiscard]] const Neighbour* find_neighbour(int link, const IpAddress& address) const;

  // Dumps the neighbours alone and replaces those here. `links` must be those of the same network namespace.
  Result<> take_neighbours(Netlink& netlink);
};

// "pdl" and twelve hex digits, of kind veth: the host side of a pod's veth (host_veth_name() in maps/attachment.h).
bool is_pod_veth(const Link& link);
bool is_pod_veth_name(std::string_view name);

// Host sides of pods' veths that are there: index and name.
using PodVeths = std::map<int, std::string>;

// Dumps all of it. The namespace is the socket's; rp_filter is read from the calling thread's, which must be the same.
Result<Snapshot> take_snapshot(Netlink& netlink);

// Effective rp_filter of one device. Errors: ENOENT where the kernel has no such setting.
Result<int> effective_rp_filter(const std::string& device);

}  // namespace poduplink
