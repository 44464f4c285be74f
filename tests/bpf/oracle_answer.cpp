// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/oracle_answer.h"

#include <algorithm>
#include <array>

namespace poduplink::tests::oracle {
namespace {

void set_word(Octets& frame, std::size_t at, unsigned value) {
  frame.at(at) = static_cast<std::uint8_t>(value >> 8U);
  frame.at(at + 1) = static_cast<std::uint8_t>(value);
}

void set_octets(Octets& frame, std::size_t at, std::span<const std::uint8_t> octets) {
  std::ranges::copy(octets, frame.begin() + static_cast<std::ptrdiff_t>(at));
}

// RFC 1071, over an even or odd number of octets.
unsigned sum_of(std::span<const std::uint8_t> octets) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < octets.size(); ++i) sum += i % 2 == 0 ? unsigned{octets[i]} << 8U : octets[i];
  return sum;
}

unsigned fold(unsigned sum) {
  while (sum > 0xffff) sum = (sum & 0xffffU) + (sum >> 16U);
  return sum;
}

constexpr std::size_t arp_octets = 28;
constexpr std::size_t icmp_octets = 8;
// Of a packet that is answered by Too big.
constexpr std::size_t most_extension_octets = 72;
constexpr std::size_t least_payload4 = 36;
constexpr std::size_t least_payload6 = 56;

constexpr std::uint8_t solicitation_type = 135;
constexpr std::uint8_t advertisement_type = 136;
constexpr std::size_t solicitation_octets = 24;
constexpr std::size_t advertisement_octets = 32;

const IpAddress all_nodes = ip("ff02::1");
const MacAddress all_nodes_mac = mac("33:33:00:00:00:01");

// An Ethernet and an IPv6 header for ICMPv6, whose `octets` octets follow as zeros.
Octets icmp6_frame(const MacAddress& src_mac, const MacAddress& dst_mac, const IpAddress& src, const IpAddress& dst,
                   std::uint8_t hop_limit, std::size_t octets) {
  Octets frame(ethernet_octets + ip6_octets + octets);
  set_macs(frame, dst_mac, src_mac);
  set_word(frame, 12, 0x86dd);
  frame.at(ethernet_octets) = 0x60;
  set_word(frame, ethernet_octets + 4, static_cast<unsigned>(octets));
  frame.at(ethernet_octets + 6) = proto_icmp6;
  frame.at(ethernet_octets + 7) = hop_limit;
  set_octets(frame, ethernet_octets + 8, src.octets());
  set_octets(frame, ethernet_octets + 24, dst.octets());
  return frame;
}

void seal_icmp6(Octets& frame) {
  const std::size_t at = ethernet_octets + ip6_octets;
  const std::span all(frame);
  const auto octets = static_cast<unsigned>(frame.size() - at);
  const unsigned sum = sum_of(all.subspan(ethernet_octets + 8, 32)) + octets + proto_icmp6 + sum_of(all.subspan(at));
  set_word(frame, at + 2, ~fold(sum) & 0xffffU);
}

std::span<const std::uint8_t> quoted(const Octets& frame, const Packet& packet, std::size_t most) {
  return std::span(frame).subspan(packet.header, std::min(packet.end - packet.header, most));
}

Octets too_big6(const Octets& frame, const Packet& packet, unsigned mtu, const Correspondence& between) {
  const auto quote = quoted(frame, packet, 1280 - ip6_octets - icmp_octets);
  Octets answer =
      icmp6_frame(between.src_mac, between.dst_mac, between.src, packet.src, 64, icmp_octets + quote.size());
  const std::size_t at = ethernet_octets + ip6_octets;
  answer.at(at) = 2;
  set_word(answer, at + 4, mtu >> 16U);
  set_word(answer, at + 6, mtu & 0xffffU);
  set_octets(answer, at + icmp_octets, quote);
  seal_icmp6(answer);
  return answer;
}

Octets too_big4(const Octets& frame, const Packet& packet, unsigned mtu, const Correspondence& between) {
  const auto quote = quoted(frame, packet, 576 - ip4_octets - icmp_octets);
  const std::size_t ip = ethernet_octets;
  const std::size_t icmp = ip + ip4_octets;
  Octets answer(icmp + icmp_octets + quote.size());
  set_macs(answer, between.dst_mac, between.src_mac);
  set_word(answer, 12, 0x0800);
  answer.at(ip) = 0x45;
  answer.at(ip + 1) = 0xc0;
  set_word(answer, ip + 2, static_cast<unsigned>(answer.size() - ip));
  set_word(answer, ip + 6, 0x4000);
  answer.at(ip + 8) = 64;
  answer.at(ip + 9) = proto_icmp;
  set_octets(answer, ip + 12, between.src.octets());
  set_octets(answer, ip + 16, packet.src.octets());
  set_word(answer, ip + 10, ~fold(sum_of(std::span(answer).subspan(ip, ip4_octets))) & 0xffffU);
  answer.at(icmp) = 3;
  answer.at(icmp + 1) = 4;
  set_word(answer, icmp + 6, mtu & 0xffffU);
  set_octets(answer, icmp + icmp_octets, quote);
  set_word(answer, icmp + 2, ~fold(sum_of(std::span(answer).subspan(icmp))) & 0xffffU);
  return answer;
}

