// SPDX-License-Identifier: Apache-2.0
#include "loader/net/route.h"

#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace poduplink {
namespace {

// struct rtvia of <linux/rtnetlink.h> has a flexible array; this is its head.
struct ViaHeader {
  std::uint16_t family;
};

IpAddress unspecified(int family) {
  if (family == AF_INET) return {};
  return IpAddress::v6(std::array<std::uint8_t, 16>{});
}

std::optional<IpAddress> gateway_in(const Attributes& attributes) {
  if (attributes.has(RTA_GATEWAY)) return attributes.address(RTA_GATEWAY);
  const auto via = attributes.octets(RTA_VIA);
  if (via.size() <= sizeof(ViaHeader)) return std::nullopt;
  const auto address = IpAddress::from_octets(via.subspan(sizeof(ViaHeader)));
  return address ? std::optional(*address) : std::nullopt;
}

std::vector<NextHop> multipath_in(std::span<const std::uint8_t> payload) {
  std::vector<NextHop> hops;
  while (payload.size() >= sizeof(rtnexthop)) {
    rtnexthop hop{};
    std::memcpy(&hop, payload.data(), sizeof(hop));
    if (hop.rtnh_len < sizeof(hop) || hop.rtnh_len > payload.size()) break;
    NextHop found{.link = hop.rtnh_ifindex, .gateway = std::nullopt};
    auto attributes = payload.subspan(sizeof(hop), hop.rtnh_len - sizeof(hop));
    while (attributes.size() >= sizeof(rtattr)) {
      rtattr attribute{};
      std::memcpy(&attribute, attributes.data(), sizeof(attribute));
      if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > attributes.size()) break;
      auto value = attributes.subspan(sizeof(attribute), attribute.rta_len - sizeof(attribute));
      if (attribute.rta_type == RTA_VIA && value.size() > sizeof(ViaHeader)) value = value.subspan(sizeof(ViaHeader));
      if (attribute.rta_type == RTA_GATEWAY || attribute.rta_type == RTA_VIA) {
        if (const auto address = IpAddress::from_octets(value)) found.gateway = *address;
      }
      attributes = attributes.subspan(std::min<std::size_t>(RTA_ALIGN(attribute.rta_len), attributes.size()));
    }
    hops.push_back(found);
    payload = payload.subspan(std::min<std::size_t>(RTNH_ALIGN(hop.rtnh_len), payload.size()));
  }
  return hops;
}

Message route_message(int type, int flags, const Route& route) {
  rtmsg header{};
  header.rtm_family = static_cast<unsigned char>(route.destination.address().address_family());
  header.rtm_dst_len = static_cast<unsigned char>(route.destination.length());
  header.rtm_table = static_cast<unsigned char>(route.table < 256 ? route.table : 0U);
  header.rtm_type = route.type;
  header.rtm_protocol = route.protocol;
  const bool has_gateway = !route.next_hops.empty() && route.next_hops.front().gateway.has_value();
  header.rtm_scope = route.scope;
  if (!has_gateway && route.destination.family() == Family::v4 && route.type == RTN_UNICAST) {
    header.rtm_scope = RT_SCOPE_LINK;
  }
  if (route.on_link) header.rtm_flags |= RTNH_F_ONLINK;
  header.rtm_tos = route.tos;
  return {type, flags, header};
}

void put_gateway(Message& message, const Route& route, const IpAddress& gateway) {
  if (gateway.family() == route.destination.family()) {
    message.put_address(RTA_GATEWAY, gateway);
    return;
  }
  std::array<std::uint8_t, sizeof(ViaHeader) + 16> via{};
  const ViaHeader head{static_cast<std::uint16_t>(gateway.address_family())};
  std::memcpy(via.data(), &head, sizeof(head));
  std::memcpy(via.data() + sizeof(head), gateway.octets().data(), gateway.octets().size());
  message.put(RTA_VIA, via.data(), sizeof(head) + gateway.octets().size());
}

void put_metrics(Message& message, const Route& route) {
  if (route.mtu == 0 && route.advmss == 0 && route.metrics.empty()) return;
  message.nest(RTA_METRICS, [&] {
    if (route.mtu != 0) message.put_u32(RTAX_MTU, route.mtu);
    if (route.advmss != 0) message.put_u32(RTAX_ADVMSS, route.advmss);
    for (const auto& [metric, value] : route.metrics) message.put_u32(metric, value);
  });
}

