// SPDX-License-Identifier: Apache-2.0
#include "loader/net/link.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netlink/msg.h>

#include <algorithm>
#include <cerrno>

namespace poduplink {
namespace {

// IFF_LOWER_UP of <linux/if.h>, which does not go together with <net/if.h>.
constexpr unsigned lower_up = 1U << 16;

ifinfomsg link_header(int index = 0) {
  ifinfomsg header{};
  header.ifi_family = AF_UNSPEC;
  header.ifi_index = index;
  return header;
}

// One queue each way, which is all that the kernel lets a veth use: unasked it first makes one for every processor, and
// waits for two RCU grace periods to take them away again.
void put_single_queue(Message& message) {
  message.put_u32(IFLA_NUM_TX_QUEUES, 1);
  message.put_u32(IFLA_NUM_RX_QUEUES, 1);
}

// Counters are a third of a link's message, and none of ours.
void put_mask(Message& message) { message.put_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS); }

Result<Link> query_one(Netlink& netlink, Message& message, const std::string& what) {
  put_mask(message);
  std::optional<Link> found;
  const auto asked = netlink.query(message, [&](const nlmsghdr* header) { found = parse_link(header); });
  if (!asked) return fail_within(asked.error(), "interface " + what);
  if (!found) return fail_errno(ENODEV, "interface {}", what);
  return *found;
}

}  // namespace

bool Link::is_ethernet() const { return hardware_type == ARPHRD_ETHER && mac.has_value(); }
bool Link::is_loopback() const { return (flags & IFF_LOOPBACK) != 0; }
bool Link::is_admin_up() const { return (flags & IFF_UP) != 0; }
bool Link::is_running() const { return is_admin_up() && (flags & lower_up) != 0; }
bool Link::is_stacked() const { return parent != 0 && !parent_elsewhere && kind != "veth" && parent != index; }

Link parse_link(const nlmsghdr* message) {
  const auto* header = static_cast<const ifinfomsg*>(nlmsg_data(message));
  const Attributes attributes(message, sizeof(ifinfomsg));
  Link link;
  link.index = header->ifi_index;
  link.hardware_type = header->ifi_type;
  link.flags = header->ifi_flags;
  link.name = attributes.text(IFLA_IFNAME);
  link.mtu = attributes.u32(IFLA_MTU);
  link.master = static_cast<int>(attributes.u32(IFLA_MASTER));
  link.parent = static_cast<int>(attributes.u32(IFLA_LINK));
  link.parent_elsewhere = attributes.has(IFLA_LINK_NETNSID);
  link.operational_state = attributes.u8(IFLA_OPERSTATE);
  link.kind = attributes.nested(IFLA_LINKINFO).text(IFLA_INFO_KIND);
  link.has_device = attributes.has(IFLA_PARENT_DEV_NAME);
  if (const auto mac = MacAddress::from_octets(attributes.octets(IFLA_ADDRESS))) link.mac = *mac;
  attributes.nested(IFLA_PROP_LIST).each([&](int type, std::span<const std::uint8_t> payload) {
    if (type != IFLA_ALT_IFNAME || payload.empty()) return;
    link.alternative_names.emplace_back(payload.begin(), payload.end() - 1);
  });
  return link;
}

Result<Link> find_link(Netlink& netlink, int index) {
  Message message(RTM_GETLINK, 0, link_header(index));
  return query_one(netlink, message, formatted("with index {}", index));
}

Result<Link> find_link_by_name(Netlink& netlink, const std::string& name) {
  Message message(RTM_GETLINK, 0, link_header());
  // Either attribute finds names and alternative names; the first takes 15 octets at most.
  message.put_string(name.size() < IFNAMSIZ ? IFLA_IFNAME : IFLA_ALT_IFNAME, name);
  return query_one(netlink, message, name);
}

Result<std::vector<Link>> dump_links(Netlink& netlink) {
  Message message(RTM_GETLINK, NLM_F_DUMP, link_header());
  put_mask(message);
  std::vector<Link> links;
  const auto asked = netlink.query(
      message, [&](const nlmsghdr* header) { links.push_back(parse_link(header)); }, [&] { links.clear(); });
  if (!asked) return fail_within(asked.error(), "list of interfaces");
  return links;
}

std::vector<const Link*> leading_links(const std::vector<Link>& links, const MacAddress& mac) {
  std::vector<const Link*> leading;
  for (const Link& link : links) {
    if (link.mac != mac || link.master != 0) continue;
    const auto parent =
        std::ranges::find_if(links, [&](const Link& other) { return link.is_stacked() && other.index == link.parent; });
    if (parent == links.end() || parent->mac != mac) leading.push_back(&link);
  }
  return leading;
}

Result<> create_veth(Netlink& netlink, const VethRequest& request) {
  Message message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, link_header());
  message.put_string(IFLA_IFNAME, request.host_name);
  message.put_mac(IFLA_ADDRESS, request.host_mac);
  if (request.mtu != 0) message.put_u32(IFLA_MTU, request.mtu);
  put_single_queue(message);
  message.nest(IFLA_LINKINFO, [&] {
    message.put_string(IFLA_INFO_KIND, "veth");
    message.nest(IFLA_INFO_DATA, [&] {
      message.nest(VETH_INFO_PEER, [&] {
        const ifinfomsg peer = link_header();
        message.append(&peer, sizeof(peer));
        message.put_string(IFLA_IFNAME, request.peer_name);
        message.put_mac(IFLA_ADDRESS, request.peer_mac);
        message.put_u32(IFLA_NET_NS_FD, static_cast<std::uint32_t>(request.peer_netns_fd));
        if (request.mtu != 0) message.put_u32(IFLA_MTU, request.mtu);
      });
    });
  });
  auto made = netlink.request(message);
  if (!made) {
    return fail_within(std::move(made.error()), formatted("veth {} with {} in the container, MTU {}", request.host_name,
                                                          request.peer_name, request.mtu));
  }
  return {};
}

Result<> delete_link(Netlink& netlink, int index) {
  Message message(RTM_DELLINK, 0, link_header(index));
  auto deleted = netlink.request(message);
  if (!deleted) return fail_within(std::move(deleted.error()), formatted("deleting interface {}", index));
  return {};
}

Result<> set_link_up(Netlink& netlink, int index, LinkLocal address) {
  ifinfomsg header = link_header(index);
  header.ifi_flags = IFF_UP;
  header.ifi_change = IFF_UP;
  Message message(RTM_NEWLINK, 0, header);
  if (address == LinkLocal::none) {
    message.nest(IFLA_AF_SPEC, [&] {
      message.nest(AF_INET6, [&] { message.put_u8(IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE); });
    });
  }
  auto set = netlink.request(message);
  if (!set) return fail_within(std::move(set.error()), formatted("setting interface {} up", index));
  return {};
}

}  // namespace poduplink
