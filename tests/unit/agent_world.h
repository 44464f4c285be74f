// SPDX-License-Identifier: Apache-2.0
// Snapshots written by hand for the agent's unit tests.
#pragma once

#include <linux/if.h>
#include <linux/if_arp.h>

#include <string>
#include <utility>
#include <vector>

#include "loader/snapshot.h"

namespace poduplink::test {

inline IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }
inline Prefix prefix(const std::string& text) { return Prefix::parse(text).value(); }
inline MacAddress mac(unsigned last) { return MacAddress({0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(last)}); }

// Builds a namespace; links get the indexes that they are given, in rising order.
class World {
 public:
  World() {
    Link loopback;
    loopback.index = 1;
    loopback.name = "lo";
    loopback.hardware_type = ARPHRD_LOOPBACK;
    loopback.mac = MacAddress{};
    loopback.flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING | IFF_LOWER_UP;
    loopback.mtu = 65536;
    snapshot.links.push_back(loopback);
  }

  // An Ethernet interface that is up; its MAC ends in its index.
  Link& link(int index, const std::string& name, const std::string& kind = "") {
    Link link;
    link.index = index;
    link.name = name;
    link.kind = kind;
    link.has_device = kind.empty();
    link.hardware_type = ARPHRD_ETHER;
    link.mac = mac(static_cast<unsigned>(index));
    link.flags = IFF_UP | IFF_RUNNING | IFF_LOWER_UP | IFF_BROADCAST;
    link.operational_state = 6;  // IF_OPER_UP
    link.mtu = 1500;
    snapshot.rp_filter[index] = 0;
    snapshot.links.push_back(link);
    return snapshot.links.back();
  }

  World& address(int link, const std::string& text) {
    InterfaceAddress address;
    address.link = link;
    address.prefix = prefix(text);
    snapshot.addresses.push_back(address);
    return *this;
  }

  World& route(const std::string& destination, const std::vector<std::pair<int, std::string>>& hops,
               std::uint32_t metric = 0) {
    Route route;
    route.destination = prefix(destination);
    route.metric = metric;
    for (const auto& [link, gateway] : hops) {
      NextHop hop;
      hop.link = link;
      if (!gateway.empty()) hop.gateway = ip(gateway);
      route.next_hops.push_back(hop);
    }
    snapshot.routes.push_back(route);
    return *this;
  }

  Snapshot snapshot;
};

}  // namespace poduplink::test
