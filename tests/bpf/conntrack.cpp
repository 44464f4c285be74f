// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/conntrack.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>

#include <stdexcept>
#include <string>

#include "loader/net/netlink.h"

namespace poduplink::tests {
namespace {

constexpr std::uint32_t seconds = 86400;

void check(int error, const char* what) {
  if (error < 0) throw std::runtime_error(std::string("conntrack: ") + what + ": " + nl_geterror(error));
}

void put_tuple(Message& message, int attribute, const FlowTuple& tuple) {
  const bool v4 = tuple.src.is_v4();
  message.nest(attribute, [&] {
    message.nest(CTA_TUPLE_IP, [&] {
      message.put_address(v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, tuple.src);
      message.put_address(v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, tuple.dst);
    });
    message.nest(CTA_TUPLE_PROTO, [&] {
      message.put_u8(CTA_PROTO_NUM, tuple.protocol);
      message.put_u16(CTA_PROTO_SRC_PORT, htons(tuple.sport));
      message.put_u16(CTA_PROTO_DST_PORT, htons(tuple.dport));
    });
  });
}

}  // namespace

void Conntrack::Free::operator()(nl_sock* socket) const { nl_socket_free(socket); }

Conntrack::Conntrack() : socket_(nl_socket_alloc()) {
  if (!socket_) throw std::runtime_error("conntrack: no memory");
  check(nl_connect(socket_.get(), NETLINK_NETFILTER), "connect");
}

void Conntrack::add(const FlowTuple& original, const FlowTuple& reply) const {
  const nfgenmsg header{
      .nfgen_family = static_cast<__u8>(original.src.address_family()), .version = NFNETLINK_V0, .res_id = 0};
  Message message((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_NEW, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, header);
  put_tuple(message, CTA_TUPLE_ORIG, original);
  put_tuple(message, CTA_TUPLE_REPLY, reply);
  message.put_u32(CTA_TIMEOUT, htonl(seconds));
  if (original.protocol == IPPROTO_TCP) {
    message.nest(CTA_PROTOINFO, [&] {
      message.nest(CTA_PROTOINFO_TCP, [&] { message.put_u8(CTA_PROTOINFO_TCP_STATE, TCP_CONNTRACK_ESTABLISHED); });
    });
  }
  check(nl_send_auto(socket_.get(), message.get()), "send");
  check(nl_wait_for_ack(socket_.get()), "new entry");
}

}  // namespace poduplink::tests
