// SPDX-License-Identifier: Apache-2.0
// "Too big", "Writing" and "Neighbours" of docs/datapath.md: the frames that programs make.
#pragma once

#include <optional>

#include "tests/bpf/oracle.h"
#include "tests/bpf/oracle_packet.h"

namespace poduplink::tests::oracle {

// ---- writing ----

// TTL - 1 as a router, in place.
void count_down(Octets& frame, const Packet& packet);
void set_macs(Octets& frame, const MacAddress& destination, const MacAddress& source);

// ---- too big ----

struct Correspondence {
  MacAddress src_mac, dst_mac;
  IpAddress src;  // the answer goes to the packet's source address
};

// Whether the sender is told.
bool may_answer_too_big(const Packet& packet);
Octets too_big_answer(const Octets& frame, const Packet& packet, unsigned mtu, const Correspondence& between);

// ---- neighbours ----

// The address that an ARP request or a neighbour solicitation asks for, where it is one that is answered.
std::optional<IpAddress> question(const Octets& frame, const Frame& read);
// The reply or advertisement by `mac`.
Octets neighbour_answer(const Octets& frame, const Frame& read, const IpAddress& asked, const MacAddress& mac,
                        bool router);

}  // namespace poduplink::tests::oracle
