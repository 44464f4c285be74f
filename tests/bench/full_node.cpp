// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/full_node.h"

#include "loader/net/netns.h"
#include "loader/net/route.h"
#include "tests/bench/must.h"

namespace poduplink::bench {
namespace {

using harness::Lab;
using harness::Uplink;

pdl_pod entry_of(const RecordAddress& address, const Record& record, const Link& home) {
  pdl_pod entry{};
  entry.home = static_cast<__u32>(home.index);
  entry.mtu = home.mtu;
  set_pod_gateway(entry, address.gateway);
  set_mac(entry.pod_mac, record.pod_mac);
  entry.prefix_len = static_cast<__u8>(address.address.length());
  entry.mode = record.mode;
  entry.flags = PDL_POD_ON_LINK;
  return entry;
}

}  // namespace

IpAddress filling_pod(const Uplink& uplink, Family family, unsigned number) {
  constexpr unsigned group = 16;  // the first third octet that no other pod of a lab has
  return family == Family::v4 ? uplink.pod4(group + number / 250, 1 + number % 250) : uplink.pod6(group, 1 + number);
}

FullNode::FullNode(Lab& lab)
    : lab_(lab),
      pods_(must(lab.add_namespace("pods"))),
      host_(must(Netlink::open_in(lab.node().fd()))),
      inside_(must(Netlink::open_in(pods_->fd()))) {
  options_.pin_dir = lab.pin_dir();
  options_.run_dir = lab.run_dir();
  for (const unsigned number : lab.uplink_numbers())
    homes_.push_back(must(find_link_by_name(host_, lab.uplink(number).name())));
}

unsigned FullNode::home_number(unsigned number) const { return 1 + number % static_cast<unsigned>(homes_.size()); }

AttachmentId FullNode::id(unsigned number) {
  return {.network = "bench", .container_id = formatted("pod-{}", number), .if_name = formatted("p{}", number)};
}

std::vector<IpAddress> FullNode::addresses(unsigned number) const {
  const Uplink uplink = lab_.uplink(home_number(number));
  return {filling_pod(uplink, Family::v4, number), filling_pod(uplink, Family::v6, number)};
}

// As ADD does it, in its order.
void FullNode::add(unsigned number, pdl_mode mode) {
  const Uplink uplink = lab_.uplink(home_number(number));
  const Link& home = homes_.at(uplink.number - 1);
  Record record;
  record.id = id(number);
  record.netns = pods_->path();
  record.mode = mode;
  record.host_veth = host_veth_name(record.id);
  must(begin_attachment(options_, record));
  record.mtu = home.mtu;
  record.pod_mac = must(random_mac());
  const std::vector<IpAddress> own = addresses(number);
  std::vector<std::optional<pdl_pod>> entries;
  for (const IpAddress& address : own) {
    const IpAddress gateway = address.is_v4() ? uplink.gateway4() : uplink.gateway6();
    record.addresses.push_back({.address = Prefix(address, address.is_v4() ? 16 : 64),
                                .gateway = gateway,
                                .uplink_name = home.name,
                                .uplink_mac = uplink.mac(),
                                .uplink_index = home.index,
                                .announced = address.is_v6()});
    entries.emplace_back(entry_of(record.addresses.back(), record, home));
  }
  must(create_veth(host_, {.host_name = record.host_veth,
                           .host_mac = MacAddress(PDL_HOST_MAC),
                           .peer_name = record.id.if_name,
                           .peer_mac = record.pod_mac,
                           .peer_netns_fd = pods_->fd(),
                           .mtu = record.mtu}));
  const Link veth = must(find_link_by_name(host_, record.host_veth));
  record.host_veth_index = veth.index;
  {
    const NetnsScope scope = must(NetnsScope::enter(lab_.node().fd()));  // tcx takes the thread's
    must(claim(host_, options_, record, entries));
  }
  must(configure_host_side(host_, veth, own));
  must(set_link_up(inside_, must(find_link_by_name(inside_, record.id.if_name)).index));
  must(add_proxy_neighbour(host_, home.index, own.back()));
  must(mark_ready(options_, record));
}

}  // namespace poduplink::bench