Result<> send_route(Netlink& netlink, int type, int flags, const Route& route) {
  Message message = route_message(type, flags, route);
  if (route.destination.length() != 0) message.put_address(RTA_DST, route.destination.network());
  message.put_u32(RTA_TABLE, route.table);
  if (route.metric != 0) message.put_u32(RTA_PRIORITY, route.metric);
  if (!route.next_hops.empty()) {
    const NextHop& hop = route.next_hops.front();
    if (hop.link != 0) message.put_u32(RTA_OIF, static_cast<std::uint32_t>(hop.link));
    if (hop.gateway) put_gateway(message, route, *hop.gateway);
  }
  if (route.source) message.put_address(RTA_PREFSRC, *route.source);
  if (route.preference != 0) message.put_u8(RTA_PREF, route.preference);
  put_metrics(message, route);
  auto sent = netlink.request(message);
  if (!sent) return fail_within(std::move(sent.error()), "route " + route.destination.text());
  return {};
}

Message address_message(int type, int flags, int link, const Prefix& prefix) {
  ifaddrmsg header{};
  header.ifa_family = static_cast<unsigned char>(prefix.address().address_family());
  header.ifa_prefixlen = static_cast<unsigned char>(prefix.length());
  header.ifa_index = static_cast<unsigned>(link);
  header.ifa_scope = prefix.address().is_link_local() ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  Message message(type, flags, header);
  message.put_address(IFA_LOCAL, prefix.address());
  message.put_address(IFA_ADDRESS, prefix.address());
  return message;
}

ndmsg neighbour_header(int link, const IpAddress& address) {
  ndmsg header{};
  header.ndm_family = static_cast<unsigned char>(address.address_family());
  header.ndm_ifindex = link;
  return header;
}

Result<std::vector<Neighbour>> dump_neighbours_with(Netlink& netlink, std::uint8_t flags) {
  ndmsg header{};
  header.ndm_family = AF_UNSPEC;
  header.ndm_flags = flags;
  Message message(RTM_GETNEIGH, NLM_F_DUMP, header);
  std::vector<Neighbour> neighbours;
  const auto visit = [&](const nlmsghdr* answer) {
    const auto family = static_cast<const ndmsg*>(nlmsg_data(answer))->ndm_family;
    if (family == AF_INET || family == AF_INET6) neighbours.push_back(parse_neighbour(answer));
  };
  const auto asked = netlink.query(message, visit, [&] { neighbours.clear(); });
  if (!asked) return fail_within(asked.error(), "list of neighbours");
  return neighbours;
}

Result<> change_neighbour(Netlink& netlink, Message& message, const IpAddress& address) {
  auto changed = netlink.request(message);
  if (!changed) return fail_within(std::move(changed.error()), "neighbour " + address.text());
  return {};
}

Result<> change_proxy_neighbour(Netlink& netlink, int type, int flags, int link, const IpAddress& address) {
  ndmsg header = neighbour_header(link, address);
  header.ndm_flags = NTF_PROXY;
  Message message(type, flags, header);
  message.put_address(NDA_DST, address);
  return change_neighbour(netlink, message, address);
}

}  // namespace

InterfaceAddress parse_address(const nlmsghdr* message) {
  const auto* header = static_cast<const ifaddrmsg*>(nlmsg_data(message));
  const Attributes attributes(message, sizeof(ifaddrmsg));
  InterfaceAddress found;
  found.link = static_cast<int>(header->ifa_index);
  found.scope = header->ifa_scope;
  found.flags = attributes.has(IFA_FLAGS) ? attributes.u32(IFA_FLAGS) : header->ifa_flags;
  // IFA_ADDRESS is the peer's on point-to-point links; IFA_LOCAL is always ours, where it is given.
  auto address = attributes.address(IFA_LOCAL);
  if (!address) address = attributes.address(IFA_ADDRESS);
  if (address && header->ifa_prefixlen <= address->bits()) found.prefix = Prefix(*address, header->ifa_prefixlen);
  return found;
}

Result<std::vector<InterfaceAddress>> dump_addresses(Netlink& netlink, const AddressFilter& filter) {
  ifaddrmsg header{};
  if (filter.family) header.ifa_family = *filter.family == Family::v4 ? AF_INET : AF_INET6;
  header.ifa_index = static_cast<unsigned>(filter.link);
  Message message(RTM_GETADDR, NLM_F_DUMP, header);
  std::vector<InterfaceAddress> addresses;
  const auto visit = [&](const nlmsghdr* answer) {
    const auto family = static_cast<const ifaddrmsg*>(nlmsg_data(answer))->ifa_family;
    if (family == AF_INET || family == AF_INET6) addresses.push_back(parse_address(answer));
  };
  const auto asked = netlink.query(message, visit, [&] { addresses.clear(); });
  if (!asked && asked.error().code == ENODEV) return std::vector<InterfaceAddress>();
  if (!asked) return fail_within(asked.error(), "list of addresses");
  return addresses;
}

