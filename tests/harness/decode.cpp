// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/decode.h"

#include <algorithm>

#include "loader/base/format.h"

namespace poduplink::harness {
namespace {

using Octets = std::span<const std::uint8_t>;

constexpr std::uint8_t tcp = 6;
constexpr std::uint8_t udp = 17;
constexpr std::uint8_t icmp4 = 1;
constexpr std::uint8_t icmp6 = 58;

std::uint16_t u16(Octets octets, std::size_t at) {
  return static_cast<std::uint16_t>((octets[at] << 8) | octets[at + 1]);
}

MacAddress mac(Octets octets) {
  std::array<std::uint8_t, 6> copy{};
  std::copy_n(octets.begin(), 6, copy.begin());
  return MacAddress(copy);
}

std::optional<IpAddress> address(Octets octets) {
  auto result = IpAddress::from_octets(octets);
  if (!result) return std::nullopt;
  return *result;
}

bool pseudo_checksum_ok(const Decoded& packet, Octets segment) {
  std::uint32_t sum = packet.protocol == icmp4 ? 0 : internet_sum(packet.source->octets());
  if (packet.protocol != icmp4) {
    sum = internet_sum(packet.destination->octets(), sum);
    sum += packet.protocol + static_cast<std::uint32_t>(segment.size());
  }
  return fold_checksum(internet_sum(segment, sum)) == 0;
}

void decode_segment(Decoded& packet, Octets segment) {
  std::size_t header = 8;
  if ((packet.protocol == tcp && segment.size() >= 20) || (packet.protocol == udp && segment.size() >= 8)) {
    packet.source_port = u16(segment, 0);
    packet.destination_port = u16(segment, 2);
    if (packet.protocol == tcp) {
      header = static_cast<std::size_t>(segment[12] >> 4) * 4;
      packet.tcp_flags = segment[13];
    }
  } else if ((packet.protocol == icmp4 || packet.protocol == icmp6) && segment.size() >= 8) {
    packet.icmp_type = segment[0];
    packet.icmp_code = segment[1];
    packet.icmp_id = u16(segment, 4);
  } else {
    return;
  }
  if (segment.size() >= header)
    packet.payload.assign(segment.begin() + static_cast<std::ptrdiff_t>(header), segment.end());
  // An IPv4 sender may leave the UDP checksum out.
  const bool absent = packet.protocol == udp && packet.source->is_v4() && u16(segment, 6) == 0;
  if (!packet.fragment) packet.payload_checksum_ok = absent || pseudo_checksum_ok(packet, segment);
}

void decode_ipv4(Decoded& packet, Octets octets) {
  if (octets.size() < 20) return;
  const std::size_t header = static_cast<std::size_t>(octets[0] & 15U) * 4;
  packet.length = u16(octets, 2);
  packet.fragment = (u16(octets, 6) & 0x3fffU) != 0;
  packet.ttl = octets[8];
  packet.protocol = octets[9];
  packet.source = address(octets.subspan(12, 4));
  packet.destination = address(octets.subspan(16, 4));
  if (header < 20 || octets.size() < header) return;
  packet.header_checksum_ok = fold_checksum(internet_sum(octets.first(header))) == 0;
  // Short frames are padded to Ethernet's minimum: the header says where the packet ends.
  const std::size_t end = std::min<std::size_t>(packet.length, octets.size());
  if (end > header) decode_segment(packet, octets.subspan(header, end - header));
}

void decode_ipv6(Decoded& packet, Octets octets) {
  if (octets.size() < 40) return;
  packet.length = u16(octets, 4) + 40U;
  packet.ttl = octets[7];
  packet.source = address(octets.subspan(8, 16));
  packet.destination = address(octets.subspan(24, 16));
  std::uint8_t next = octets[6];
  std::size_t at = 40;
  const std::size_t end = std::min<std::size_t>(packet.length, octets.size());
  const auto is_extension = [](std::uint8_t type) { return type == 0 || type == 43 || type == 44 || type == 60; };
  while (is_extension(next) && end - at >= 8) {
    if (next == 44) packet.fragment = true;
    const std::size_t size = next == 44 ? 8 : (octets[at + 1] + std::size_t{1}) * 8;
    next = octets[at];
    at += size;
    if (at > end) return;
  }
  packet.protocol = next;
  decode_segment(packet, octets.subspan(at, end - at));
}

void decode_arp(Decoded& packet, Octets octets) {
  if (octets.size() < 28) return;
  packet.arp_operation = u16(octets, 6);
  packet.source = address(octets.subspan(14, 4));
  packet.destination = address(octets.subspan(24, 4));
}

}  // namespace

std::uint32_t internet_sum(Octets octets, std::uint32_t sum) {
  for (std::size_t i = 0; i + 1 < octets.size(); i += 2) sum += u16(octets, i);
  if (octets.size() % 2 != 0) sum += static_cast<std::uint32_t>(octets.back()) << 8;
  return sum;
}

std::uint16_t fold_checksum(std::uint32_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum & 0xffff);
}

Decoded decode(Octets frame) {
  Decoded packet;
  if (frame.size() < 14) return packet;
  packet.destination_mac = mac(frame);
  packet.source_mac = mac(frame.subspan(6));
  packet.ethertype = u16(frame, 12);
  std::size_t at = 14;
  while ((packet.ethertype == 0x8100 || packet.ethertype == 0x88a8) && frame.size() >= at + 4) {
    packet.tagged = true;
    packet.ethertype = u16(frame, at + 2);
    at += 4;
  }
  const Octets rest = frame.subspan(at);
  if (packet.ethertype == 0x0800) decode_ipv4(packet, rest);
  if (packet.ethertype == 0x86dd) decode_ipv6(packet, rest);
  if (packet.ethertype == 0x0806) decode_arp(packet, rest);
  return packet;
}

std::string Decoded::text() const {
  std::string line = formatted("{} > {}", source_mac.text(), destination_mac.text());
  if (!source || !destination) return line + formatted(" ethertype {:04x}", ethertype);
  if (is_arp()) return line + formatted(" ARP {} {} > {}", arp_operation, source->text(), destination->text());
  line += formatted(" {} > {} ttl {} protocol {}", source->text(), destination->text(), ttl, protocol);
  if (is_udp() || is_tcp()) line += formatted(" ports {} > {}", source_port, destination_port);
  if (is_tcp()) line += formatted(" flags {:02x}", tcp_flags);
  if (is_icmp()) line += formatted(" type {} code {}", icmp_type, icmp_code);
  if (fragment) line += " fragment";
  if (!header_checksum_ok) line += " BAD HEADER CHECKSUM";
  if (!payload_checksum_ok) line += " BAD CHECKSUM";
  return line;
}

}  // namespace poduplink::harness
