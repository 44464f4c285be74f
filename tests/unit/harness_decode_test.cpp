// SPDX-License-Identifier: Apache-2.0
// The reader of captured frames against the frames that the packet builder makes.
#include <catch2/catch_test_macros.hpp>

#include "tests/harness/decode.h"
#include "tests/harness/packet.h"

using namespace poduplink;
using namespace poduplink::tests;
using poduplink::harness::decode;
using poduplink::harness::Decoded;

namespace {

const MacAddress here = mac("02:00:00:00:01:02");
const MacAddress there = mac("02:00:00:00:01:01");

Octets frame(const char* from, const char* to, const Layer& transport, std::uint8_t ttl = 64) {
  return build({Ethernet{here, there}, Ip{.src = ip(from), .dst = ip(to), .ttl = ttl}, transport, Raw{33}});
}

}  // namespace

TEST_CASE("A frame's addresses, TTL and ports are read in both families") {
  for (const auto& [from, to] : {std::pair{"10.1.1.1", "198.51.100.10"}, {"fd00:1::1", "2001:db8::1"}}) {
    const Decoded packet = decode(frame(from, to, Udp{1000, 53}, 63));
    CHECK(packet.source_mac == here);
    CHECK(packet.destination_mac == there);
    CHECK(packet.source == ip(from));
    CHECK(packet.destination == ip(to));
    CHECK(packet.ttl == 63);
    CHECK(packet.is_udp());
    CHECK(packet.source_port == 1000);
    CHECK(packet.destination_port == 53);
    CHECK(packet.payload.size() == 33);
    CHECK(decode(frame(from, to, Tcp{1, 2})).is_tcp());
  }
  CHECK(decode(frame("10.1.1.1", "10.1.1.2", Icmp{.type = 8})).is_echo_request());
  CHECK(decode(frame("fd00::1", "fd00::2", Icmp{.type = 129})).is_echo_reply());
  CHECK(decode(frame("fd00::1", "fd00::2", Icmp{.type = 135})).is_link_housekeeping());
  CHECK_FALSE(decode(frame("fd00::1", "fd00::2", Icmp{.type = 128})).is_link_housekeeping());
}

TEST_CASE("A checksum is right until an octet of what it covers changes") {
  for (const auto& [from, to] : {std::pair{"10.1.1.1", "198.51.100.10"}, {"fd00:1::1", "2001:db8::1"}}) {
    for (const Layer& transport : {Layer{Udp{1000, 53}}, Layer{Tcp{1000, 53}}, Layer{Icmp{.type = 3}}}) {
      Octets octets = frame(from, to, transport);
      CHECK(decode(octets).header_checksum_ok);
      CHECK(decode(octets).payload_checksum_ok);
      octets.back() ^= 0x10;
      CHECK(decode(octets).header_checksum_ok);
      CHECK_FALSE(decode(octets).payload_checksum_ok);
    }
  }
  Octets octets = frame("10.1.1.1", "198.51.100.10", Udp{1, 2});
  octets[14 + 8] -= 1;  // the TTL, without its checksum
  CHECK_FALSE(decode(octets).header_checksum_ok);
}

TEST_CASE("Tags, extension headers, ARP and frames cut short are read as far as they go") {
  const Ip v6{.src = ip("fd00::1"), .dst = ip("fd00::2")};
  const Decoded extended = decode(build({Ethernet{here, there}, v6, Extension{}, Udp{7, 8}, Raw{4}}));
  CHECK(extended.is_udp());
  CHECK(extended.destination_port == 8);
  CHECK(extended.payload_checksum_ok);
  CHECK(decode(build({Ethernet{here, there}, v6, Fragment{.more = true}, Udp{7, 8}, Raw{8}})).fragment);
  const Decoded tagged = decode(build({Ethernet{here, there}, Vlan{}, v6, Udp{7, 8}}));
  CHECK(tagged.tagged);
  CHECK(tagged.is_udp());
  const Decoded arp = decode(build({Ethernet{here, there}, Arp{1, here, ip("10.0.0.1"), {}, ip("10.0.0.2")}}));
  CHECK(arp.is_arp());
  CHECK(arp.source == ip("10.0.0.1"));
  CHECK(arp.destination == ip("10.0.0.2"));
  const Octets whole = frame("10.1.1.1", "198.51.100.10", Udp{1, 2});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Decoded part = decode(std::span(whole).first(size));
    CHECK(part.source.has_value() == (size >= 34));
  }
}
