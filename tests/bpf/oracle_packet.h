// SPDX-License-Identifier: Apache-2.0
// "Reading a frame" of docs/datapath.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tests/bpf/oracle.h"

namespace poduplink::tests::oracle {

inline constexpr std::size_t ethernet_octets = 14;
inline constexpr std::size_t ip4_octets = 20;
inline constexpr std::size_t ip6_octets = 40;

// Numbers of protocols.
inline constexpr std::uint8_t proto_icmp = 1;
inline constexpr std::uint8_t proto_tcp = 6;
inline constexpr std::uint8_t proto_udp = 17;
inline constexpr std::uint8_t proto_icmp6 = 58;

// What stands behind an IP header: rules 4 to 6.
struct Chain {
  std::uint8_t protocol = 0;             // of the first header that is no extension header
  std::size_t at = 0;                    // where that header begins
  std::optional<std::size_t> transport;  // the same place, where 8 octets of it are there
  bool fragment = false;
  bool later_fragment = false;
  bool options = false;
  bool too_many = false;  // a ninth extension header: what is behind it was not read
  bool cut = false;       // an extension header does not fit
};

// An IP packet inside a frame, or a quoted one.
struct Packet {
  Family family = Family::v4;
  IpAddress src, dst;
  std::uint8_t ttl = 0;
  bool dont_fragment = false;  // IPv4
  std::size_t header = 0;      // where the IP header begins
  std::size_t end = 0;         // where the packet ends, octets of the frame
  Chain chain;

  // Of the transport header; zero or nothing without one.
  std::optional<Tuple> tuple;             // TCP and UDP
  std::optional<std::uint8_t> icmp_type;  // ICMP of this family
  [[nodiscard]] bool is_tcp_or_udp() const { return tuple.has_value(); }
  [[nodiscard]] bool is_icmp_error() const;
};

enum class Kind { vlan, other, arp, malformed, ip };

struct Frame {
  Kind kind = Kind::other;
  Packet packet;                     // Kind::ip
  bool malformed_extension = false;  // Kind::ip: malformed by an extension header alone
};

Frame read_frame(const Skb& skb);

// The packet that an ICMP error quotes; nothing where its addresses cannot be read.
std::optional<Packet> read_quote(const Octets& frame, const Packet& error);

// ---- octets ----

std::uint8_t octet(const Octets& frame, std::size_t at);
std::uint16_t word(const Octets& frame, std::size_t at);
IpAddress address(const Octets& frame, std::size_t at, Family family);
MacAddress mac_of(const Octets& frame, std::size_t at);
inline MacAddress destination_mac(const Octets& frame) { return mac_of(frame, 0); }
inline MacAddress source_mac(const Octets& frame) { return mac_of(frame, 6); }

}  // namespace poduplink::tests::oracle
