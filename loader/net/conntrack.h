// SPDX-License-Identifier: Apache-2.0
// The kernel's connection tracking, as ctnetlink lists it.
#pragma once

#include <cstdint>
#include <functional>

#include "loader/base/address.h"
#include "loader/base/result.h"
#include "loader/net/netlink.h"

namespace poduplink {

// One direction of a tracked connection. Ports are in host byte order; of ICMP the identifier stands for the source's.
struct ConnectionTuple {
  IpAddress source;
  IpAddress destination;
  std::uint8_t protocol = 0;  // IPPROTO_*
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

struct Connection {
  ConnectionTuple original;
  ConnectionTuple reply;
  std::uint32_t timeout = 0;  // seconds that are left

  // The reply is not the original one turned round, in an address or a port (of TCP and UDP).
  [[nodiscard]] bool is_nated() const;
};

// Calls `visit` for each connection of this socket's namespace, IPv4 and IPv6, in no order. `netlink`: of
// Netlink::open_netfilter(). None where the kernel has no connection tracking loaded. Errors: errno of the kernel.
Result<> each_connection(Netlink& netlink, const std::function<void(const Connection&)>& visit);

}  // namespace poduplink