Result<std::optional<InterfaceAddress>> find_address6(Netlink& netlink, const IpAddress& address) {
  ifaddrmsg header{};
  header.ifa_family = AF_INET6;
  Message message(RTM_GETADDR, 0, header);
  message.put_address(IFA_ADDRESS, address);
  std::optional<InterfaceAddress> found;
  const auto asked = netlink.query(message, [&](const nlmsghdr* answer) { found = parse_address(answer); });
  // Without IPv6 nobody answers such questions.
  if (asked || asked.error().code == EADDRNOTAVAIL || asked.error().code == EOPNOTSUPP) return found;
  return fail_within(asked.error(), "address " + address.text());
}

Result<> add_address(Netlink& netlink, int link, const Prefix& prefix) {
  Message message = address_message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, link, prefix);
  message.put_u32(IFA_FLAGS, prefix.address().is_v6() ? IFA_F_NODAD : 0);
  auto added = netlink.request(message);
  if (!added) return fail_within(std::move(added.error()), "address " + prefix.text());
  return {};
}

Result<> delete_address(Netlink& netlink, int link, const Prefix& prefix) {
  Message message = address_message(RTM_DELADDR, 0, link, prefix);
  auto deleted = netlink.request(message);
  if (!deleted) return fail_within(std::move(deleted.error()), "deleting address " + prefix.text());
  return {};
}

Route parse_route(const nlmsghdr* message) {
  const auto* header = static_cast<const rtmsg*>(nlmsg_data(message));
  const Attributes attributes(message, sizeof(rtmsg));
  Route route;
  const IpAddress destination = attributes.address(RTA_DST).value_or(unspecified(header->rtm_family));
  route.destination = Prefix(destination, std::min<unsigned>(header->rtm_dst_len, destination.bits()));
  route.table = attributes.has(RTA_TABLE) ? attributes.u32(RTA_TABLE) : header->rtm_table;
  route.metric = attributes.u32(RTA_PRIORITY);
  route.type = header->rtm_type;
  route.protocol = header->rtm_protocol;
  route.scope = header->rtm_scope;
  route.flags = header->rtm_flags;
  route.on_link = (header->rtm_flags & RTNH_F_ONLINK) != 0;
  const Attributes metrics = attributes.nested(RTA_METRICS);
  route.mtu = metrics.u32(RTAX_MTU);
  route.advmss = metrics.u32(RTAX_ADVMSS);
  metrics.each([&](int type, std::span<const std::uint8_t> payload) {
    std::uint32_t value = 0;
    if (type == RTAX_MTU || type == RTAX_ADVMSS || type == RTAX_CC_ALGO || payload.size() != sizeof(value)) return;
    std::memcpy(&value, payload.data(), sizeof(value));
    route.metrics.emplace_back(static_cast<std::uint16_t>(type), value);
  });
  route.source = attributes.address(RTA_PREFSRC);
  route.tos = header->rtm_tos;
  route.preference = attributes.u8(RTA_PREF);
  if (attributes.has(RTA_MULTIPATH)) {
    route.next_hops = multipath_in(attributes.octets(RTA_MULTIPATH));
  } else if (attributes.has(RTA_OIF)) {
    route.next_hops.push_back({static_cast<int>(attributes.u32(RTA_OIF)), gateway_in(attributes)});
  }
  return route;
}

Result<std::vector<Route>> dump_routes(Netlink& netlink) {
  std::vector<Route> routes;
  // Strict checking wants a family; each has a list of its own.
  for (const int family : {AF_INET, AF_INET6}) {
    rtmsg header{};
    header.rtm_family = static_cast<unsigned char>(family);
    Message message(RTM_GETROUTE, NLM_F_DUMP, header);
    const std::size_t before = routes.size();
    const auto visit = [&](const nlmsghdr* answer) {
      const auto* route = static_cast<const rtmsg*>(nlmsg_data(answer));
      if (route->rtm_family == family && (route->rtm_flags & RTM_F_CLONED) == 0) routes.push_back(parse_route(answer));
    };
    const auto asked = netlink.query(message, visit, [&] { routes.resize(before); });
    if (!asked) return fail_within(asked.error(), "list of routes");
  }
  return routes;
}

Result<Route> find_route(Netlink& netlink, const RouteQuestion& question) {
  rtmsg header{};
  header.rtm_family = static_cast<unsigned char>(question.destination.address_family());
  header.rtm_dst_len = static_cast<unsigned char>(question.destination.bits());
  header.rtm_src_len = static_cast<unsigned char>(question.source.bits());
  Message message(RTM_GETROUTE, 0, header);
  message.put_address(RTA_DST, question.destination);
  message.put_address(RTA_SRC, question.source);
  if (question.incoming != 0) message.put_u32(RTA_IIF, static_cast<std::uint32_t>(question.incoming));
  std::optional<Route> found;
  const auto asked = netlink.query(message, [&](const nlmsghdr* answer) { found = parse_route(answer); });
  if (!asked) return fail_within(asked.error(), "route to " + question.destination.text());
  if (!found) return fail_errno(ENETUNREACH, "route to {}", question.destination.text());
  return *found;
}

