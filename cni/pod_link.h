// SPDX-License-Identifier: Apache-2.0
// The pod's interface: what is set inside the container and on the host side of its veth.
#pragma once

#include <string>
#include <vector>

#include "cni/spec/environment.h"
#include "cni/spec/error.h"
#include "cni/spec/result.h"
#include "loader/base/address.h"
#include "loader/base/fd.h"
#include "loader/net/link.h"
#include "loader/net/netlink.h"
#include "loader/net/route.h"

namespace poduplink {

// The pod's next hop for everything: 169.254.1.1 or fe80::1, at the MAC that every host veth has.
IpAddress link_gateway(Family family);
MacAddress link_gateway_mac();

// The container's namespace. Errors: bad_environment naming CNI_NETNS: it cannot be opened, is none, or is the
// one that this program runs in (unless CNI_NETNS_OVERRIDE allows it).
CniResult<Fd> open_container(const Environment& environment);

// A MAC as nobody else has it: random, locally administered, unicast.
Result<MacAddress> random_mac();

// The routes that a pod with these addresses gets, in the order in which they are made: to the link gateway,
// the default, and those of the IPAM plugin, all by the link gateway: the datapath picks the next hop on the uplink. A
// default of the IPAM plugin stands in the place of ours. Routes of a family that the pod has no address of are left
// out.
std::vector<ResultRoute> container_routes(const std::vector<IpAddress>& addresses,
                                          const std::vector<ResultRoute>& from_ipam);

// A route as the kernel gets it.
Route kernel_route(const ResultRoute& route, int link);

// Sets the interface up, with host addresses (/32, /128, no DAD), permanent neighbours for the gateways and
// `routes`. A route that another interface of the container has is made with a higher metric, so that the
// first interface keeps its place. Returns the routes as made. Errors: container_link.
CniResult<std::vector<ResultRoute>> configure_container(Netlink& netlink, int netns_fd, const Link& link,
                                                        const std::vector<IpAddress>& addresses,
                                                        std::vector<ResultRoute> routes);

// On the host side: no router advertisements of the pod are believed, the interface is up, with a link-local address
// where the pod has IPv6 and none where it has not, and one route an address.
// Errors: container_link; already_added where an address has a host route elsewhere.
CniResult<> configure_host_side(Netlink& netlink, const Link& veth, const std::vector<IpAddress>& addresses);

// The host route of an address.
Route host_route(const IpAddress& address, int veth);

}  // namespace poduplink
