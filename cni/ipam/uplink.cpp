// SPDX-License-Identifier: Apache-2.0
#include "cni/ipam/verbs.h"
#include "loader/base/log.h"
#include "loader/net/link.h"
#include "loader/net/netlink.h"

namespace poduplink::ipam {
namespace {

UplinkIdentity identity_of(const Link& link) { return {link.name, link.mac ? link.mac->text() : std::string()}; }

// A MAC that several links bear stays without a name: the main plugin knows which of them can be an uplink.
UplinkIdentity find_by_mac(Netlink& netlink, const MacAddress& mac) {
  UplinkIdentity identity{{}, mac.text()};
  const auto links = dump_links(netlink);
  if (!links) {
    log_warning("uplink {}: {}", mac.text(), links.error().message);
    return identity;
  }
  const Link* only = nullptr;
  for (const Link& link : *links) {
    if (link.mac != mac) continue;
    if (only != nullptr) return identity;
    only = &link;
  }
  return only != nullptr ? identity_of(*only) : identity;
}

}  // namespace

UplinkIdentity find_uplink(const std::string& uplink) {
  const auto mac = MacAddress::parse(uplink);
  UplinkIdentity as_configured = mac ? UplinkIdentity{{}, mac->text()} : UplinkIdentity{uplink, {}};
  auto netlink = Netlink::open();
  if (!netlink) {
    log_warning("uplink {}: {}", uplink, netlink.error().message);
    return as_configured;
  }
  if (mac) return find_by_mac(*netlink, *mac);
  const auto link = find_link_by_name(*netlink, uplink);
  if (!link) log_warning("uplink {}: {}", uplink, link.error().message);
  return link ? identity_of(*link) : as_configured;
}

}  // namespace poduplink::ipam
