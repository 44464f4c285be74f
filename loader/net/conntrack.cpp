// SPDX-License-Identifier: Apache-2.0
#include "loader/net/conntrack.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <netinet/in.h>

#include <cerrno>

namespace poduplink {
namespace {

std::uint16_t port_in(const Attributes& attributes, int attribute) { return ntohs(attributes.u16(attribute)); }

ConnectionTuple tuple_in(const Attributes& attributes) {
  const Attributes ip = attributes.nested(CTA_TUPLE_IP);
  const bool v4 = ip.has(CTA_IP_V4_SRC);
  const Attributes transport = attributes.nested(CTA_TUPLE_PROTO);
  ConnectionTuple tuple;
  tuple.source = ip.address(v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC).value_or(IpAddress());
  tuple.destination = ip.address(v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST).value_or(IpAddress());
  tuple.protocol = transport.u8(CTA_PROTO_NUM);
  if (tuple.protocol == IPPROTO_ICMP || tuple.protocol == IPPROTO_ICMPV6) {
    tuple.source_port = port_in(transport, v4 ? CTA_PROTO_ICMP_ID : CTA_PROTO_ICMPV6_ID);
  } else {
    tuple.source_port = port_in(transport, CTA_PROTO_SRC_PORT);
    tuple.destination_port = port_in(transport, CTA_PROTO_DST_PORT);
  }
  return tuple;
}

}  // namespace

bool Connection::is_nated() const {
  if (original.source != reply.destination || original.destination != reply.source) return true;
  if (original.protocol != IPPROTO_TCP && original.protocol != IPPROTO_UDP) return false;
  return original.source_port != reply.destination_port || original.destination_port != reply.source_port;
}

Result<> each_connection(Netlink& netlink, const std::function<void(const Connection&)>& visit) {
  const nfgenmsg header{.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = 0};
  Message message((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET, NLM_F_DUMP, header);
  const auto asked = netlink.query(message, [&](const nlmsghdr* answer) {
    const Attributes attributes(answer, sizeof(nfgenmsg));
    visit({.original = tuple_in(attributes.nested(CTA_TUPLE_ORIG)),
           .reply = tuple_in(attributes.nested(CTA_TUPLE_REPLY)),
           .timeout = ntohl(attributes.u32(CTA_TIMEOUT))});
  });
  if (asked || asked.error().code == EINVAL || asked.error().code == EOPNOTSUPP) return {};
  return fail_within(asked.error(), "connections");
}

}  // namespace poduplink
