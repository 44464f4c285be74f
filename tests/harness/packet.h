// SPDX-License-Identifier: Apache-2.0
// Frames composed layer by layer, and the checks that tests make on frames they get back.
//
//   build({Ethernet{a, b}, Ip{pod, outside}, Udp{1000, 53}, Raw{100}})
//
// Lengths, protocol numbers and checksums come from what follows a layer; a field set by hand stays as it is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "loader/base/address.h"

namespace poduplink::tests {

using Octets = std::vector<std::uint8_t>;

// For literals: a text that is no address ends the test program.
IpAddress ip(std::string_view text);
MacAddress mac(std::string_view text);

struct Ethernet {
  MacAddress src;
  MacAddress dst;
  std::optional<std::uint16_t> type;
};

struct Vlan {
  std::uint16_t id = 1;
  std::uint16_t type = 0x8100;
};

struct Arp {
  std::uint16_t operation = 1;
  MacAddress sender_mac;
  IpAddress sender;
  MacAddress target_mac;
  IpAddress target;
};

// IPv4 or IPv6, as the addresses are. What only one of them has is ignored for the other.
struct Ip {
  IpAddress src;
  IpAddress dst;
  std::uint8_t ttl = 64;
  std::uint8_t tos = 0;                  // IPv4
  std::uint16_t id = 0x1234;             // IPv4
  bool dont_fragment = false;            // IPv4
  bool more_fragments = false;           // IPv4
  std::uint16_t fragment_offset = 0;     // IPv4, octets, a multiple of 8
  unsigned option_words = 0;             // IPv4: no-operation options, in units of 4 octets
  std::optional<std::uint8_t> protocol;  // or next header
  std::optional<std::uint8_t> version;
  std::optional<std::uint8_t> header_words;  // IPv4: IHL as written into the header
  std::optional<std::uint16_t> length;       // IPv4: total length; IPv6: payload length
};

// An IPv6 extension header: hop-by-hop 0, routing 43, authentication 51, destination 60.
struct Extension {
  std::uint8_t type = 60;
  unsigned size = 8;                   // octets, a multiple of 8
  std::optional<std::uint8_t> length;  // as written, in the header's own units
};

struct Fragment {
  std::uint16_t offset = 0;  // octets, a multiple of 8
  bool more = false;
};

struct Tcp {
  std::uint16_t sport = 0;
  std::uint16_t dport = 0;
  std::uint8_t flags = 0x10;  // ACK
  std::uint8_t option_words = 0;
};

struct Udp {
  std::uint16_t sport = 0;
  std::uint16_t dport = 0;
};

// ICMP or ICMPv6, as the IP header before it is. An error's quote follows as further layers.
struct Icmp {
  std::uint8_t type = 8;
  std::uint8_t code = 0;
  std::uint32_t rest = 0;
};

struct Raw {
  explicit Raw(std::size_t size) : octets(size, 0x5a) {}
  explicit Raw(Octets content) : octets(std::move(content)) {}
  Octets octets;
};

using Layer = std::variant<Ethernet, Vlan, Arp, Ip, Extension, Fragment, Tcp, Udp, Icmp, Raw>;

Octets build(const std::vector<Layer>& layers);

// A neighbour solicitation behind the Ip layer, with the sender's MAC as its option where there is one.
std::vector<Layer> solicitation(const IpAddress& target, const std::optional<MacAddress>& sender);

// ---- reading ----

// Of an untagged IP frame. They throw std::out_of_range where the frame is too short.
std::uint8_t ttl_of(const Octets& frame);
IpAddress src_of(const Octets& frame);
IpAddress dst_of(const Octets& frame);
MacAddress src_mac_of(const Octets& frame);
MacAddress dst_mac_of(const Octets& frame);

// The IPv4 header's (true for IPv6), and TCP's, UDP's and ICMP's behind a plain header without extensions.
bool ip_checksum_ok(const Octets& frame);
bool transport_checksum_ok(const Octets& frame);

}  // namespace poduplink::tests
