// SPDX-License-Identifier: Apache-2.0
// A packet that nobody sends: what `explain` hands to the loaded programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/result.h"

namespace poduplink::ctl {

enum class Piece { whole, first_fragment, later_fragment };

// What an ICMP error quotes.
struct Quote {
  IpAddress source;
  IpAddress destination;
  std::uint8_t protocol = 17;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

struct Probe {
  MacAddress source_mac;
  MacAddress destination_mac;
  std::uint16_t vlan = 0;  // ID of a tag; 0: untagged
  IpAddress source;
  IpAddress destination;
  std::size_t size = 100;  // octets of layer 3
  std::uint8_t hop_limit = 64;
  bool dont_fragment = true;  // IPv4
  Piece piece = Piece::whole;
  bool options = false;           // IPv4: an option; IPv6: a routing header
  unsigned extensions = 0;        // IPv6: destination options headers
  std::uint8_t protocol = 17;     // IPPROTO_*; 1 and 58 become an echo request
  std::uint16_t source_port = 0;  // of an echo request: its identifier
  std::uint16_t destination_port = 0;
  std::optional<Quote> quote;  // time exceeded about such a packet, in place of all that follows the IP header
  // An ARP request or a neighbour solicitation of `source` for `destination`, in place of all else.
  bool asks_for_neighbour = false;
};

// The kernel takes no more than a page for a test run.
inline constexpr std::size_t largest_probe = 3500;

// The frame; checksums of layer 4 are left zero, which no program looks at. Errors: a size that is less than the
// headers, or too large, with both limits.
Result<std::vector<std::uint8_t>> probe_frame(const Probe& probe);

// Where a question for this address is sent to at layer 2: the broadcast MAC, or that of IPv6's solicited-node group.
MacAddress neighbour_group_mac(const IpAddress& address);

}  // namespace poduplink::ctl