std::optional<IpAddress> arp_question(const Octets& frame) {
  if (frame.size() < ethernet_octets + arp_octets) return {};
  constexpr std::array<std::uint8_t, 8> request{0, 1, 0x08, 0, 6, 4, 0, 1};
  if (!std::ranges::equal(std::span(frame).subspan(ethernet_octets, request.size()), request)) return {};
  const IpAddress sender = address(frame, ethernet_octets + 14, Family::v4);
  const IpAddress asked = address(frame, ethernet_octets + 24, Family::v4);
  if (sender == asked) return {};
  return asked;
}

std::optional<IpAddress> solicited(const Octets& frame, const Packet& packet) {
  const std::size_t at = ethernet_octets + ip6_octets;
  if (packet.family != Family::v6 || octet(frame, ethernet_octets + 6) != proto_icmp6) return {};
  if (packet.ttl != 255 || at + solicitation_octets > packet.end) return {};
  if (octet(frame, at) != solicitation_type || octet(frame, at + 1) != 0) return {};
  const IpAddress target = address(frame, at + 8, Family::v6);
  if (target.is_multicast()) return {};
  return target;
}

Octets arp_reply(const Octets& request, const IpAddress& asked, const MacAddress& mac) {
  Octets reply = request;
  const std::size_t arp = ethernet_octets;
  const std::size_t sender = arp + 8;
  const std::size_t target = arp + 18;
  set_macs(reply, source_mac(request), mac);
  set_word(reply, arp + 6, 2);
  set_octets(reply, target, std::span(request).subspan(sender, 10));
  set_octets(reply, sender, mac.octets());
  set_octets(reply, sender + 6, asked.octets());
  return reply;
}

Octets advertisement(const Octets& question, const Packet& packet, const IpAddress& asked, const MacAddress& mac,
                     bool router) {
  const bool in_person = !packet.src.is_unspecified();
  Octets answer = icmp6_frame(mac, in_person ? source_mac(question) : all_nodes_mac, asked,
                              in_person ? packet.src : all_nodes, 255, advertisement_octets);
  const std::size_t at = ethernet_octets + ip6_octets;
  answer.at(at) = advertisement_type;
  answer.at(at + 4) = static_cast<std::uint8_t>((router ? 0x80U : 0U) | (in_person ? 0x40U : 0U) | 0x20U);
  set_octets(answer, at + 8, asked.octets());
  answer.at(at + 24) = 2;  // target link-layer address, in units of 8 octets
  answer.at(at + 25) = 1;
  set_octets(answer, at + 26, mac.octets());
  seal_icmp6(answer);
  return answer;
}

}  // namespace

void set_macs(Octets& frame, const MacAddress& destination, const MacAddress& source) {
  set_octets(frame, 0, destination.octets());
  set_octets(frame, 6, source.octets());
}

void count_down(Octets& frame, const Packet& packet) {
  if (packet.family == Family::v6) {
    --frame.at(packet.header + 7);
    return;
  }
  // RFC 1624: HC' = ~(~HC + ~m + m'), m the word that holds TTL and protocol.
  const unsigned before = word(frame, packet.header + 8);
  --frame.at(packet.header + 8);
  const unsigned after = word(frame, packet.header + 8);
  const unsigned checksum = word(frame, packet.header + 10);
  const unsigned sum = (~checksum & 0xffffU) + (~before & 0xffffU) + after;
  set_word(frame, packet.header + 10, ~fold(sum) & 0xffffU);
}

bool may_answer_too_big(const Packet& packet) {
  const Chain& chain = packet.chain;
  if (packet.is_icmp_error() || chain.cut || chain.too_many || chain.later_fragment) return false;
  const bool v4 = packet.family == Family::v4;
  if (!v4 && chain.at - packet.header > ip6_octets + most_extension_octets) return false;
  return packet.end - chain.at >= (v4 ? least_payload4 : least_payload6);
}

Octets too_big_answer(const Octets& frame, const Packet& packet, unsigned mtu, const Correspondence& between) {
  return packet.family == Family::v4 ? too_big4(frame, packet, mtu, between) : too_big6(frame, packet, mtu, between);
}

std::optional<IpAddress> question(const Octets& frame, const Frame& read) {
  if (read.kind != Kind::arp && read.kind != Kind::ip) return {};
  if (source_mac(frame).is_multicast()) return {};
  return read.kind == Kind::arp ? arp_question(frame) : solicited(frame, read.packet);
}

Octets neighbour_answer(const Octets& frame, const Frame& read, const IpAddress& asked, const MacAddress& mac,
                        bool router) {
  return read.kind == Kind::arp ? arp_reply(frame, asked, mac) : advertisement(frame, read.packet, asked, mac, router);
}

}  // namespace poduplink::tests::oracle