bool is_main_unicast(const Route& route) {
  return route.table == RT_TABLE_MAIN && route.type == RTN_UNICAST && (route.flags & RTM_F_CLONED) == 0;
}

// Linux gives IPv6 routes without a metric 1024, IPv4 ones 0; within a family the numbers compare.
const Route* lowest_default(const std::vector<Route>& routes, Family family, std::optional<int> link) {
  const Route* best = nullptr;
  for (const Route& route : routes) {
    if (!is_main_unicast(route) || !route.is_default() || route.destination.family() != family) continue;
    if (route.next_hops.empty()) continue;
    if (link && std::ranges::find(route.next_hops, *link, &NextHop::link) == route.next_hops.end()) continue;
    if (best == nullptr || route.metric < best->metric) best = &route;
  }
  return best;
}

std::optional<int> primary_link(const std::vector<Route>& routes) {
  for (const Family family : {Family::v4, Family::v6}) {
    if (const Route* route = lowest_default(routes, family)) return route->next_hops.front().link;
  }
  return std::nullopt;
}

Result<> add_route(Netlink& netlink, const Route& route) {
  return send_route(netlink, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, route);
}

Result<> replace_route(Netlink& netlink, const Route& route) {
  return send_route(netlink, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, route);
}

Result<> prepend_route(Netlink& netlink, const Route& route) {
  return send_route(netlink, RTM_NEWROUTE, NLM_F_CREATE, route);
}

Result<> append_route(Netlink& netlink, const Route& route) {
  return send_route(netlink, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND, route);
}

Result<> delete_route(Netlink& netlink, const Route& route) { return send_route(netlink, RTM_DELROUTE, 0, route); }

bool Neighbour::is_resolved() const {
  constexpr unsigned resolved = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
  return (state & resolved) != 0;
}

bool Neighbour::has_failed() const { return state == NUD_FAILED; }

Neighbour parse_neighbour(const nlmsghdr* message) {
  const auto* header = static_cast<const ndmsg*>(nlmsg_data(message));
  const Attributes attributes(message, sizeof(ndmsg));
  Neighbour neighbour;
  neighbour.link = header->ndm_ifindex;
  neighbour.address = attributes.address(NDA_DST).value_or(unspecified(header->ndm_family));
  if (const auto mac = MacAddress::from_octets(attributes.octets(NDA_LLADDR))) neighbour.mac = *mac;
  neighbour.state = header->ndm_state;
  neighbour.flags = header->ndm_flags;
  return neighbour;
}

Result<std::vector<Neighbour>> dump_neighbours(Netlink& netlink) { return dump_neighbours_with(netlink, 0); }

Result<Neighbour> find_neighbour(Netlink& netlink, int link, const IpAddress& address) {
  Message message(RTM_GETNEIGH, 0, neighbour_header(link, address));
  message.put_address(NDA_DST, address);
  std::optional<Neighbour> found;
  const auto asked = netlink.query(message, [&](const nlmsghdr* answer) { found = parse_neighbour(answer); });
  if (!asked) return fail_within(asked.error(), "neighbour " + address.text());
  if (!found) return fail_errno(ENOENT, "neighbour {}", address.text());
  return *found;
}

Result<std::vector<Neighbour>> dump_proxy_neighbours(Netlink& netlink) {
  return dump_neighbours_with(netlink, NTF_PROXY);
}

Result<> set_permanent_neighbour(Netlink& netlink, int link, const IpAddress& address, const MacAddress& mac) {
  ndmsg header = neighbour_header(link, address);
  header.ndm_state = NUD_PERMANENT;
  Message message(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, header);
  message.put_address(NDA_DST, address);
  message.put_mac(NDA_LLADDR, mac);
  return change_neighbour(netlink, message, address);
}

Result<> delete_neighbour(Netlink& netlink, int link, const IpAddress& address) {
  Message message(RTM_DELNEIGH, 0, neighbour_header(link, address));
  message.put_address(NDA_DST, address);
  return change_neighbour(netlink, message, address);
}

Result<> add_proxy_neighbour(Netlink& netlink, int link, const IpAddress& address) {
  return change_proxy_neighbour(netlink, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, link, address);
}

Result<> delete_proxy_neighbour(Netlink& netlink, int link, const IpAddress& address) {
  return change_proxy_neighbour(netlink, RTM_DELNEIGH, 0, link, address);
}

}  // namespace poduplink
