// SPDX-License-Identifier: Apache-2.0
// A run of addresses that a pool hands out, with the subnet they lie in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cni/spec/error.h"
#include "loader/base/address.h"

namespace poduplink::ipam {

struct AddressRange {
  IpAddress first;
  IpAddress last;    // included
  Prefix subnet;     // what pods get as prefix length, and which the gateway lies in; host bits zero
  std::string text;  // as configured, for messages

  [[nodiscard]] Family family() const { return first.family(); }
  [[nodiscard]] bool contains(const IpAddress& address) const { return first <= address && address <= last; }
};

// The number of addresses from `first` to `last`, both included; 2^64 - 1 stands for all that is more.
std::uint64_t count_addresses(const IpAddress& first, const IpAddress& last);

// Reads "10.2.0.100-10.2.0.200", "10.2.0.0/24" or "10.2.0.7". `prefix4` and `prefix6` are the configured
// lengths of the subnet; without one a CIDR is its own subnet, "a-b" of IPv6 lies in a /64, and "a-b" of IPv4 is an
// error. Errors: what is wrong with the text, without the text itself.
Result<AddressRange> parse_range(std::string_view text, std::optional<unsigned> prefix4,
                                 std::optional<unsigned> prefix6);

// Why this address of the range can never be a pod's: the subnet's network or broadcast address. Nullptr: it can.
const char* why_reserved(const AddressRange& range, const IpAddress& address);

}  // namespace poduplink::ipam
