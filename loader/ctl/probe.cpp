// SPDX-License-Identifier: Apache-2.0
#include "loader/ctl/probe.h"

#include <linux/if_ether.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <span>

#include "loader/base/format.h"

namespace poduplink::ctl {
namespace {

constexpr std::size_t ip6_header = 40;
constexpr std::uint8_t destination_options = 60;

class FrameWriter {
 public:
  void put8(std::uint8_t value) { octets.push_back(value); }
  void put16(std::uint16_t value) {
    put8(static_cast<std::uint8_t>(value >> 8U));
    put8(static_cast<std::uint8_t>(value & 0xffU));
  }
  void put(std::span<const std::uint8_t> more) { octets.insert(octets.end(), more.begin(), more.end()); }
  void put_zeros(std::size_t number) { octets.resize(octets.size() + number); }

  std::vector<std::uint8_t> octets;
};

// RFC 1071, over an even number of octets.
std::uint16_t checksum(std::span<const std::uint8_t> octets) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < octets.size(); i += 2)
    sum += static_cast<std::uint32_t>(octets[i] << 8U) | octets[i + 1];
  while (sum > 0xffffU) sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<std::uint16_t>(~sum);
}

// Fields in which an IPv4 header differs from a plain one.
struct Ip4Fields {
  std::size_t length = 0;
  std::uint16_t fragment = 0;
  std::uint8_t ttl = 64;
  std::uint8_t protocol = 0;
  std::uint8_t option_words = 0;
};

void put_ip4(FrameWriter& frame, const Ip4Fields& fields, const IpAddress& source, const IpAddress& destination) {
  const std::size_t start = frame.octets.size();
  frame.put8(static_cast<std::uint8_t>(0x45 + fields.option_words));
  frame.put8(0);
  frame.put16(static_cast<std::uint16_t>(fields.length));
  frame.put16(0);  // identification
  frame.put16(fields.fragment);
  frame.put8(fields.ttl);
  frame.put8(fields.protocol);
  frame.put16(0);
  frame.put(source.octets());
  frame.put(destination.octets());
  for (unsigned i = 0; i < 4U * fields.option_words; ++i) frame.put8(1);  // no operation
  const std::uint16_t sum = checksum(std::span(frame.octets).subspan(start));
  frame.octets[start + 10] = static_cast<std::uint8_t>(sum >> 8U);
  frame.octets[start + 11] = static_cast<std::uint8_t>(sum & 0xffU);
}

struct Ip6Fields {
  std::size_t payload = 0;
  std::uint8_t next_header = 0;
  std::uint8_t hop_limit = 64;
};

void put_ip6(FrameWriter& frame, const Ip6Fields& fields, const IpAddress& source, const IpAddress& destination) {
  frame.put16(0x6000);  // version, traffic class, flow label
  frame.put16(0);
  frame.put16(static_cast<std::uint16_t>(fields.payload));
  frame.put8(fields.next_header);
  frame.put8(fields.hop_limit);
  frame.put(source.octets());
  frame.put(destination.octets());
}

std::uint8_t protocol_behind_ip(const Probe& probe) {
  if (!probe.quote) return probe.protocol;
  return probe.source.is_v4() ? std::uint8_t{IPPROTO_ICMP} : static_cast<std::uint8_t>(IPPROTO_ICMPV6);
}

// A later fragment begins 1480 octets into its packet.
constexpr std::uint16_t later_offset = 1480;

void put_network4(FrameWriter& frame, const Probe& probe) {
  Ip4Fields fields{.length = probe.size,
                   .ttl = probe.hop_limit,
                   .protocol = protocol_behind_ip(probe),
                   .option_words = static_cast<std::uint8_t>(probe.options ? 1 : 0)};
  if (probe.dont_fragment) fields.fragment = 0x4000;
  if (probe.piece == Piece::first_fragment) fields.fragment = 0x2000;
  if (probe.piece == Piece::later_fragment) fields.fragment = later_offset / 8;
  put_ip4(frame, fields, probe.source, probe.destination);
}

void put_network6(FrameWriter& frame, const Probe& probe) {
  std::vector<std::uint8_t> headers(probe.extensions, destination_options);
  if (probe.options) headers.push_back(IPPROTO_ROUTING);
  if (probe.piece != Piece::whole) headers.push_back(IPPROTO_FRAGMENT);
  headers.push_back(protocol_behind_ip(probe));
  put_ip6(frame, {.payload = probe.size - ip6_header, .next_header = headers[0], .hop_limit = probe.hop_limit},
          probe.source, probe.destination);
  for (std::size_t i = 0; i + 1 < headers.size(); ++i) {
    frame.put8(headers[i + 1]);
    frame.put8(0);  // 8 octets in all
    if (headers[i] == IPPROTO_FRAGMENT) {
      frame.put16(probe.piece == Piece::later_fragment ? later_offset : 1);
      frame.put_zeros(4);
    } else {
      frame.put_zeros(6);
    }
  }
}

