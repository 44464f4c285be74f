// SPDX-License-Identifier: Apache-2.0
// The next hop of a pod address on its uplink. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "cni/spec/error.h"
#include "cni/uplink.h"
#include "loader/base/address.h"

namespace poduplink {

struct Gateway {
  IpAddress address;
  std::string origin;     // "the IPAM result", "uplink eth1" …
  bool inferred = false;  // nobody named it: worth a line in the log
};

// The first that there is: the IPAM result's; the uplink's, configured or of its own default route; and, where
// the agent discovered the uplink, one inferred from the subnet. Errors: ipam_result where there is none, or
// where it cannot be the next hop of that address.
CniResult<Gateway> choose_gateway(const WantedAddress& wanted, const Uplink& uplink, const HostView& view,
                                  bool on_link_gateway);

// The first address of an IPv4 subnet of at least four. Nothing for /31, /32, IPv6, and where that is the
// pod's own.
std::optional<IpAddress> first_of_subnet(const Prefix& pod);

}  // namespace poduplink
