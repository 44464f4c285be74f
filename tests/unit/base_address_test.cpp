// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>

#include <array>
#include <span>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "loader/base/address.h"

using namespace poduplink;

TEST_CASE("addresses are read and written in their canonical text") {
  CHECK(IpAddress::parse("10.2.1.5")->text() == "10.2.1.5");
  CHECK(IpAddress::parse("FD00:0:0::5")->text() == "fd00::5");
  CHECK(IpAddress::parse("::")->is_unspecified());
  CHECK(IpAddress::parse("::1")->is_loopback());
  CHECK(IpAddress::parse("::ffff:10.0.0.1")->is_v4_mapped());
}

TEST_CASE("addresses have the text that the C library gives them") {
  constexpr std::array<std::uint16_t, 4> groups{0, 1, 0x0a02, 0xffff};
  for (unsigned pattern = 0; pattern < 1U << 16U; ++pattern) {
    std::array<std::uint8_t, 16> octets{};
    for (std::size_t i = 0; i < 8; ++i) {
      const std::uint16_t group = groups.at(pattern >> (2 * i) & 3U);
      octets.at(2 * i) = static_cast<std::uint8_t>(group >> 8U);
      octets.at(2 * i + 1) = static_cast<std::uint8_t>(group & 0xffU);
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    REQUIRE(IpAddress::v6(octets).text() == ::inet_ntop(AF_INET6, octets.data(), text.data(), text.size()));
    const auto v4 = std::span(octets).first<4>();
    REQUIRE(IpAddress::v4(v4).text() == ::inet_ntop(AF_INET, v4.data(), text.data(), text.size()));
  }
  const std::array<std::uint8_t, 16> longest{0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8,
                                             0xf7, 0xf6, 0xf5, 0xf4, 0xf3, 0xf2, 0xf1, 0xf0};
  CHECK(IpAddress::v6(longest).text() == "fffe:fdfc:fbfa:f9f8:f7f6:f5f4:f3f2:f1f0");
  CHECK(IpAddress::v4(std::span(longest).first<4>()).text() == "255.254.253.252");
}

TEST_CASE("what is no address is refused with its text") {
  const auto* text = GENERATE("", "10.0.0", "10.0.0.256", "10.0.0.1 ", " 10.0.0.1", "10.0.0.1/8", "fe80::1%eth0",
                              "g::", "1:2:3:4:5:6:7:8:9", "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb");
  const auto result = IpAddress::parse(text);
  REQUIRE_FALSE(result);
  CHECK(result.error().message.find(text) != std::string::npos);
}

TEST_CASE("classes of addresses") {
  CHECK(IpAddress::parse("169.254.1.1")->is_link_local());
  CHECK(IpAddress::parse("febf::1")->is_link_local());
  CHECK_FALSE(IpAddress::parse("fec0::1")->is_link_local());
  CHECK(IpAddress::parse("239.1.1.1")->is_multicast());
  CHECK(IpAddress::parse("ff02::1")->is_multicast());
  CHECK_FALSE(IpAddress::parse("240.0.0.1")->is_multicast());
}

TEST_CASE("an address grows over octet borders and stops at the end of its family") {
  CHECK(IpAddress::parse("10.0.0.255")->plus(1)->text() == "10.0.1.0");
  CHECK(IpAddress::parse("fd00::ffff:ffff:ffff:ffff")->plus(1)->text() == "fd00:0:0:1::");
  CHECK_FALSE(IpAddress::parse("255.255.255.255")->plus(1));
  CHECK(IpAddress::parse("0.0.0.0")->plus(0xffffffff)->text() == "255.255.255.255");
  CHECK_FALSE(IpAddress::parse("0.0.0.0")->plus(0x100000000));
}

TEST_CASE("prefixes keep host bits and know their borders") {
  const auto pod = Prefix::parse("10.2.3.4/22");
  REQUIRE(pod);
  CHECK(pod->text() == "10.2.3.4/22");
  CHECK(pod->network().text() == "10.2.0.0");
  CHECK(pod->last().text() == "10.2.3.255");
  CHECK(pod->has_host_bits());
  CHECK(pod->contains(*IpAddress::parse("10.2.2.1")));
  CHECK_FALSE(pod->contains(*IpAddress::parse("10.2.4.0")));
  CHECK_FALSE(pod->contains(*IpAddress::parse("::")));
  CHECK(Prefix::parse("0.0.0.0/0")->contains(*IpAddress::parse("255.255.255.255")));
  CHECK(Prefix::parse("fd00::/9")->last().text() == "fd7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
  CHECK_FALSE(Prefix::parse("10.0.0.0/31")->has_broadcast());
  CHECK_FALSE(Prefix::parse("fd00::/64")->has_broadcast());
}

TEST_CASE("bad prefixes are refused") {
  const auto* text = GENERATE("10.0.0.1", "10.0.0.1/", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/8x", "fd00::/129", "/8",
                              "10.0.0.1/ 8", "10.0.0.1/99999999999");
  CHECK_FALSE(Prefix::parse(text));
}

TEST_CASE("MAC addresses") {
  CHECK(MacAddress::parse("02:00:5E:10:00:02")->text() == "02:00:5e:10:00:02");
  CHECK(MacAddress::parse("02-00-5e-10-00-02")->text() == "02:00:5e:10:00:02");
  CHECK(MacAddress::parse("01:00:5e:00:00:01")->is_multicast());
  const auto* text = GENERATE("", "02:00:zz", "02:00:5e:10:00", "02:00:5e:10:00:02:", "02:00:5e:10:00:0g",
                              "2:0:5e:10:0:2", "+2:00:5e:10:00:02", "02:00:5e:10:00 02");
  CHECK_FALSE(MacAddress::parse(text));
}
