// SPDX-License-Identifier: Apache-2.0
// The part of the host that has to be looked at to find the uplinks of a pod's addresses. Not all of it: a node with
// 5,000 pods has 5,000 interfaces and addresses that have nothing to do with them, and a list of those takes longer
// than all else that ADD does.
#pragma once

#include <vector>

#include "cni/uplink.h"
#include "loader/base/result.h"
#include "loader/net/netlink.h"
#include "maps/tables.h"

namespace poduplink {

// What find_uplink(), uplink_by_subnet(), only_secondary() and choose_gateway() ask of the host for these addresses,
// all of the map `uplinks`, and those of the node's own addresses that the pod or a gateway would have. Links: the ones
// that are named; all where one is named by its MAC alone, which only a list can answer; the managed ones where an
// address names none, or there is no address.
Result<HostView> read_host(Netlink& netlink, const Tables& tables, const std::vector<WantedAddress>& wanted);

}  // namespace poduplink
