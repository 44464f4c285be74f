// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/oracle_packet.h"

#include <algorithm>
#include <array>

namespace poduplink::tests::oracle {
namespace {

constexpr std::uint16_t type_ip4 = 0x0800;
constexpr std::uint16_t type_arp = 0x0806;
constexpr std::uint16_t type_ip6 = 0x86dd;

constexpr std::uint8_t hop_by_hop = 0;
constexpr std::uint8_t routing = 43;
constexpr std::uint8_t fragment = 44;
constexpr std::uint8_t authentication = 51;
constexpr std::uint8_t destination_options = 60;

constexpr std::size_t most_extensions = 8;
constexpr std::size_t transport_octets = 8;

bool is_extension(std::uint8_t protocol) {
  return protocol == hop_by_hop || protocol == routing || protocol == fragment || protocol == authentication ||
         protocol == destination_options;
}

std::size_t extension_octets(const Octets& frame, std::size_t at, std::uint8_t type) {
  if (type == fragment) return 8;
  const std::size_t length = octet(frame, at + 1);
  return type == authentication ? (length + 2) * 4 : (length + 1) * 8;
}

void set_transport(Chain& chain, std::size_t end) {
  if (!chain.later_fragment && !chain.too_many && !chain.cut && chain.at + transport_octets <= end) {
    chain.transport = chain.at;
  }
}

// Rule 4, and rule 5 for IPv6.
Chain read_chain6(const Octets& frame, std::size_t at, std::size_t end, std::uint8_t next) {
  Chain chain{.protocol = next, .at = at};
  for (std::size_t count = 0; is_extension(chain.protocol) && !chain.later_fragment; ++count) {
    if (count == most_extensions) {
      chain.options = true;
      chain.too_many = true;
      return chain;
    }
    const std::uint8_t type = chain.protocol;
    if (type == routing && chain.at + 8 <= end) chain.options = true;
    if (chain.at + 2 > end || chain.at + extension_octets(frame, chain.at, type) > end) {
      chain.cut = true;
      return chain;
    }
    if (type == fragment) {
      chain.fragment = true;
      chain.later_fragment = (word(frame, chain.at + 2) & 0xfff8U) != 0;
    }
    chain.protocol = octet(frame, chain.at);
    chain.at += extension_octets(frame, chain.at, type);
  }
  set_transport(chain, end);
  return chain;
}

Chain read_chain4(const Octets& frame, std::size_t header, std::size_t end) {
  const std::size_t header_octets = (octet(frame, header) & 0x0fU) * std::size_t{4};
  const std::uint16_t fragment_field = word(frame, header + 6);
  Chain chain{.protocol = octet(frame, header + 9), .at = header + header_octets};
  chain.options = header_octets > ip4_octets;
  chain.later_fragment = (fragment_field & 0x1fffU) != 0;
  chain.fragment = chain.later_fragment || (fragment_field & 0x2000U) != 0;
  set_transport(chain, end);
  return chain;
}

// Everything but the end, of a header whose octets are there.
Packet read_packet(const Octets& frame, std::size_t header, std::size_t end, Family family) {
  Packet packet{.family = family, .header = header, .end = end};
  const bool v4 = family == Family::v4;
  packet.src = address(frame, header + (v4 ? 12 : 8), family);
  packet.dst = address(frame, header + (v4 ? 16 : 24), family);
  packet.ttl = octet(frame, header + (v4 ? 8 : 7));
  packet.dont_fragment = v4 && (octet(frame, header + 6) & 0x40U) != 0;
  packet.chain =
      v4 ? read_chain4(frame, header, end) : read_chain6(frame, header + ip6_octets, end, octet(frame, header + 6));
  if (!packet.chain.transport) return packet;
  const std::size_t at = *packet.chain.transport;
  const std::uint8_t protocol = packet.chain.protocol;
  if (protocol == proto_tcp || protocol == proto_udp) {
    packet.tuple = Tuple{.protocol = protocol,
                         .src = packet.src,
                         .dst = packet.dst,
                         .sport = word(frame, at),
                         .dport = word(frame, at + 2)};
  }
  if (protocol == (v4 ? proto_icmp : proto_icmp6)) packet.icmp_type = octet(frame, at);
  return packet;
}

// Rule 3 without the extension headers: where the packet ends, or nothing where its IP header is malformed.
std::optional<std::size_t> end_of(const Skb& skb, Family family) {
  const Octets& frame = skb.frame;
  const std::size_t held = frame.size() - ethernet_octets;
  if (family == Family::v4) {
    if (held < ip4_octets || octet(frame, ethernet_octets) >> 4U != 4) return {};
    const std::size_t header_octets = (octet(frame, ethernet_octets) & 0x0fU) * std::size_t{4};
    std::size_t length = word(frame, ethernet_octets + 2);
    if (length == 0 && skb.gso_size != 0 && octet(frame, ethernet_octets + 9) == proto_tcp) length = held;
    if (header_octets < ip4_octets || length < header_octets || length > held) return {};
    return ethernet_octets + length;
  }
  if (held < ip6_octets || octet(frame, ethernet_octets) >> 4U != 6) return {};
  std::size_t length = word(frame, ethernet_octets + 4);
  if (length == 0 && skb.gso_size != 0) length = held - ip6_octets;
  if (length > held - ip6_octets) return {};
  return ethernet_octets + ip6_octets + length;
}

}  // namespace

std::uint8_t octet(const Octets& frame, std::size_t at) { return frame.at(at); }

std::uint16_t word(const Octets& frame, std::size_t at) {
  return static_cast<std::uint16_t>((frame.at(at) << 8U) | frame.at(at + 1));
}

IpAddress address(const Octets& frame, std::size_t at, Family family) {
  const std::span all(frame);
  if (family == Family::v4) return IpAddress::v4(all.subspan(at).first<4>());
  return IpAddress::v6(all.subspan(at).first<16>());
}

MacAddress mac_of(const Octets& frame, std::size_t at) {
  std::array<std::uint8_t, 6> octets{};
  std::copy_n(frame.begin() + static_cast<std::ptrdiff_t>(at), 6, octets.begin());
  return MacAddress{octets};
}

bool Packet::is_icmp_error() const {
  if (!icmp_type) return false;
  if (family == Family::v6) return *icmp_type < 128;
  return *icmp_type == 3 || *icmp_type == 4 || *icmp_type == 5 || *icmp_type == 11 || *icmp_type == 12;
}

Frame read_frame(const Skb& skb) {
  if (skb.tag) return {.kind = Kind::vlan};
  if (skb.frame.size() < ethernet_octets) return {.kind = Kind::other};
  const std::uint16_t type = word(skb.frame, 12);
  if (type == 0x8100 || type == 0x88a8) return {.kind = Kind::vlan};
  if (type != skb.protocol) return {.kind = Kind::other};
  if (type == type_arp) return {.kind = Kind::arp};
  if (type != type_ip4 && type != type_ip6) return {.kind = Kind::other};
  const Family family = type == type_ip4 ? Family::v4 : Family::v6;
  const auto end = end_of(skb, family);
  if (!end) return {.kind = Kind::malformed};
  Frame frame{.kind = Kind::ip, .packet = read_packet(skb.frame, ethernet_octets, *end, family)};
  frame.malformed_extension = frame.packet.chain.cut;
  return frame;
}

std::optional<Packet> read_quote(const Octets& frame, const Packet& error) {
  const std::size_t header = *error.chain.transport + transport_octets;
  const std::size_t octets = error.family == Family::v4 ? ip4_octets : ip6_octets;
  if (header + octets > error.end) return {};
  const unsigned version = octet(frame, header) >> 4U;
  if (version != (error.family == Family::v4 ? 4U : 6U)) return {};
  if (error.family == Family::v4 && (octet(frame, header) & 0x0fU) < 5) return {};
  return read_packet(frame, header, error.end, error.family);
}

}  // namespace poduplink::tests::oracle
