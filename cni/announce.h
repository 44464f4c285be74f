// SPDX-License-Identifier: Apache-2.0
// Tells the neighbours on an uplink's network at which MAC a pod address is found from now on, so that nobody
// keeps what an earlier holder of the address left in their tables.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/fd.h"
#include "loader/base/result.h"

namespace poduplink {

// The frames, complete from the Ethernet header on: for IPv4 an ARP request and an ARP reply about the address
// itself, for IPv6 a neighbour advertisement to all nodes.
std::vector<std::vector<std::uint8_t>> announcement_frames(const IpAddress& address, const MacAddress& mac);

struct Announcement {
  int link = 0;
  IpAddress address;
  MacAddress mac;
};

// Sends by a BPF program of four instructions that is run once a frame: the end of a packet socket waits for an RCU
// grace period, 8 to 16 ms, which no ADD has to spend.
class Announcer {
 public:
  // Loads the program. announce() does it otherwise; this is for when there is time.
  void prepare();
  // Sends all of it. Errors: the first of ENODEV where a link is gone, ENOBUFS where it takes no frame, and those of
  // loading the program; the others are sent all the same.
  Result<> announce(const std::vector<Announcement>& announcements);

 private:
  std::optional<Result<Fd>> sender_;
};

}  // namespace poduplink
