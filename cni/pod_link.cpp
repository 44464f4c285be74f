// SPDX-License-Identifier: Apache-2.0
#include "cni/pod_link.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "loader/base/log.h"
#include "loader/net/netns.h"
#include "maps/abi.h"

namespace poduplink {
namespace {

constexpr std::array<std::uint8_t, 4> gateway4 = PDL_POD_GATEWAY4;
constexpr std::array<std::uint8_t, 16> gateway6 = PDL_POD_GATEWAY6;
constexpr MacAddress gateway_mac(std::array<std::uint8_t, 6>(PDL_HOST_MAC));

constexpr std::uint32_t main_table = 254;
// Metric of routes that another interface of the container has already. Above the 1024 that the kernel gives
// IPv6 routes; the interface's index is added, so that a third one differs from the second.
constexpr std::uint32_t second_metric = 2048;

// The link-local address that the kernel would make of the MAC of every host side.
IpAddress host_link_local() {
  const auto& mac = gateway_mac.octets();
  return IpAddress::v6(std::array<std::uint8_t, 16>{0xfe, 0x80, 0, 0, 0, 0, 0, 0,
                                                    static_cast<std::uint8_t>(mac[0] ^ 2U), mac[1], mac[2], 0xff, 0xfe,
                                                    mac[3], mac[4], mac[5]});
}

Prefix host_prefix(const IpAddress& address) { return {address, address.bits()}; }

Prefix default_prefix(Family family) {
  return {family == Family::v4 ? IpAddress() : IpAddress::v6(std::array<std::uint8_t, 16>{}), 0};
}

bool has_family(const std::vector<IpAddress>& addresses, Family family) {
  return std::ranges::any_of(addresses, [family](const IpAddress& address) { return address.family() == family; });
}

bool same_place(const ResultRoute& a, const ResultRoute& b) {
  return a.dst == b.dst && a.table.value_or(main_table) == b.table.value_or(main_table) &&
         a.priority.value_or(0) == b.priority.value_or(0);
}

CniResult<> set_ipv6_sysctls(int netns_fd, const Link& link) {
  const auto failure = [](Error error) {
    return CniFailure(cni_error(cni_code::container_link, std::move(error).within("IPv6 in the container")));
  };
  const auto inside = NetnsScope::enter(netns_fd);
  if (!inside) return failure(inside.error());
  const std::string folder = "ipv6/conf/" + link.name;
  const auto off = read_net_sysctl(folder + "/disable_ipv6");
  if (!off) return failure(off.error());
  if (*off != "0") {
    if (auto written = write_net_sysctl(folder + "/disable_ipv6", "0"); !written) return failure(written.error());
  }
  // Nobody else is on this link: without this the link-local address stays tentative for a second or two.
  if (auto written = write_net_sysctl(folder + "/accept_dad", "0"); !written) {
    log_warning("{}", written.error().message);
  }
  return {};
}

// Returns the route as it was made.
CniResult<ResultRoute> make_route(Netlink& netlink, const Link& link, ResultRoute route) {
  auto added = add_route(netlink, kernel_route(route, link.index));
  if (!added && added.error().code == EEXIST && !route.priority) {
    route.priority = second_metric + static_cast<std::uint32_t>(link.index);
    added = add_route(netlink, kernel_route(route, link.index));
  }
  if (!added) return CniFailure(cni_error(cni_code::container_link, std::move(added.error()).within("container")));
  return route;
}

}  // namespace

IpAddress link_gateway(Family family) {
  return family == Family::v4 ? IpAddress::v4(gateway4) : IpAddress::v6(gateway6);
}

MacAddress link_gateway_mac() { return gateway_mac; }

CniResult<Fd> open_container(const Environment& environment) {
  const auto failure = [&](const Error& error) {
    return cni_fail(cni_code::bad_environment, "CNI_NETNS: {}", error.message);
  };
  auto netns = open_netns(environment.netns);
  if (!netns) return failure(netns.error());
  const auto own = current_netns();
  if (!own) return failure(own.error());
  const auto same = same_netns(netns->get(), own->get());
  if (!same) return failure(same.error());
  if (*same && !environment.netns_override) {
    return cni_fail(cni_code::bad_environment,
                    "CNI_NETNS: {} is the network namespace that the plugin itself runs in, no container's",
                    environment.netns);
  }
  return std::move(*netns);
}

Result<MacAddress> random_mac() {
  std::array<std::uint8_t, 6> octets{};
  MacAddress mac = gateway_mac;
  while (mac == gateway_mac) {
    if (::getrandom(octets.data(), octets.size(), 0) != static_cast<ssize_t>(octets.size())) {
      return fail_errno(errno, "random MAC");
    }
    octets[0] = static_cast<std::uint8_t>((octets[0] & 0xfcU) | 0x02U);
    mac = MacAddress(octets);
  }
  return mac;
}

std::vector<ResultRoute> container_routes(const std::vector<IpAddress>& addresses,
                                          const std::vector<ResultRoute>& from_ipam) {
  std::vector<ResultRoute> routes;
  for (const Family family : {Family::v4, Family::v6}) {
    if (!has_family(addresses, family)) continue;
    ResultRoute to_gateway;
    to_gateway.dst = host_prefix(link_gateway(family));
    routes.push_back(to_gateway);
  }
  const auto add = [&](const ResultRoute& route) {
    const auto twin = std::ranges::find_if(routes, [&](const ResultRoute& other) { return same_place(other, route); });
    if (twin == routes.end()) routes.push_back(route);
  };
  for (const ResultRoute& given : from_ipam) {
    if (!has_family(addresses, given.dst.family())) {
      log_warning("route {} of the IPAM result is left out: the pod has no address of that family", given.dst.text());
      continue;
    }
    ResultRoute route = given;
    route.dst = given.dst.subnet();
    route.gw = link_gateway(route.dst.family());
    route.scope.reset();  // of a route by a gateway it can only be universe
    add(route);
  }
  for (const Family family : {Family::v4, Family::v6}) {
    const auto is_default = [family](const ResultRoute& route) {
      return route.dst == default_prefix(family) && route.table.value_or(main_table) == main_table;
    };
    if (!has_family(addresses, family) || std::ranges::any_of(routes, is_default)) continue;
    ResultRoute route;
    route.dst = default_prefix(family);
    route.gw = link_gateway(family);
    add(route);
  }
  return routes;
}

Route kernel_route(const ResultRoute& route, int link) {
  Route made;
  made.destination = route.dst;
  made.next_hops = {{link, route.gw}};
  made.table = route.table.value_or(main_table);
  made.metric = route.priority.value_or(0);
  made.mtu = route.mtu.value_or(0);
  made.advmss = route.advmss.value_or(0);
  // The route to the gateway may have another metric or table than the one that needs it.
  made.on_link = route.gw.has_value();
  return made;
}

CniResult<std::vector<ResultRoute>> configure_container(Netlink& netlink, int netns_fd, const Link& link,
                                                        const std::vector<IpAddress>& addresses,
                                                        std::vector<ResultRoute> routes) {
  const auto inside = [](Result<> result) -> CniResult<> {
    if (result) return {};
    return CniFailure(cni_error(cni_code::container_link, std::move(result.error()).within("container")));
  };
  if (has_family(addresses, Family::v6)) {
    PDL_CNI_TRY(set_ipv6_sysctls(netns_fd, link));
  }
  PDL_CNI_TRY(inside(set_link_up(netlink, link.index)));
  for (const IpAddress& address : addresses) {
    PDL_CNI_TRY(inside(add_address(netlink, link.index, host_prefix(address))));
  }
  for (const Family family : {Family::v4, Family::v6}) {
    if (!has_family(addresses, family)) continue;
    PDL_CNI_TRY(inside(set_permanent_neighbour(netlink, link.index, link_gateway(family), gateway_mac)));
  }
  for (ResultRoute& route : routes) {
    PDL_CNI_TRY_ASSIGN(route, make_route(netlink, link, route));
  }
  return routes;
}

Route host_route(const IpAddress& address, int veth) {
  Route route;
  route.destination = host_prefix(address);
  route.next_hops = {{veth, std::nullopt}};
  return route;
}

namespace {

// Sets it up, with what of IPv6 the host needs there. The node does not believe what its pods advertise or where they
// redirect it to. It asks a pod for its neighbour's MAC from a link-local address, which is added here and not left to
// the kernel: that would have to look for duplicates, and after that walks through all IPv6 routes of the node. Whether
// the node forwards is the setting all/forwarding; the interface's own makes it a router towards its link, with an
// anycast address whose end costs an RCU grace period more when the veth is deleted (20 ms).
Result<> set_host_side_up(Netlink& netlink, const Link& veth, bool with_ipv6) {
  for (const char* setting : {"accept_ra", "accept_redirects", "forwarding"}) {
    auto set = write_net_sysctl(formatted("ipv6/conf/{}/{}", veth.name, setting), "0");
    // No such file: the kernel has no IPv6, or not on this interface.
    if (!set && set.error().code == ENOENT) return set_link_up(netlink, veth.index);
    PDL_TRY(std::move(set));
    if (!with_ipv6) break;
  }
  PDL_TRY(set_link_up(netlink, veth.index, LinkLocal::none));
  if (!with_ipv6) return {};
  auto added = add_address(netlink, veth.index, Prefix(host_link_local(), 64));
  // Switched off for new interfaces of this node.
  if (!added && added.error().code != EACCES) return added;
  return {};
}

}  // namespace

CniResult<> configure_host_side(Netlink& netlink, const Link& veth, const std::vector<IpAddress>& addresses) {
  PDL_CNI_TRY(with_code(cni_code::container_link, set_host_side_up(netlink, veth, has_family(addresses, Family::v6))));
  for (const IpAddress& address : addresses) {
    auto added = add_route(netlink, host_route(address, veth.index));
    if (added) continue;
    const unsigned code = added.error().code == EEXIST ? cni_code::already_added : cni_code::container_link;
    return CniFailure(cni_error(code, std::move(added.error()).within("host")));
  }
  return {};
}

}  // namespace poduplink
