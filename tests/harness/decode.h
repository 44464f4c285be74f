// SPDX-License-Identifier: Apache-2.0
// What a test asks of a captured frame: who, to whom, by which MACs, with which TTL, and are its checksums right.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/base/address.h"

namespace poduplink::harness {

struct Decoded {
  MacAddress source_mac;
  MacAddress destination_mac;
  std::uint16_t ethertype = 0;  // host byte order, behind VLAN tags
  bool tagged = false;

  // ARP: sender and target. IP: source and destination. Else absent.
  std::optional<IpAddress> source;
  std::optional<IpAddress> destination;
  std::uint16_t arp_operation = 0;  // 1 request, 2 reply

  unsigned ttl = 0;           // or hop limit
  unsigned length = 0;        // of the IP packet, as its header has it
  std::uint8_t protocol = 0;  // behind IPv6 extension headers
  bool fragment = false;      // any fragment, the first too
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint8_t icmp_type = 0;
  std::uint8_t icmp_code = 0;
  std::uint16_t icmp_id = 0;
  std::uint8_t tcp_flags = 0;
  std::vector<std::uint8_t> payload;  // behind TCP, UDP and the eight octets of ICMP

  bool header_checksum_ok = true;   // IPv4's; IPv6 has none
  bool payload_checksum_ok = true;  // TCP, UDP, ICMP, ICMPv6; true for others and for fragments

  [[nodiscard]] bool is_ip() const { return ethertype == 0x0800 || ethertype == 0x86dd; }
  [[nodiscard]] bool is_arp() const { return ethertype == 0x0806; }
  [[nodiscard]] bool is_udp() const { return is_ip() && protocol == 17; }
  [[nodiscard]] bool is_tcp() const { return is_ip() && protocol == 6; }
  [[nodiscard]] bool is_icmp() const { return is_ip() && (protocol == 1 || protocol == 58); }
  [[nodiscard]] bool is_echo_request() const { return is_icmp() && (icmp_type == 8 || icmp_type == 128); }
  [[nodiscard]] bool is_echo_reply() const { return is_icmp() && (icmp_type == 0 || icmp_type == 129); }
  // Router and neighbour discovery, multicast listener reports: never forwarded.
  [[nodiscard]] bool is_link_housekeeping() const {
    return is_ip() && protocol == 58 && ((icmp_type >= 130 && icmp_type <= 137) || icmp_type == 143);
  }
  // One line, for messages.
  [[nodiscard]] std::string text() const;
};

// A whole Ethernet frame. What is cut short leaves the later fields at their defaults.
Decoded decode(std::span<const std::uint8_t> frame);

// RFC 1071 over octets, added to `sum`; not complemented, not folded.
std::uint32_t internet_sum(std::span<const std::uint8_t> octets, std::uint32_t sum = 0);
// Folded and complemented: 0 where a checksum that is part of the sum is right.
std::uint16_t fold_checksum(std::uint32_t sum);

}  // namespace poduplink::harness
