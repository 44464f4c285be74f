// SPDX-License-Identifier: Apache-2.0
#include "cni/host_view.h"

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

namespace poduplink {
namespace {

bool is_home(const pdl_uplink& entry) { return entry.role == PDL_ROLE_HOME; }

// One that is not there is missing in the view too.
Result<> add_link(HostView& view, Result<Link> link) {
  if (!link && link.error().code == ENODEV) return {};
  if (!link) return Failure(std::move(link.error()));
  if (std::ranges::find(view.links, link->index, &Link::index) == view.links.end())
    view.links.push_back(std::move(*link));
  return {};
}

Result<> read_links(Netlink& netlink, const std::vector<WantedAddress>& wanted, HostView& view) {
  const auto by_mac_alone = [](const WantedAddress& one) { return one.uplink && one.uplink->name.empty(); };
  if (std::ranges::any_of(wanted, by_mac_alone)) {
    PDL_TRY_ASSIGN(view.links, dump_links(netlink));
    return {};
  }
  std::set<std::string> names;
  for (const WantedAddress& one : wanted) {
    if (one.uplink) names.insert(one.uplink->name);
  }
  for (const std::string& name : names) PDL_TRY(add_link(view, find_link_by_name(netlink, name)));
  const auto unnamed = [](const WantedAddress& one) { return !one.uplink; };
  if (!wanted.empty() && std::ranges::none_of(wanted, unnamed)) return {};
  for (const auto& [index, entry] : view.uplinks) {
    if (is_home(entry)) PDL_TRY(add_link(view, find_link(netlink, static_cast<int>(index))));
  }
  return {};
}

// Addresses that must not be the node's own: the pod's, and whatever may turn out to be its gateway.
std::set<IpAddress> questionable(const std::vector<WantedAddress>& wanted, const HostView& view) {
  std::set<IpAddress> addresses;
  for (const WantedAddress& one : wanted) {
    addresses.insert(one.address.address());
    if (one.gateway) addresses.insert(*one.gateway);
  }
  for (const auto& [index, entry] : view.uplinks) {
    for (const IpAddress& gateway : {IpAddress::v4(entry.gateway4), IpAddress::v6(entry.gateway6)}) {
      if (!gateway.is_unspecified()) addresses.insert(gateway);
    }
  }
  return addresses;
}

// The uplinks' own addresses of IPv6, and of the rest the ones in question: each pod's veth has one too.
Result<> read_addresses6(Netlink& netlink, const std::set<IpAddress>& in_question, HostView& view) {
  for (const auto& [index, entry] : view.uplinks) {
    if (!is_home(entry)) continue;
    PDL_TRY_ASSIGN(const auto own, dump_addresses(netlink, {.family = Family::v6, .link = static_cast<int>(index)}));
    view.addresses.insert(view.addresses.end(), own.begin(), own.end());
  }
  for (const IpAddress& address : in_question) {
    if (address.is_v4()) continue;
    PDL_TRY_ASSIGN(const auto own, find_address6(netlink, address));
    if (own) view.addresses.push_back(*own);
  }
  return {};
}

Result<> read_addresses(Netlink& netlink, const std::vector<WantedAddress>& wanted, HostView& view) {
  const auto speaks_of = [&](Family family) {
    return std::ranges::any_of(wanted, [family](const WantedAddress& one) {
      return one.address.family() == family || (one.gateway && one.gateway->family() == family);
    });
  };
  if (speaks_of(Family::v4)) {
    // All there are, since pods' veths have none.
    PDL_TRY_ASSIGN(view.addresses, dump_addresses(netlink, {.family = Family::v4}));
  }
  if (!speaks_of(Family::v6)) return {};
  return read_addresses6(netlink, questionable(wanted, view), view);
}

}  // namespace

Result<HostView> read_host(Netlink& netlink, const Tables& tables, const std::vector<WantedAddress>& wanted) {
  HostView view;
  // The map first: a link that it names and that is gone by the time it is asked for counts as missing.
  PDL_TRY_ASSIGN(const auto uplinks, tables.uplinks.entries());
  for (const auto& [index, entry] : uplinks) view.uplinks[index] = entry;
  PDL_TRY(read_links(netlink, wanted, view));
  PDL_TRY(read_addresses(netlink, wanted, view));
  return view;
}

}  // namespace poduplink
