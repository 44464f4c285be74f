// SPDX-License-Identifier: Apache-2.0
#include "loader/homes.h"

#include <algorithm>

#include "loader/discovery.h"

namespace poduplink {
namespace {

std::string joined_names(const std::vector<const Link*>& links) {
  std::string text;
  for (const Link* link : links) text += (text.empty() ? "" : ", ") + link->name;
  return text;
}

// The link that bears a MAC. Where several do, the one that is not enslaved and has no parent of the same
// MAC stands for the others (bond and its slaves, VLAN and its device).
struct MacMatch {
  const Link* link = nullptr;
  std::string problem;
};

MacMatch find_by_mac(const Snapshot& snapshot, const MacAddress& mac) {
  const auto is_none = [](const Link* link) { return is_pod_veth(*link) || link->is_loopback(); };
  std::vector<const Link*> all;
  for (const Link& link : snapshot.links) {
    if (link.mac == mac && !is_none(&link)) all.push_back(&link);
  }
  std::vector<const Link*> own = leading_links(snapshot.links, mac);
  std::erase_if(own, is_none);
  if (own.size() == 1) return {own.front(), {}};
  if (all.empty()) return {nullptr, {}};
  return {nullptr, formatted("several interfaces have the MAC {}: {}", mac.text(), joined_names(all))};
}

// An uplink that was seen before, though its name, MAC or index may have changed since.
const Link* find_remembered(const Snapshot& snapshot, const KnownUplink& known) {
  const Link* at_index = snapshot.find(known.index);
  if (at_index != nullptr && (at_index->mac == known.mac || snapshot.lasting.contains(known.index))) return at_index;
  if (const Link* by_mac = find_by_mac(snapshot, known.mac).link) return by_mac;
  return at_index != nullptr && at_index->name == known.name ? at_index : nullptr;
}

std::string why_no_uplink(const Snapshot& snapshot, const Link& link) {
  if (link.is_loopback()) return "is the loopback interface";
  if (!link.is_ethernet() || !link.mac) return "is no Ethernet interface (it has no MAC address)";
  if (is_pod_veth(link)) return "is the veth of a pod";
  if (link.master == 0) return {};
  const Link* master = snapshot.find(link.master);
  return "belongs to " + (master == nullptr ? std::to_string(link.master) : master->name) +
         ", which would be the uplink";
}

std::string why_strict(const Snapshot& snapshot, const Home& home) {
  const auto found = snapshot.rp_filter.find(home.link->index);
  if (found == snapshot.rp_filter.end() || found->second != 1 || home.config.manage_rp_filter) return {};
  return formatted("has strict rp_filter (1), which drops the answers of flows that the host NATs; set it to 2, or {}",
                   home.discovered ? "list it in 'uplinks' with 'manageRpFilter'" : "'manageRpFilter' to true");
}

void refuse(Home& home, std::string problem) {
  home.link = nullptr;
  home.refused = true;
  home.problem = std::move(problem);
}

// More renames and MAC changes than a pod lives through.
constexpr std::size_t former_identities = 16;

KnownUplink known_now(const Link& link, const std::optional<KnownUplink>& before) {
  KnownUplink now{link.name, link.mac.value_or(MacAddress{}), link.index};
  if (!before) return now;
  now.former = before->former;
  if (before->name == now.name && before->mac == now.mac) return now;
  std::erase(now.former, UplinkIdentity{now.name, now.mac});
  now.former.push_back({before->name, before->mac});
  if (now.former.size() > former_identities) now.former.erase(now.former.begin());
  return now;
}

void accept_or_refuse(Home& home, const Snapshot& snapshot) {
  if (home.link == nullptr) return;
  home.known = known_now(*home.link, home.known);
  std::string problem = why_no_uplink(snapshot, *home.link);
  if (problem.empty()) problem = why_strict(snapshot, home);
  if (!problem.empty()) refuse(home, std::move(problem));
}

void find_by_config(Home& home, const Snapshot& snapshot) {
  const UplinkConfig& config = home.config;
  if (config.name.empty()) {
    const MacMatch match = find_by_mac(snapshot, *config.mac);
    home.link = match.link;
    home.problem = match.problem;
    home.refused = !match.problem.empty();
    if (home.link != nullptr || home.refused) return;
    if (home.known) home.link = find_remembered(snapshot, *home.known);
    if (home.link == nullptr) {
      home.problem = "no interface has this MAC";
    } else {
      home.how = formatted("configured, now with the MAC {}", home.link->mac.value_or(MacAddress{}).text());
    }
    return;
  }
  home.link = snapshot.find(std::string_view(config.name));
  if (home.link == nullptr && home.known) {
    home.link = find_remembered(snapshot, *home.known);
    if (home.link != nullptr) home.how = formatted("configured, now called {}", home.link->name);
  }
  if (home.link == nullptr) {
    home.problem = "not found";
  } else if (config.mac && home.link->mac != config.mac) {
    refuse(home, formatted("has the MAC {}, not {}", home.link->mac.value_or(MacAddress{}).text(), config.mac->text()));
  }
}

std::vector<Home> configured_homes(const AgentConfig& config, const Snapshot& snapshot, const UplinkMemory& memory) {
  std::vector<Home> homes;
  std::map<int, std::string> taken;
  for (const UplinkConfig& item : config.uplinks) {
    Home home;
    home.label = item.label();
    home.config = item;
    home.how = "configured";
    if (const auto known = memory.find(home.label); known != memory.end()) home.known = known->second;
    find_by_config(home, snapshot);
    accept_or_refuse(home, snapshot);
    if (home.link != nullptr) {
      const auto [place, fresh] = taken.emplace(home.link->index, home.label);
      if (!fresh) refuse(home, formatted("is the same interface as uplink {}", place->second));
    }
    homes.push_back(std::move(home));
  }
  return homes;
}

std::string discovered_label(const MacAddress& mac) { return "discovered " + mac.text(); }

// Of interfaces with one MAC only one could be found again by it: the one that is known already, else the first.
void refuse_equal_macs(Discovery& discovery, const Snapshot& snapshot, const UplinkMemory& memory) {
  std::map<MacAddress, const Link*> bearers;
  for (const ChosenUplink& chosen : discovery.chosen) {
    const Link* link = snapshot.find(chosen.link);
    const Link*& bearer = bearers[*link->mac];
    const auto known = memory.find(discovered_label(*link->mac));
    if (bearer == nullptr || (known != memory.end() && known->second.index == link->index)) bearer = link;
  }
  std::erase_if(discovery.chosen, [&](const ChosenUplink& chosen) {
    const MacAddress mac = *snapshot.find(chosen.link)->mac;
    const Link* bearer = bearers.at(mac);
    if (bearer->index == chosen.link) return false;
    discovery.refused.push_back({chosen.link, formatted("has the MAC {} of uplink {}; list both by name in 'uplinks'",
                                                        mac.text(), bearer->name)});
    return true;
  });
}

// By the MAC, or by the index where that is another now.
std::optional<KnownUplink> remembered(const UplinkMemory& memory, const std::string& label, int index) {
  if (const auto found = memory.find(label); found != memory.end()) return found->second;
  const auto found = std::ranges::find_if(memory, [&](const auto& one) { return one.second.index == index; });
  return found == memory.end() ? std::nullopt : std::optional(found->second);
}

// An uplink that went down has lost the routes by which it was discovered: once found, it stays one.
void add_remembered(std::vector<Home>& homes, const Snapshot& snapshot, const UplinkMemory& memory,
                    std::set<int>& taken) {
  for (const auto& [label, known] : memory) {
    // A bond that was made since has the MAC, and by that the label, of its first slave.
    if (!label.starts_with("discovered ") || std::ranges::find(homes, label, &Home::label) != homes.end()) continue;
    Home home;
    home.label = label;
    home.discovered = true;
    home.known = known;
    home.how = "discovered before";
    home.link = find_remembered(snapshot, known);
    std::string reason = home.link == nullptr ? "" : why_no_candidate(snapshot, *home.link);
    // Something else with its MAC or name: a tap, or the slave of a bond that was deleted.
    if (!reason.empty() && home.link->index != known.index) home.link = nullptr;
    if (home.link == nullptr) {
      home.problem = "not found";
    } else if (!taken.insert(home.link->index).second) {
      continue;
    } else if (!reason.empty()) {
      refuse(home, std::move(reason));
    } else {
      accept_or_refuse(home, snapshot);
    }
    homes.push_back(std::move(home));
  }
}

std::vector<Home> discovered_homes(const Snapshot& snapshot, const UplinkMemory& memory) {
  std::vector<Home> homes;
  std::set<int> taken;
  Discovery discovery = discover_uplinks(snapshot);
  refuse_equal_macs(discovery, snapshot, memory);
  for (const ChosenUplink& chosen : discovery.chosen) {
    Home home;
    home.link = snapshot.find(chosen.link);
    home.label = discovered_label(*home.link->mac);
    home.known = remembered(memory, home.label, chosen.link);
    home.discovered = true;
    home.how = "discovered: " + chosen.how;
    accept_or_refuse(home, snapshot);
    taken.insert(chosen.link);
    homes.push_back(std::move(home));
  }
  add_remembered(homes, snapshot, memory, taken);
  for (const RefusedLink& refused : discovery.refused) {
    if (taken.contains(refused.link)) continue;
    const Link* link = snapshot.find(refused.link);
    Home home;
    home.discovered = true;
    home.known = KnownUplink{link->name, link->mac.value_or(MacAddress{}), link->index};
    refuse(home, refused.reason);
    homes.push_back(std::move(home));
  }
  return homes;
}

}  // namespace

std::vector<Home> find_homes(const AgentConfig& config, const Snapshot& snapshot, const UplinkMemory& memory) {
  return config.discover ? discovered_homes(snapshot, memory) : configured_homes(config, snapshot, memory);
}

std::map<int, std::string> transit_links(const Snapshot& snapshot, const std::set<int>& homes) {
  std::map<int, std::string> transit;
  for (const Route& route : snapshot.routes) {
    const IpAddress& destination = route.destination.address();
    // Nothing of a pod is ever steered on its way to a link-local or multicast address, and every interface
    // has such a route.
    if (!is_main_unicast(route) || (!route.is_default() && (destination.is_link_local() || destination.is_multicast())))
      continue;
    for (const NextHop& hop : route.next_hops) {
      const Link* link = snapshot.find(hop.link);
      if (link == nullptr || homes.contains(hop.link) || link->is_loopback() || !link->is_ethernet() ||
          is_pod_veth(*link))
        continue;
      transit.emplace(hop.link, formatted("route {} of the main table leaves by it", route.destination.text()));
    }
  }
  return transit;
}

void refuse_stacked(std::vector<Home>& homes, const Snapshot& snapshot, const std::set<int>& transit) {
  std::set<int> bearing;  // homes as they were found
  for (const Home& home : homes) {
    if (home.link != nullptr) bearing.insert(home.link->index);
  }
  for (Home& home : homes) {
    const Link* upper = home.link;
    bool tagged = false;  // the lower device's programs let tagged packets pass
    for (unsigned depth = 0; upper != nullptr && upper->is_stacked() && depth < 8; ++depth) {
      tagged = tagged || upper->kind == "vlan";
      const Link* lower = snapshot.find(upper->parent);
      if (lower == nullptr) break;
      if (bearing.contains(lower->index)) {
        refuse(home,
               formatted("is stacked on {}, which is an uplink too: packets would bounce between them", lower->name));
        break;
      }
      if (transit.contains(lower->index) && !tagged) {
        refuse(home, formatted("is stacked on {}, by which a route of the main table leaves: packets would bounce "
                               "between them",
                               lower->name));
        break;
      }
      upper = lower;
    }
  }
}

}  // namespace poduplink
