// SPDX-License-Identifier: Apache-2.0
#include "loader/discovery.h"

#include <algorithm>
#include <map>
#include <set>

namespace poduplink {
namespace {

// Aggregates of hardware stand for it; every other kind is made in software.
bool is_virtual(const Link& link) { return !link.kind.empty() && link.kind != "bond" && link.kind != "team"; }

std::vector<Prefix> subnets4(const Snapshot& snapshot, int link) {
  std::vector<Prefix> subnets;
  for (const InterfaceAddress& address : snapshot.addresses) {
    if (address.link == link && address.prefix.family() == Family::v4 && !address.prefix.address().is_link_local())
      subnets.push_back(address.prefix);
  }
  return subnets;
}

bool is_own(const Snapshot& snapshot, const IpAddress& address) {
  return std::ranges::any_of(snapshot.addresses, [&](const auto& one) { return one.prefix.address() == address; });
}

// Network + 1, where that is nobody's here. Means nothing for /31, /32 and IPv6.
std::optional<IpAddress> first_of_subnet(const Snapshot& snapshot, const Prefix& subnet) {
  if (subnet.family() != Family::v4 || subnet.length() > 30 || subnet.length() == 0) return std::nullopt;
  const std::optional<IpAddress> first = subnet.network().plus(1);
  return first && !is_own(snapshot, *first) ? first : std::nullopt;
}

// The primary's gateway, where the primary has an address in the very same subnet.
std::optional<IpAddress> gateway_of_primary(const Snapshot& snapshot, const Prefix& subnet) {
  const std::optional<int> primary = primary_link(snapshot.routes);
  if (!primary || subnet.family() != Family::v4) return std::nullopt;
  const std::optional<IpAddress> gateway = default_gateway(snapshot, *primary, Family::v4);
  const bool same = std::ranges::any_of(subnets4(snapshot, *primary),
                                        [&](const Prefix& theirs) { return theirs.subnet() == subnet.subnet(); });
  return same && gateway && subnet.contains(*gateway) ? gateway : std::nullopt;
}

std::optional<ChosenUplink> own_default_route(const Snapshot& snapshot, int link) {
  for (const Family family : {Family::v4, Family::v6}) {
    if (lowest_default(snapshot.routes, family, link) == nullptr) continue;
    const std::optional<IpAddress> gateway = default_gateway(snapshot, link, family);
    return ChosenUplink{link, 1, gateway ? "own default route by " + gateway->text() : "own default route"};
  }
  return std::nullopt;
}

std::optional<ChosenUplink> subnet_of_primary(const Snapshot& snapshot, int link) {
  for (const Prefix& own : subnets4(snapshot, link)) {
    if (gateway_of_primary(snapshot, own))
      return ChosenUplink{link, 2, formatted("same subnet {} as the primary", own.subnet().text())};
  }
  return std::nullopt;
}

std::optional<ChosenUplink> inferred(const Snapshot& snapshot, int link) {
  for (const Prefix& own : subnets4(snapshot, link)) {
    if (const std::optional<IpAddress> gateway = first_of_subnet(snapshot, own))
      return ChosenUplink{link, 3, "gateway inferred as " + gateway->text()};
  }
  return std::nullopt;
}

}  // namespace

std::optional<IpAddress> default_gateway(const Snapshot& snapshot, int link, Family family) {
  const Route* route = lowest_default(snapshot.routes, family, link);
  if (route == nullptr) return std::nullopt;
  for (const NextHop& hop : route->next_hops) {
    if (hop.link == link && hop.gateway) return hop.gateway;
  }
  return std::nullopt;
}

std::string why_no_candidate(const Snapshot& snapshot, const Link& link) {
  if (!link.is_ethernet()) return "no Ethernet interface";
  if (is_virtual(link)) return formatted("virtual interface of kind {}; list it in 'uplinks' if it is one", link.kind);
  // l2tp_eth and the like have no kind, and nothing that it could be told by.
  if (link.kind.empty() && !link.has_device)
    return "virtual interface without a device beneath; list it in 'uplinks' if it is one";
  if (link.master == 0) return {};
  const Link* master = snapshot.find(link.master);
  return formatted("belongs to {}", master == nullptr ? std::to_string(link.master) : master->name);
}

std::optional<IpAddress> inferred_gateway(const Snapshot& snapshot, const Prefix& subnet) {
  const std::optional<IpAddress> primary = gateway_of_primary(snapshot, subnet);
  return primary ? primary : first_of_subnet(snapshot, subnet);
}

Discovery discover_uplinks(const Snapshot& snapshot) {
  Discovery discovery;
  discovery.primary = primary_link(snapshot.routes);
  for (const Link& link : snapshot.links) {
    if (link.is_loopback() || is_pod_veth(link)) continue;
    std::string reason = why_no_candidate(snapshot, link);
    if (reason.empty() && !link.is_admin_up()) reason = "is down";
    if (!reason.empty()) {
      discovery.refused.push_back({link.index, std::move(reason)});
      continue;
    }
    std::optional<ChosenUplink> chosen = own_default_route(snapshot, link.index);
    if (!chosen) chosen = subnet_of_primary(snapshot, link.index);
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
