// SPDX-License-Identifier: Apache-2.0
#include "loader/snapshot.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "loader/net/netns.h"

namespace poduplink {
namespace {

constexpr std::string_view pod_veth_prefix = "pdl";
constexpr std::size_t pod_veth_digits = 12;

Result<int> read_rp_filter(const std::string& device) {
  PDL_TRY_ASSIGN(const std::string text, read_net_sysctl("ipv4/conf/" + device + "/rp_filter"));
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return fail("rp_filter of {} reads '{}'", device, text);
  return value;
}

}  // namespace

const Link* Snapshot::find(int index) const {
  const auto found = std::ranges::lower_bound(links, index, {}, &Link::index);
  return found == links.end() || found->index != index ? nullptr : &*found;
}

const Link* Snapshot::find(std::string_view name) const {
  const auto found = std::ranges::find(links, name, &Link::name);
  if (found != links.end()) return &*found;
  for (const Link& link : links) {
    if (std::ranges::find(link.alternative_names, name) != link.alternative_names.end()) return &link;
  }
  return nullptr;
}

const Neighbour* Snapshot::find_neighbour(int link, const IpAddress& address) const {
  const auto found = neighbours.find({link, address});
  return found == neighbours.end() ? nullptr : &found->second;
}

Result<> Snapshot::take_neighbours(Netlink& netlink) {
  PDL_TRY_ASSIGN(const std::vector<Neighbour> dumped, dump_neighbours(netlink));
  neighbours.clear();
  for (const Neighbour& one : dumped) {
    const Link* link = find(one.link);
    if (link != nullptr && !is_pod_veth(*link)) neighbours.insert_or_assign({one.link, one.address}, one);
  }
  return {};
}

bool is_pod_veth_name(std::string_view name) {
  if (name.size() != pod_veth_prefix.size() + pod_veth_digits || !name.starts_with(pod_veth_prefix)) return false;
  name.remove_prefix(pod_veth_prefix.size());
  return name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_pod_veth(const Link& link) { return link.kind == "veth" && is_pod_veth_name(link.name); }

Result<int> effective_rp_filter(const std::string& device) {
  PDL_TRY_ASSIGN(const int all, read_rp_filter("all"));
  PDL_TRY_ASSIGN(const int own, read_rp_filter(device));
  return std::max(all, own);
}

Result<Snapshot> take_snapshot(Netlink& netlink) {
  Snapshot snapshot;
  PDL_TRY_ASSIGN(snapshot.links, dump_links(netlink));
  std::ranges::sort(snapshot.links, {}, &Link::index);
  PDL_TRY_ASSIGN(snapshot.addresses, dump_addresses(netlink));
  PDL_TRY_ASSIGN(snapshot.routes, dump_routes(netlink));
  PDL_TRY(snapshot.take_neighbours(netlink));
  for (const Link& link : snapshot.links) {
    if (is_pod_veth(link) || !link.is_ethernet() || link.is_loopback()) continue;
    // A link that went away since the dump has no setting any more.
    if (const Result<int> value = effective_rp_filter(link.name)) snapshot.rp_filter[link.index] = *value;
  }
  return snapshot;
}

}  // namespace poduplink
