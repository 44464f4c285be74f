// SPDX-License-Identifier: Apache-2.0
#include "loader/discovery.h"

#include <algorithm>
#include <map>
#include <set>

namespace poduplink {
namespace {

bool leaves_by(const Route& route, int link) {
  return std::ranges::any_of(route.next_hops, [&](const NextHop& hop) { return hop.link == link; });
}

// Linux gives IPv6 routes without a metric 1024, IPv4 ones 0; within a family the numbers compare.
const Route* lowest_default(const Snapshot& snapshot, Family family, std::optional<int> link = {}) {
  const Route* best = nullptr;
  for (const Route& route : snapshot.routes) {
    if (!is_main_unicast(route) || !route.is_default() || route.destination.family() != family) continue;
    if (route.next_hops.empty() || (link && !leaves_by(route, *link))) continue;
    if (best == nullptr || route.metric < best->metric) best = &route;
  }
  return best;
}

// Aggregates of hardware stand for it; every other kind is made in software.
bool is_virtual(const Link& link) { return !link.kind.empty() && link.kind != "bond" && link.kind != "team"; }

std::string why_not_candidate(const Snapshot& snapshot, const Link& link) {
  if (!link.is_ethernet()) return "no Ethernet interface";
  if (!link.mac) return "has no MAC address";
  if (is_virtual(link)) return formatted("virtual interface of kind {}; list it in 'uplinks' if it is one", link.kind);
  if (link.master != 0) {
    const Link* master = snapshot.find(link.master);
    return formatted("belongs to {}", master == nullptr ? std::to_string(link.master) : master->name);
  }
  if (!link.is_admin_up()) return "is down";
  return {};
}

std::vector<Prefix> subnets4(const Snapshot& snapshot, int link) {
  std::vector<Prefix> subnets;
  for (const InterfaceAddress& address : snapshot.addresses) {
    if (address.link == link && address.prefix.family() == Family::v4 && !address.prefix.address().is_link_local())
      subnets.push_back(address.prefix);
  }
  return subnets;
}

// Network + 1, where that is neither the link's own address nor meaningless (/31, /32).
std::optional<IpAddress> inferred_gateway(const Snapshot& snapshot, int link) {
  const std::vector<Prefix> subnets = subnets4(snapshot, link);
  for (const Prefix& subnet : subnets) {
    if (subnet.length() > 30 || subnet.length() == 0) continue;
    const std::optional<IpAddress> gateway = subnet.network().plus(1);
    const bool own = std::ranges::any_of(subnets, [&](const Prefix& one) { return one.address() == gateway; });
    if (gateway && !own) return gateway;
  }
  return std::nullopt;
}

std::optional<ChosenUplink> own_default_route(const Snapshot& snapshot, int link) {
  for (const Family family : {Family::v4, Family::v6}) {
    if (lowest_default(snapshot, family, link) == nullptr) continue;
    const std::optional<IpAddress> gateway = default_gateway(snapshot, link, family);
    return ChosenUplink{link, 1, gateway ? "own default route by " + gateway->text() : "own default route"};
  }
  return std::nullopt;
}

std::optional<ChosenUplink> subnet_of_primary(const Snapshot& snapshot, int link, std::optional<int> primary) {
  if (!primary) return std::nullopt;
  const std::optional<IpAddress> gateway = default_gateway(snapshot, *primary, Family::v4);
  if (!gateway) return std::nullopt;
  for (const Prefix& theirs : subnets4(snapshot, *primary)) {
    for (const Prefix& own : subnets4(snapshot, link)) {
      if (own.subnet() == theirs.subnet() && own.contains(*gateway))
        return ChosenUplink{link, 2, formatted("same subnet {} as the primary", own.subnet().text())};
    }
  }
  return std::nullopt;
}

std::optional<ChosenUplink> inferred(const Snapshot& snapshot, int link) {
  const std::optional<IpAddress> gateway = inferred_gateway(snapshot, link);
  if (!gateway) return std::nullopt;
  return ChosenUplink{link, 3, "gateway inferred as " + gateway->text()};
}

}  // namespace

std::optional<int> primary_link(const Snapshot& snapshot) {
  for (const Family family : {Family::v4, Family::v6}) {
    if (const Route* route = lowest_default(snapshot, family)) return route->next_hops.front().link;
  }
  return std::nullopt;
}

std::optional<IpAddress> default_gateway(const Snapshot& snapshot, int link, Family family) {
  const Route* route = lowest_default(snapshot, family, link);
  if (route == nullptr) return std::nullopt;
  for (const NextHop& hop : route->next_hops) {
    if (hop.link == link && hop.gateway) return hop.gateway;
  }
  return std::nullopt;
}

Discovery discover_uplinks(const Snapshot& snapshot) {
  Discovery discovery;
  discovery.primary = primary_link(snapshot);
  for (const Link& link : snapshot.links) {
    if (link.is_loopback() || is_pod_veth(link)) continue;
    std::string reason = why_not_candidate(snapshot, link);
    if (!reason.empty()) {
      discovery.refused.push_back({link.index, std::move(reason)});
      continue;
    }
    std::optional<ChosenUplink> chosen = own_default_route(snapshot, link.index);
    if (!chosen) chosen = subnet_of_primary(snapshot, link.index, discovery.primary);
    if (!chosen) chosen = inferred(snapshot, link.index);
    if (chosen) {
      discovery.chosen.push_back(std::move(*chosen));
    } else {
      discovery.refused.push_back(
          {link.index, "no default route of its own, not in the primary's subnet, no address to infer a gateway from"});
    }
  }
  std::ranges::sort(discovery.chosen, [](const ChosenUplink& one, const ChosenUplink& other) {
    return std::pair(one.pass, one.link) < std::pair(other.pass, other.link);
  });
  return discovery;
}

}  // namespace poduplink
