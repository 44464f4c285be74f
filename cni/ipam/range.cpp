// SPDX-License-Identifier: Apache-2.0
#include "cni/ipam/range.h"

#include <limits>

namespace poduplink::ipam {
namespace {

constexpr unsigned default_prefix6 = 64;

Result<IpAddress> parse_end(std::string_view text) {
  PDL_TRY_ASSIGN(const IpAddress address, IpAddress::parse(text));
  if (address.is_unspecified() || address.is_multicast() || address.is_loopback() || address.is_v4_mapped() ||
      address.is_link_local()) {
    return fail("has {}, which no pod can have", address.text());
  }
  return address;
}

Result<AddressRange> with_ends(const IpAddress& first, const IpAddress& last, unsigned length) {
  if (length < 1 || length > first.bits()) return fail("cannot have the prefix length {}", length);
  AddressRange range{first, last, Prefix(first, length).subnet(), {}};
  if (!range.subnet.contains(last)) return fail("does not lie in one subnet of prefix length {}", length);
  return range;
}

Result<AddressRange> parse_cidr(std::string_view text, std::optional<unsigned> prefix4,
                                std::optional<unsigned> prefix6) {
  const auto cidr = Prefix::parse(text);
  if (!cidr) return fail("is no prefix");
  if (cidr->has_host_bits()) return fail("has host bits, its network is {}", cidr->subnet().text());
  PDL_TRY(parse_end(cidr->network().text()));
  PDL_TRY(parse_end(cidr->last().text()));
  const auto configured = cidr->address().is_v4() ? prefix4 : prefix6;
  return with_ends(cidr->network(), cidr->last(), configured.value_or(cidr->length()));
}

Result<AddressRange> parse_ends(std::string_view first_text, std::string_view last_text,
                                std::optional<unsigned> prefix4, std::optional<unsigned> prefix6) {
  PDL_TRY_ASSIGN(const IpAddress first, parse_end(first_text));
  PDL_TRY_ASSIGN(const IpAddress last, parse_end(last_text));
  if (first.family() != last.family()) return fail("mixes IPv4 and IPv6");
  if (last < first) return fail("ends before it begins");
  if (first.is_v6()) return with_ends(first, last, prefix6.value_or(default_prefix6));
  if (!prefix4) return fail("needs key 'prefix': the length of its subnet");
  return with_ends(first, last, *prefix4);
}

}  // namespace

std::uint64_t count_addresses(const IpAddress& first, const IpAddress& last) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  // Long subtraction, octet by octet from the left; `difference` never becomes negative since first <= last.
  std::uint64_t difference = 0;
  for (std::size_t i = 0; i < first.octets().size(); ++i) {
    if (difference > (most >> 9U)) return most;
    difference = (difference << 8U) + last.octets()[i] - first.octets()[i];
  }
  return difference == most ? most : difference + 1;
}

Result<AddressRange> parse_range(std::string_view text, std::optional<unsigned> prefix4,
                                 std::optional<unsigned> prefix6) {
  auto range = [&] {
    if (text.find('/') != std::string_view::npos) return parse_cidr(text, prefix4, prefix6);
    const std::size_t dash = text.find('-');
    if (dash == std::string_view::npos) return parse_ends(text, text, prefix4, prefix6);
    return parse_ends(text.substr(0, dash), text.substr(dash + 1), prefix4, prefix6);
  }();
  if (range) range->text = text;
  return range;
}

const char* why_reserved(const AddressRange& range, const IpAddress& address) {
  const Prefix& subnet = range.subnet;
  if (subnet.has_broadcast()) {
    if (address == subnet.network()) return "is the network address of its subnet";
    if (address == subnet.last()) return "is the broadcast address of its subnet";
  }
  // RFC 4291: all routers of the link listen to it; a /127 has none (RFC 6164).
  if (address.is_v6() && subnet.length() < 127 && address == subnet.network()) {
    return "is the subnet-router anycast address of its subnet";
  }
  return nullptr;
}

}  // namespace poduplink::ipam
