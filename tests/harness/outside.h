// SPDX-License-Identifier: Apache-2.0
// The world outside of the node: every gateway answers for it and is watched, so that it can be said by which
// uplink each packet left and in what state.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/harness/capture.h"
#include "tests/harness/lab.h"
#include "tests/harness/traffic.h"

namespace poduplink::harness {

inline constexpr std::uint16_t echo_port = 7;

// 64 where the sender leaves it alone, less one: the node forwards as a router does.
inline constexpr unsigned forwarded_ttl = 63;

class Outside {
 public:
  // Echo servers (UDP, TCP) at the outside addresses and a capture on eth0 of every gateway.
  static Result<Outside> watch(const Lab& lab);

  static IpAddress address(Family family);
  static Endpoint echo(Family family) { return {address(family), echo_port}; }

  [[nodiscard]] const Capture& at(unsigned uplink) const { return captures_.at(uplink); }
  [[nodiscard]] const EchoServer& server(unsigned uplink) const { return servers_.at(uplink); }
  // IP packets from `source` that came to each gateway.
  [[nodiscard]] std::map<unsigned, std::vector<Frame>> packets_from(const IpAddress& source) const;
  // The same, by number.
  [[nodiscard]] std::map<unsigned, std::size_t> count_from(const IpAddress& source) const;
  // What is wrong with the way out of `source`, whose home is `uplink`: packets at other gateways, none at its
  // own, TTL, MACs, checksums. Where checksums are looked at, the sender's offloads must be off.
  [[nodiscard]] std::vector<std::string> faults_from(const IpAddress& source, const Uplink& uplink) const;
  void clear();

 private:
  std::map<unsigned, EchoServer> servers_;
  std::map<unsigned, Capture> captures_;
};

// What is wrong with one forwarded packet at the gateway of `uplink`; empty: nothing.
std::vector<std::string> faults_of(const Frame& frame, const Uplink& uplink);

}  // namespace poduplink::harness
