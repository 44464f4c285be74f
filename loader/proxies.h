// SPDX-License-Identifier: Apache-2.0
// A real NIC filters multicast: the proxy neighbour that ADD makes for an IPv6 address lets the uplink join the
// address's solicited-node group. The kernel forgets it whenever the uplink goes down.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/pods.h"
#include "loader/records.h"

namespace poduplink {

// Makes those again that records of entries speak of and that are missing on the entry's home. `entries`: all of them.
// The caller holds GlobalLock. Adds how many to `made`. Returns what could not be made; a home that is not there is no
// problem.
std::vector<std::string> keep_proxy_neighbours(Netlink& netlink, const Records& records, const PodEntries& entries,
                                               std::uint64_t& made);

}  // namespace poduplink
