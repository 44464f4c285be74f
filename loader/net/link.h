// SPDX-License-Identifier: Apache-2.0
// Network interfaces. Indexes are those of the namespace that the socket lives in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/result.h"
#include "loader/net/netlink.h"

namespace poduplink {

struct Link {
  int index = 0;
  std::string name;
  std::vector<std::string> alternative_names;
  std::optional<MacAddress> mac;       // none where the link address has not six octets
  std::uint16_t hardware_type = 0;     // ARPHRD_*
  unsigned mtu = 0;                    // octets of layer 3
  unsigned flags = 0;                  // IFF_*
  std::string kind;                    // "veth", "vlan" …; empty for hardware, and for the few others without one
  bool has_device = false;             // a device on a bus is beneath it
  int master = 0;                      // index of the bridge or bond it belongs to, 0: none
  int parent = 0;                      // IFLA_LINK: the VLAN's or macvlan's lower device, the veth's peer; 0: none
  bool parent_elsewhere = false;       // `parent` counts in another namespace
  std::uint8_t operational_state = 0;  // IF_OPER_*

  [[nodiscard]] bool is_ethernet() const;
  [[nodiscard]] bool is_loopback() const;
  // Administratively up and with a carrier: can send now.
  [[nodiscard]] bool is_running() const;
  [[nodiscard]] bool is_admin_up() const;
  // A lower device in the same namespace: VLAN, macvlan, ipvlan and the like, not a veth.
  [[nodiscard]] bool is_stacked() const;
};

// Reads one RTM_NEWLINK or RTM_DELLINK message.
Link parse_link(const nlmsghdr* message);

// One answer each, no dump. Errors: ENODEV where there is none. Names match alternative names too.
Result<Link> find_link(Netlink& netlink, int index);
Result<Link> find_link_by_name(Netlink& netlink, const std::string& name);
Result<std::vector<Link>> dump_links(Netlink& netlink);

// Of the links that bear a MAC those that speak for it: not enslaved, and without a parent of the same MAC (a bond
// stands for its slaves, a device for its VLANs). The pointers lead into `links`.
std::vector<const Link*> leading_links(const std::vector<Link>& links, const MacAddress& mac);

// What one RTM_NEWLINK makes: both ends with final names, MACs and MTU, the peer in its namespace. Both are down: the
// kernel refuses to set the peer up here, and what is done to an interface that is up without its peer waits for RCU
// grace periods under the global network lock (1 ms for its missing carrier, 2 ms for a qdisc).
struct VethRequest {
  std::string host_name;
  MacAddress host_mac;
  std::string peer_name;
  MacAddress peer_mac;
  int peer_netns_fd = -1;
  unsigned mtu = 0;  // of both ends; 0: the kernel's default
};

// Errors: EEXIST where a name is taken on either side, EINVAL for an MTU the kernel refuses.
Result<> create_veth(Netlink& netlink, const VethRequest& request);

// Errors: ENODEV where it is gone already.
Result<> delete_link(Netlink& netlink, int index);

enum class LinkLocal { automatic, none };
// The link-local IPv6 address that the kernel gives an interface once it is up and has its carrier: `none` if it is to
// have one that the caller adds, or none at all. Errors: EAFNOSUPPORT for that where the kernel has no IPv6.
Result<> set_link_up(Netlink& netlink, int index, LinkLocal address = LinkLocal::automatic);

}  // namespace poduplink