void put_quote(FrameWriter& frame, const Quote& quote) {
  const bool v4 = quote.source.is_v4();
  frame.put8(v4 ? 11 : 3);  // time exceeded
  frame.put_zeros(7);
  if (v4) {
    put_ip4(frame, {.length = 28, .protocol = quote.protocol}, quote.source, quote.destination);
  } else {
    put_ip6(frame, {.payload = 8, .next_header = quote.protocol}, quote.source, quote.destination);
  }
  frame.put16(quote.source_port);
  frame.put16(quote.destination_port);
  frame.put_zeros(4);
}

void put_transport(FrameWriter& frame, const Probe& probe, std::size_t octets) {
  switch (probe.protocol) {
    case IPPROTO_ICMP:
    case IPPROTO_ICMPV6:
      frame.put16(probe.protocol == IPPROTO_ICMP ? 0x0800 : 0x8000);  // echo request
      frame.put16(0);
      frame.put16(probe.source_port);
      frame.put16(1);
      return;
    case IPPROTO_TCP:
      frame.put16(probe.source_port);
      frame.put16(probe.destination_port);
      frame.put({{0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0}});  // SYN
      return;
    case IPPROTO_UDP:
      frame.put16(probe.source_port);
      frame.put16(probe.destination_port);
      frame.put16(static_cast<std::uint16_t>(octets));
      frame.put16(0);
      return;
    default:
      return;
  }
}

void put_arp(FrameWriter& frame, const Probe& probe) {
  frame.put({{0, 1, 0x08, 0, 6, 4, 0, 1}});  // Ethernet, IPv4, request
  frame.put(probe.source_mac.octets());
  frame.put(probe.source.octets());
  frame.put_zeros(6);
  frame.put(probe.destination.octets());
}

void put_solicitation(FrameWriter& frame, const Probe& probe) {
  std::array<std::uint8_t, 16> group{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  std::ranges::copy(probe.destination.octets().last(3), group.begin() + 13);
  put_ip6(frame, {.payload = 32, .next_header = IPPROTO_ICMPV6, .hop_limit = 255}, probe.source, IpAddress::v6(group));
  frame.put({{135, 0, 0, 0, 0, 0, 0, 0}});
  frame.put(probe.destination.octets());
  frame.put({{1, 1}});  // source link-layer address
  frame.put(probe.source_mac.octets());
}

}  // namespace

MacAddress neighbour_group_mac(const IpAddress& address) {
  if (address.is_v4()) return MacAddress({0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
  const auto last = address.octets().last(3);
  return MacAddress({0x33, 0x33, 0xff, last[0], last[1], last[2]});
}

Result<std::vector<std::uint8_t>> probe_frame(const Probe& probe) {
  FrameWriter frame;
  const bool v4 = probe.source.is_v4();
  frame.put(probe.destination_mac.octets());
  frame.put(probe.source_mac.octets());
  if (probe.vlan != 0) {
    frame.put16(ETH_P_8021Q);
    frame.put16(probe.vlan);
  }
  if (probe.asks_for_neighbour) {
    frame.put16(v4 ? ETH_P_ARP : ETH_P_IPV6);
    v4 ? put_arp(frame, probe) : put_solicitation(frame, probe);
    return std::move(frame.octets);
  }
  frame.put16(v4 ? ETH_P_IP : ETH_P_IPV6);
  const std::size_t start = frame.octets.size();
  v4 ? put_network4(frame, probe) : put_network6(frame, probe);
  if (probe.piece != Piece::later_fragment) {
    if (probe.quote) {
      put_quote(frame, *probe.quote);
    } else {
      put_transport(frame, probe, start + probe.size - frame.octets.size());
    }
  }
  const std::size_t least = frame.octets.size() - start;
  if (probe.size < least || probe.size > largest_probe)
    return fail("size {}: from {} (the headers of this packet) to {} (what the kernel takes for a test run)",
                probe.size, least, largest_probe);
  frame.octets.resize(start + probe.size);
  return std::move(frame.octets);
}

}  // namespace poduplink::ctl
