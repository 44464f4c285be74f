// SPDX-License-Identifier: Apache-2.0
// Addresses, routes and neighbours of a namespace.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/result.h"
#include "loader/net/netlink.h"

namespace poduplink {

struct InterfaceAddress {
  int link = 0;
  Prefix prefix;            // the address itself with the prefix length of its subnet
  std::uint32_t flags = 0;  // IFA_F_*
  std::uint8_t scope = 0;   // RT_SCOPE_*
};

InterfaceAddress parse_address(const nlmsghdr* message);
struct AddressFilter {
  std::optional<Family> family;
  int link = 0;  // 0: of all
};
// The kernel passes over what the filter leaves out. Errors: ENODEV is none, a link that is gone has no address.
Result<std::vector<InterfaceAddress>> dump_addresses(Netlink& netlink, const AddressFilter& filter = {});
// The interface that bears this IPv6 address. One question, no list; the kernel answers none for IPv4.
Result<std::optional<InterfaceAddress>> find_address6(Netlink& netlink, const IpAddress& address);
// IPv6 addresses are added without duplicate address detection. Errors: EEXIST, and EACCES where IPv6 is off on the
// link.
Result<> add_address(Netlink& netlink, int link, const Prefix& prefix);
Result<> delete_address(Netlink& netlink, int link, const Prefix& prefix);

struct NextHop {
  int link = 0;
  std::optional<IpAddress> gateway;  // may be of the other family (RTA_VIA)

  friend bool operator==(const NextHop&, const NextHop&) = default;
};

struct Route {
  Prefix destination;              // network address
  std::vector<NextHop> next_hops;  // more than one: multipath
  std::uint32_t table = 254;       // RT_TABLE_MAIN
  std::uint32_t metric = 0;        // 0: the kernel's default (1024 for IPv6)
  std::uint8_t type = 1;           // RTN_UNICAST
  std::uint8_t protocol = 4;       // RTPROT_STATIC
  std::uint8_t scope = 0;          // RT_SCOPE_UNIVERSE; routes without a gateway are sent as RT_SCOPE_LINK
  bool on_link = false;            // the gateway needs no route of its own
  std::uint32_t mtu = 0;           // RTAX_MTU, 0: of the device
  std::uint32_t advmss = 0;        // RTAX_ADVMSS
  std::uint32_t flags = 0;         // RTM_F_*/RTNH_F_* as received
  std::optional<IpAddress> source = std::nullopt;  // RTA_PREFSRC: by what address the host itself sends
  std::uint8_t tos = 0;                            // IPv4: of these packets alone
  std::uint8_t preference = 0;                     // RTA_PREF of IPv6, 0: medium
  // Further metrics (RTAX_* and value): initial windows, hop limit and the like.
  std::vector<std::pair<std::uint16_t, std::uint32_t>> metrics;

  [[nodiscard]] bool is_default() const { return destination.length() == 0; }

  friend bool operator==(const Route&, const Route&) = default;
};

// A unicast route of the main table, and none of the cache.
bool is_main_unicast(const Route& route);
// The default route of a family with the lowest metric, by `link` where one is given; null where there is none.
const Route* lowest_default(const std::vector<Route>& routes, Family family, std::optional<int> link = {});
// The interface behind the default route with the lowest metric, IPv4 before IPv6: the primary one.
std::optional<int> primary_link(const std::vector<Route>& routes);

// Also for events. Routes of the cache are marked RTM_F_CLONED in `flags`.
Route parse_route(const nlmsghdr* message);
// All tables, both families, without cached ones.
Result<std::vector<Route>> dump_routes(Netlink& netlink);
// The way of a packet that comes in by an interface (0: that the host itself sends), as the kernel's routing decides it
// now. Errors: EHOSTUNREACH and ENETUNREACH where there is none, EINVAL where the source may not come in there.
struct RouteQuestion {
  IpAddress destination;
  IpAddress source;
  int incoming = 0;
};
Result<Route> find_route(Netlink& netlink, const RouteQuestion& question);
// Errors: EEXIST where the same route is there (callers decide if that is one of theirs), ENETUNREACH for a gateway
// without a route.
Result<> add_route(Netlink& netlink, const Route& route);
Result<> replace_route(Netlink& netlink, const Route& route);
// Beside one with the same destination and metric, and before it (IPv6: their order is the kernel's). Errors: EEXIST
// where this very route is there.
Result<> prepend_route(Netlink& netlink, const Route& route);
// The same, but behind it.
Result<> append_route(Netlink& netlink, const Route& route);
// Errors: ESRCH where it is gone.
Result<> delete_route(Netlink& netlink, const Route& route);

struct Neighbour {
  int link = 0;
  IpAddress address;
  std::optional<MacAddress> mac;
  std::uint16_t state = 0;  // NUD_*
  std::uint8_t flags = 0;   // NTF_*

  // The kernel has a MAC for it and sends to that.
  [[nodiscard]] bool is_resolved() const;
  // It was asked for in vain.
  [[nodiscard]] bool has_failed() const;
};

Neighbour parse_neighbour(const nlmsghdr* message);
Result<std::vector<Neighbour>> dump_neighbours(Netlink& netlink);
// One answer, no dump. Errors: ENOENT where the kernel has no entry.
Result<Neighbour> find_neighbour(Netlink& netlink, int link, const IpAddress& address);
// A permanent neighbour; one that is there is replaced.
Result<> set_permanent_neighbour(Netlink& netlink, int link, const IpAddress& address, const MacAddress& mac);
Result<> delete_neighbour(Netlink& netlink, int link, const IpAddress& address);
// A proxy neighbour: the link joins the solicited-node group of an IPv6 address.
Result<> add_proxy_neighbour(Netlink& netlink, int link, const IpAddress& address);
Result<> delete_proxy_neighbour(Netlink& netlink, int link, const IpAddress& address);
Result<std::vector<Neighbour>> dump_proxy_neighbours(Netlink& netlink);

}  // namespace poduplink
