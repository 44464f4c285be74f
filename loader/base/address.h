// SPDX-License-Identifier: Apache-2.0
// IP addresses, prefixes, MACs and names of interfaces as values. Octets are in the order of the wire; no host-order
// integers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "loader/base/result.h"

namespace poduplink {

enum class Family : std::uint8_t { v4 = 4, v6 = 6 };

class IpAddress {
 public:
  // 0.0.0.0
  constexpr IpAddress() = default;

  static IpAddress v4(std::span<const std::uint8_t, 4> octets);
  static IpAddress v6(std::span<const std::uint8_t, 16> octets);

  // 4 or 16 octets, as netlink attributes carry them. Errors: another length.
  static Result<IpAddress> from_octets(std::span<const std::uint8_t> octets);

  // Dotted quad or RFC 4291 text, no zone, no blanks. Errors: the text.
  static Result<IpAddress> parse(std::string_view text);

  [[nodiscard]] Family family() const { return family_; }
  [[nodiscard]] bool is_v4() const { return family_ == Family::v4; }
  [[nodiscard]] bool is_v6() const { return family_ == Family::v6; }
  [[nodiscard]] int address_family() const;  // AF_INET or AF_INET6
  [[nodiscard]] unsigned bits() const { return is_v4() ? 32 : 128; }

  // 4 or 16 octets.
  [[nodiscard]] std::span<const std::uint8_t> octets() const { return {octets_.data(), is_v4() ? 4U : 16U}; }

  // RFC 5952 for IPv6.
  [[nodiscard]] std::string text() const;

  [[nodiscard]] bool is_unspecified() const;
  [[nodiscard]] bool is_loopback() const;    // 127.0.0.0/8, ::1
  [[nodiscard]] bool is_link_local() const;  // 169.254.0.0/16, fe80::/10
  [[nodiscard]] bool is_multicast() const;   // 224.0.0.0/4, ff00::/8
  [[nodiscard]] bool is_v4_mapped() const;   // ::ffff:0:0/96

  // The address `offset` after this one; nothing where it would leave the family's range.
  [[nodiscard]] std::optional<IpAddress> plus(std::uint64_t offset) const;

  friend bool operator==(const IpAddress&, const IpAddress&) = default;
  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;

 private:
  Family family_ = Family::v4;
  std::array<std::uint8_t, 16> octets_{};  // unused octets are zero, so that == is right
};

// An address with a prefix length. The address keeps its host bits: "10.2.0.5/16" is a pod's address with
// its subnet; network() is the subnet itself.
class Prefix {
 public:
  constexpr Prefix() = default;
  // length <= address.bits(), else it is a bug of the caller (asserted).
  Prefix(IpAddress address, unsigned length);

  // "10.2.0.5/16". Errors: no prefix length, one out of range, or a bad address, with the text.
  static Result<Prefix> parse(std::string_view text);

  // The same, and "10.2.0.5" is taken as its /32 or /128.
  static Result<Prefix> parse_or_host(std::string_view text);

  [[nodiscard]] const IpAddress& address() const { return address_; }
  [[nodiscard]] unsigned length() const { return length_; }
  [[nodiscard]] Family family() const { return address_.family(); }

  [[nodiscard]] bool contains(const IpAddress& other) const;
  [[nodiscard]] IpAddress network() const;  // host bits zero
  [[nodiscard]] IpAddress last() const;     // host bits one
  [[nodiscard]] Prefix subnet() const { return {network(), length_}; }
  [[nodiscard]] bool has_host_bits() const { return !(network() == address_); }

  // IPv4 and shorter than /31: its last address is the broadcast address, its first the network's.
  [[nodiscard]] bool has_broadcast() const { return address_.is_v4() && length_ < 31; }

  [[nodiscard]] std::string text() const;

  friend bool operator==(const Prefix&, const Prefix&) = default;
  friend auto operator<=>(const Prefix&, const Prefix&) = default;

 private:
  IpAddress address_;
  unsigned length_ = 0;
};

class MacAddress {
 public:
  constexpr MacAddress() = default;
  explicit constexpr MacAddress(std::array<std::uint8_t, 6> octets) : octets_(octets) {}

  // Six octets. Errors: another length (links that are not Ethernet have others).
  static Result<MacAddress> from_octets(std::span<const std::uint8_t> octets);

  // "02:00:5e:10:00:02", either case, also with '-'. Errors: the text.
  static Result<MacAddress> parse(std::string_view text);

  [[nodiscard]] const std::array<std::uint8_t, 6>& octets() const { return octets_; }
  [[nodiscard]] bool is_zero() const { return octets_ == std::array<std::uint8_t, 6>{}; }
  [[nodiscard]] bool is_multicast() const { return (octets_[0] & 1U) != 0; }

  // Lower case, with colons.
  [[nodiscard]] std::string text() const;

  friend bool operator==(const MacAddress&, const MacAddress&) = default;
  friend auto operator<=>(const MacAddress&, const MacAddress&) = default;

 private:
  std::array<std::uint8_t, 6> octets_{};
};

// A name that the kernel takes for an interface: 1 to 15 octets, no blank, '/' or ':', neither "." nor "..".
bool is_interface_name(std::string_view name);

}  // namespace poduplink
