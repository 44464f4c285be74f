// SPDX-License-Identifier: Apache-2.0
#include "loader/base/address.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstring>

namespace poduplink {
namespace {

// Longest text of an address, INET6_ADDRSTRLEN; longer input cannot be one.
constexpr std::size_t max_text = INET6_ADDRSTRLEN;

// Octets of `address` with all bits from `length` on set to `value`.
std::array<std::uint8_t, 16> with_host_bits(const IpAddress& address, unsigned length, bool value) {
  std::array<std::uint8_t, 16> octets{};
  std::ranges::copy(address.octets(), octets.begin());
  for (unsigned bit = length; bit < address.bits(); ++bit) {
    const auto mask = static_cast<std::uint8_t>(0x80U >> (bit % 8));
    auto& octet = octets[bit / 8];
    octet = static_cast<std::uint8_t>(value ? (octet | mask) : (octet & ~mask));
  }
  return octets;
}

IpAddress same_family(const IpAddress& like, const std::array<std::uint8_t, 16>& octets) {
  const std::span<const std::uint8_t, 16> all(octets);
  return like.is_v4() ? IpAddress::v4(all.first<4>()) : IpAddress::v6(all);
}

std::optional<unsigned> parse_number(std::string_view text, int base, unsigned max) {
  unsigned value = 0;
  const auto* const end = text.end();
  const auto [rest, error] = std::from_chars(text.begin(), end, value, base);
  if (error != std::errc{} || rest != end || value > max) return std::nullopt;
  return value;
}

char* write_number(unsigned value, int base, char* to) { return std::to_chars(to, to + 5, value, base).ptr; }

char* write_v4(const std::uint8_t* octets, char* to) {
  for (unsigned i = 0; i < 4; ++i) {
    if (i > 0) *to++ = '.';
    to = write_number(octets[i], 10, to);
  }
  return to;
}

// RFC 5952, and as inet_ntop has it: the last four octets dotted behind ::ffff: and, of an address that has nothing
// else, behind ::.
char* write_v6(const std::array<std::uint8_t, 16>& octets, char* to) {
  constexpr std::size_t groups = 8;
  const auto group = [&](std::size_t i) { return static_cast<unsigned>(octets[2 * i] << 8U | octets[2 * i + 1]); };
  // The longest run of zeros, the first of several: left out where it is longer than one.
  std::size_t start = groups;
  std::size_t length = 1;
  for (std::size_t i = 0; i < groups; ++i) {
    std::size_t run = 0;
    while (i + run < groups && group(i + run) == 0) ++run;
    if (run > length) {
      start = i;
      length = run;
    }
    i += run;
  }
  const bool dotted = start == 0 && (length == 6 || (length == 5 && group(5) == 0xffff));
  for (std::size_t i = 0; i < groups; ++i) {
    if (i == start) {
      *to++ = ':';
      i += length - 1;
      if (i + 1 == groups) *to++ = ':';
      continue;
    }
    if (i > 0) *to++ = ':';
    if (dotted && i == 6) return write_v4(&octets[12], to);
    to = write_number(group(i), 16, to);
  }
  return to;
}

}  // namespace

IpAddress IpAddress::v4(std::span<const std::uint8_t, 4> octets) {
  IpAddress address;
  std::ranges::copy(octets, address.octets_.begin());
  return address;
}

IpAddress IpAddress::v6(std::span<const std::uint8_t, 16> octets) {
  IpAddress address;
  address.family_ = Family::v6;
  std::ranges::copy(octets, address.octets_.begin());
  return address;
}

Result<IpAddress> IpAddress::from_octets(std::span<const std::uint8_t> octets) {
  if (octets.size() == 4) return v4(octets.first<4>());
  if (octets.size() == 16) return v6(octets.first<16>());
  return fail("an address of {} octets", octets.size());
}

Result<IpAddress> IpAddress::parse(std::string_view text) {
  std::array<char, max_text> buffer{};
  if (text.size() < buffer.size() && text.find('\0') == std::string_view::npos) {
    std::ranges::copy(text, buffer.begin());
    IpAddress address;
    if (::inet_pton(AF_INET, buffer.data(), address.octets_.data()) == 1) return address;
    address.octets_.fill(0);
    address.family_ = Family::v6;
    if (::inet_pton(AF_INET6, buffer.data(), address.octets_.data()) == 1) return address;
  }
  return fail("'{}' is no IP address", text);
}

int IpAddress::address_family() const { return is_v4() ? AF_INET : AF_INET6; }

// Without inet_ntop, which prints each number by a format: lists have thousands of addresses.
std::string IpAddress::text() const {
  std::array<char, max_text> buffer{};
  char* const end = is_v4() ? write_v4(octets_.data(), buffer.begin()) : write_v6(octets_, buffer.begin());
  return {buffer.data(), end};
}

bool IpAddress::is_unspecified() const {
  return std::ranges::all_of(octets_, [](std::uint8_t octet) { return octet == 0; });
}

bool IpAddress::is_loopback() const {
  if (is_v4()) return octets_[0] == 127;
  return octets_[15] == 1 && std::all_of(octets_.begin(), octets_.begin() + 15, [](auto octet) { return octet == 0; });
}

bool IpAddress::is_link_local() const {
  if (is_v4()) return octets_[0] == 169 && octets_[1] == 254;
  return octets_[0] == 0xfe && (octets_[1] & 0xc0U) == 0x80;
}

bool IpAddress::is_multicast() const { return is_v4() ? (octets_[0] & 0xf0U) == 0xe0 : octets_[0] == 0xff; }

bool IpAddress::is_v4_mapped() const {
  return is_v6() && octets_[10] == 0xff && octets_[11] == 0xff &&
         std::all_of(octets_.begin(), octets_.begin() + 10, [](auto octet) { return octet == 0; });
}

std::optional<IpAddress> IpAddress::plus(std::uint64_t offset) const {
  IpAddress sum = *this;
  std::uint64_t carry = offset;
  for (std::size_t i = octets().size(); i-- > 0 && carry != 0;) {
    carry += sum.octets_[i];
    sum.octets_[i] = static_cast<std::uint8_t>(carry & 0xffU);
    carry >>= 8U;
  }
  if (carry != 0) return std::nullopt;
  return sum;
}

Prefix::Prefix(IpAddress address, unsigned length) : address_(address), length_(length) {
  assert(length <= address.bits());
}

Result<Prefix> Prefix::parse(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return fail("'{}' has no prefix length", text);
  auto address = IpAddress::parse(text.substr(0, slash));
  if (!address) return fail("'{}' is no IP prefix", text);
  const auto length = parse_number(text.substr(slash + 1), 10, address->bits());
  if (!length) return fail("'{}' has a bad prefix length", text);
  return Prefix(*address, *length);
}

Result<Prefix> Prefix::parse_or_host(std::string_view text) {
  if (text.find('/') != std::string_view::npos) return parse(text);
  PDL_TRY_ASSIGN(const IpAddress address, IpAddress::parse(text));
  return Prefix(address, address.bits());
}

bool Prefix::contains(const IpAddress& other) const {
  return other.family() == address_.family() && Prefix(other, length_).network() == network();
}

IpAddress Prefix::network() const { return same_family(address_, with_host_bits(address_, length_, false)); }

IpAddress Prefix::last() const { return same_family(address_, with_host_bits(address_, length_, true)); }

std::string Prefix::text() const { return formatted("{}/{}", address_.text(), length_); }

Result<MacAddress> MacAddress::from_octets(std::span<const std::uint8_t> octets) {
  if (octets.size() != 6) return fail("a link address of {} octets is no MAC", octets.size());
  std::array<std::uint8_t, 6> mac{};
  std::ranges::copy(octets, mac.begin());
  return MacAddress(mac);
}

Result<MacAddress> MacAddress::parse(std::string_view text) {
  constexpr std::size_t text_size = 17;  // six times two digits, five separators
  std::array<std::uint8_t, 6> octets{};
  bool good = text.size() == text_size;
  for (std::size_t i = 0; good && i < octets.size(); ++i) {
    const std::string_view digits = text.substr(i * 3, 2);
    const auto octet = parse_number(digits, 16, 0xff);
    const bool separated = i + 1 == octets.size() || text[i * 3 + 2] == ':' || text[i * 3 + 2] == '-';
    good = octet.has_value() && separated;
    if (good) octets[i] = static_cast<std::uint8_t>(*octet);
  }
  if (!good) return fail("'{}' is no MAC address", text);
  return MacAddress(octets);
}

std::string MacAddress::text() const {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t octet : octets_) {
    if (!text.empty()) text += ':';
    text += digits[octet >> 4U];
    text += digits[octet & 0xfU];
  }
  return text;
}

bool is_interface_name(std::string_view name) {
  constexpr std::size_t most = 15;  // IFNAMSIZ without the final zero
  if (name.empty() || name.size() > most || name == "." || name == "..") return false;
  return std::ranges::none_of(
      name, [](char c) { return c == '/' || c == ':' || c == '\0' || c == ' ' || (c >= '\t' && c <= '\r'); });
}

}  // namespace poduplink
