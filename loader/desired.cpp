// SPDX-License-Identifier: Apache-2.0
#include "loader/desired.h"

#include <algorithm>
#include <cstring>

#include "loader/discovery.h"
#include "loader/homes.h"
#include "maps/tables.h"

namespace poduplink {
namespace {

void copy_octets(std::span<__u8> target, const std::optional<IpAddress>& address) {
  if (address && address->octets().size() == target.size()) std::ranges::copy(address->octets(), target.begin());
}

void set_name(pdl_uplink& value, const std::string& name) {
  std::memcpy(value.name, name.data(), std::min(name.size(), sizeof(value.name) - 1));
}

// The configured gateway, else the one of the link's own default route.
void set_gateways(pdl_uplink& value, const UplinkConfig& config, const Snapshot& snapshot, int link) {
  copy_octets(value.gateway4, config.gateway4 ? config.gateway4 : default_gateway(snapshot, link, Family::v4));
  copy_octets(value.gateway6, config.gateway6 ? config.gateway6 : default_gateway(snapshot, link, Family::v6));
}

pdl_uplink make_value(const UplinkConfig& config, const Snapshot& snapshot, const Link& link) {
  pdl_uplink value{};
  set_name(value, link.name);
  value.mtu = link.mtu;
  set_mac(value.mac, link.mac.value_or(MacAddress{}));
  value.state = link.is_running() ? PDL_STATE_UP : PDL_STATE_DOWN;
  value.when_down = config.when_down == WhenDown::stack ? PDL_WHEN_DOWN_STACK : PDL_WHEN_DOWN_DROP;
  set_gateways(value, config, snapshot, link.index);
  return value;
}

void set_home(pdl_uplink& value, const Home& home) {
  value.role = PDL_ROLE_HOME;
  unsigned flags = 0;
  if (home.config.answer_neighbours) flags |= PDL_UPLINK_ANSWER_NEIGHBOURS;
  if (home.config.strict) flags |= PDL_UPLINK_STRICT;
  if (home.config.on_link) flags |= PDL_UPLINK_ON_LINK;
  if (home.discovered) flags |= PDL_UPLINK_DISCOVERED;
  value.flags = static_cast<__u8>(value.flags | flags);
  for (const Prefix& prefix : home.config.link_local) {
    pdl_link_local& place = value.link_local[value.link_local_count++];
    copy_octets(place.addr, prefix.address());
    place.prefix_len = static_cast<__u8>(prefix.length());
  }
}

void add_neighbours(Desired& desired, const Home& home, const pdl_uplink& value) {
  if (!home.config.gateway_mac) return;
  const IpAddress gateway4 = IpAddress::v4(value.gateway4);
  const IpAddress gateway6 = IpAddress::v6(value.gateway6);
  for (const IpAddress& gateway : {gateway4, gateway6}) {
    if (!gateway.is_unspecified()) desired.neighbours.insert({home.link->index, gateway, *home.config.gateway_mac});
  }
}

UplinkReport report_of(const Home& home) {
  UplinkReport line;
  if (!home.discovered) line.configured = home.label;
  if (home.known) {
    line.name = home.known->name;
    if (!home.known->mac.is_zero()) line.mac = home.known->mac.text();
  } else {
    line.name = home.config.name;
    if (home.config.mac) line.mac = home.config.mac->text();
  }
  line.how = home.how;
  line.reason = home.problem;
  return line;
}

// A vanished uplink keeps its entry under the old index while no other interface has that index: its pods'
// packets are then dropped, or not, as its configuration says.
void add_vanished(Desired& desired, const Home& home, const Snapshot& snapshot) {
  if (!home.known || home.refused || snapshot.find(home.known->index) != nullptr) return;
  DesiredUplink uplink;
  uplink.index = home.known->index;
  uplink.former = home.known->former;
  uplink.present = false;
  set_name(uplink.value, home.known->name);
  set_mac(uplink.value.mac, home.known->mac);
  uplink.value.state = PDL_STATE_DOWN;
  uplink.value.when_down = home.config.when_down == WhenDown::stack ? PDL_WHEN_DOWN_STACK : PDL_WHEN_DOWN_DROP;
  set_home(uplink.value, home);
  copy_octets(uplink.value.gateway4, home.config.gateway4);
  copy_octets(uplink.value.gateway6, home.config.gateway6);
  if (desired.find(uplink.index) == nullptr) desired.uplinks.push_back(uplink);
}

void add_home(Desired& desired, const Home& home, const Snapshot& snapshot) {
  UplinkReport line = report_of(home);
  if (home.known && !home.label.empty()) desired.memory[home.label] = *home.known;
  if (home.link == nullptr) {
    line.role = home.label.empty() ? "none" : "home";
    line.state = home.refused ? "refused" : "missing";
    if (home.refused && home.known && snapshot.find(home.known->index) != nullptr) line.ifindex = home.known->index;
    add_vanished(desired, home, snapshot);
    desired.report.push_back(std::move(line));
    return;
  }
  DesiredUplink uplink;
  uplink.index = home.link->index;
  uplink.former = home.known->former;
  uplink.value = make_value(home.config, snapshot, *home.link);
  set_home(uplink.value, home);
  add_neighbours(desired, home, uplink.value);
  if (home.config.manage_rp_filter) desired.manage_rp_filter.insert(home.link->index);
  line.ifindex = home.link->index;
  line.role = "home";
  line.state = uplink.value.state == PDL_STATE_UP ? "up" : "down";
  desired.report.push_back(std::move(line));
  desired.uplinks.push_back(uplink);
}

void add_transit(Desired& desired, const Snapshot& snapshot, const std::map<int, std::string>& transit) {
  for (const auto& [index, how] : transit) {
    const Link& link = *snapshot.find(index);
    DesiredUplink uplink;
    uplink.index = index;
    uplink.value = make_value(UplinkConfig{}, snapshot, link);
    uplink.value.role = PDL_ROLE_TRANSIT;
    UplinkReport line;
    line.name = link.name;
    line.mac = link.mac.value_or(MacAddress{}).text();
    line.ifindex = index;
    line.role = "transit";
    line.state = uplink.value.state == PDL_STATE_UP ? "up" : "down";
    line.how = how;
    // One line an interface: a refused uplink that carries routes is shown as refused, with what it still does.
    const auto shown = std::ranges::find(desired.report, index, &UplinkReport::ifindex);
    if (shown == desired.report.end()) {
      desired.report.push_back(std::move(line));
    } else {
      shown->role = "transit";
      shown->how = how;
    }
    desired.uplinks.push_back(uplink);
  }
}

bool is_node_address(const IpAddress& address) {
  return !address.is_loopback() && !address.is_link_local() && !address.is_unspecified() && !address.is_multicast();
}

bool is_exempt(const AgentConfig& config, const IpAddress& address) {
  return std::ranges::any_of(config.exempt, [&](const Prefix& prefix) {
    return prefix.family() == address.family() && prefix.contains(address);
  });
}

pdl_node make_node(const Desired& desired, const Snapshot& snapshot, const InterfaceAddress& address) {
  pdl_node node{};
  node.ifindex = static_cast<__u32>(address.link);
  node.prefix_len = static_cast<__u8>(address.prefix.length());
  const DesiredUplink* uplink = desired.find(address.link);
  if (uplink == nullptr || !uplink->is_home()) return node;
  IpAddress gateway4 = IpAddress::v4(uplink->value.gateway4);
  if (gateway4.is_unspecified() && (uplink->value.flags & PDL_UPLINK_DISCOVERED) != 0)
    gateway4 = inferred_gateway(snapshot, address.prefix).value_or(gateway4);
  if (address.prefix.family() == Family::v4 && !gateway4.is_unspecified()) {
    copy_octets(node.gateway4, gateway4);
  } else {
    copy_octets(node.gateway6, IpAddress::v6(uplink->value.gateway6));
  }
  return node;
}

// An address can stand on several interfaces: the entry is a home's, else the lowest index's.
bool takes_precedence(const Desired& desired, int link, __u32 present) {
  const auto rank = [&](int index) {
    const DesiredUplink* uplink = desired.find(index);
    return std::pair(uplink == nullptr || !uplink->is_home(), index);
  };
  return rank(link) < rank(static_cast<int>(present));
}

void add_nodes(Desired& desired, const AgentConfig& config, const Snapshot& snapshot) {
  for (const InterfaceAddress& address : snapshot.addresses) {
    const IpAddress& own = address.prefix.address();
    if (!is_node_address(own) || is_exempt(config, own)) continue;
    const auto present = desired.nodes.find(own);
    if (present != desired.nodes.end() && !takes_precedence(desired, address.link, present->second.ifindex)) continue;
    desired.nodes[own] = make_node(desired, snapshot, address);
  }
  std::size_t v4 = 0;
  std::size_t v6 = 0;
  for (const auto& [address, node] : desired.nodes) ++(address.is_v4() ? v4 : v6);
  for (const auto& [count, map] : {std::pair(v4, "nodes4"), std::pair(v6, "nodes6")}) {
    if (count > config.map_sizes.nodes)
      desired.reasons.push_back(
          formatted("map {} is full: {} addresses of this node, {} entries (mapSizes.nodes, or "
                    "list their prefixes in 'exempt')",
                    map, count, config.map_sizes.nodes));
  }
}

void check_usable(Desired& desired, const AgentConfig& config) {
  if (desired.uplinks.size() > config.map_sizes.uplinks)
    desired.reasons.push_back(formatted("map uplinks is full: {} interfaces, {} entries (mapSizes.uplinks)",
                                        desired.uplinks.size(), config.map_sizes.uplinks));
  if (std::ranges::any_of(desired.uplinks, [](const DesiredUplink& one) { return one.is_home() && one.present; }))
    return;
  std::string text = config.discover ? "no uplink was discovered" : "no uplink is usable";
  for (const UplinkReport& line : desired.report) {
    if (!line.reason.empty())
      text += formatted("; {}: {}", line.name.empty() ? line.configured : line.name, line.reason);
  }
  desired.reasons.push_back(std::move(text));
}

void mark_primary(Desired& desired, const Snapshot& snapshot) {
  const std::optional<int> primary = primary_link(snapshot.routes);
  // Its line comes first for whoever shows them, in whatever order the kernel has the interfaces.
  const auto line = std::ranges::find(desired.report, primary.value_or(0), &UplinkReport::ifindex);
  if (primary && line != desired.report.end()) std::rotate(desired.report.begin(), line, line + 1);
  for (DesiredUplink& uplink : desired.uplinks) {
    if (uplink.index == primary) uplink.value.flags = static_cast<__u8>(uplink.value.flags | PDL_UPLINK_PRIMARY);
  }
}

}  // namespace

const DesiredUplink* Desired::find(int index) const {
  const auto found = std::ranges::find(uplinks, index, &DesiredUplink::index);
  return found == uplinks.end() ? nullptr : &*found;
}

Desired make_desired(const AgentConfig& config, const Snapshot& snapshot, const UplinkMemory& memory) {
  Desired desired;
  std::vector<Home> homes = find_homes(config, snapshot, memory);
  const auto home_links = [&] {
    std::set<int> links;
    for (const Home& home : homes) {
      if (home.link != nullptr) links.insert(home.link->index);
    }
    return links;
  };
  std::set<int> bearing;
  for (const auto& [index, how] : transit_links(snapshot, home_links())) bearing.insert(index);
  refuse_stacked(homes, snapshot, bearing);

  for (const Home& home : homes) add_home(desired, home, snapshot);
  add_transit(desired, snapshot, transit_links(snapshot, home_links()));
  mark_primary(desired, snapshot);
  for (std::size_t item = 0; item < config.exempt.size(); ++item)
    desired.exempt.emplace_back(config.exempt[item], static_cast<std::uint32_t>(item));
  add_nodes(desired, config, snapshot);
  check_usable(desired, config);
  return desired;
}

}  // namespace poduplink
