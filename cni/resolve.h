// SPDX-License-Identifier: Apache-2.0
// From wanted addresses to addresses with uplink and next hop, on the host as it is now.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cni/gateway.h"
#include "cni/options.h"
#include "cni/uplink.h"
#include "loader/net/netlink.h"
#include "maps/tables.h"

namespace poduplink {

struct SteeredBy {
  Uplink uplink;
  IpAddress gateway;
};

struct PodAddress {
  Prefix address;                  // in its subnet
  std::optional<SteeredBy> steer;  // nothing in a plain pod
};

// Finds uplink and gateway of each address. An uplink that is missing, or not managed by the agent, is waited for
// for uplinkTimeout at most: a NIC may have been attached a moment ago. With the key 'external' there has to be one, it
// has to be up, and where nothing else names it, the only one that is not the primary is meant. Either all addresses
// have an uplink or, where requireUplink is false and nothing names one, none has. Errors: uplink, ipam_result
// (gateway; an address that the node itself has), try_again where a signal ended the wait.
CniResult<std::vector<PodAddress>> resolve_addresses(Netlink& netlink, const Tables& tables, const Options& options,
                                                     const std::vector<WantedAddress>& wanted,
                                                     const std::string& host_veth);

// The MTU of the pod's interface: the least of its uplinks, or what the key 'mtu' says where that is less.
// Nothing is steered: the key alone, 0 for the kernel's default.
unsigned pod_mtu(const std::vector<PodAddress>& addresses, unsigned configured);

}  // namespace poduplink
