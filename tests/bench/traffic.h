// SPDX-License-Identifier: Apache-2.0
// Traffic for measurements, as applications make it: by sockets in the namespaces of its two ends. Errors are thrown.
//
// Both ends run on one core, and time is what this process spent there (but for round trips, which are waited for). A
// veth hands a packet on within the sender's own system call, softirqs included, so this is the work of the whole path
// and nothing else: no wake-up of an idle core, which costs more than any path and as much in each of them, and
// nothing of what other processes do meanwhile. What one core gets done in a second is what the path is worth.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "loader/base/address.h"
#include "loader/base/fd.h"
#include "tests/harness/namespace.h"

namespace poduplink::bench {

// Who talks to whom. `source` is an address in `from`, `destination` one in `to`.
struct Path {
  const harness::Namespace* from = nullptr;
  IpAddress source;
  const harness::Namespace* to = nullptr;
  IpAddress destination;

  [[nodiscard]] Path back() const { return {to, destination, from, source}; }
};

struct Sent {
  std::uint64_t packets = 0;
  double seconds = 0;  // of the core
};

// UDP packets of one flow to the discard port (tests/bench/drain.h), by sendmmsg on a connected socket: the cheapest
// way in which an application sends. Frames have 64 octets with their FCS; those of IPv6, whose headers need more, 66.
class Flood {
 public:
  explicit Flood(const Path& path);
  // As many as can be sent.
  [[nodiscard]] Sent send_for(std::chrono::milliseconds duration) const;
  void send(unsigned packets) const;

 private:
  Fd socket_;
  std::size_t payload_;
};

// Payload through one TCP connection, Mbit/s.
double stream(const Path& path, std::chrono::milliseconds duration);

struct RoundTrips {
  double median = 0;  // µs
  double p99 = 0;     // 99th percentile, µs
};
// One octet there and one back through one TCP connection, one after the other, as the client's clock has it.
RoundTrips round_trips(const Path& path, std::chrono::milliseconds duration);

// TCP connections a second, one after the other: made, one octet there and one back, reset.
double connections(const Path& path, std::chrono::milliseconds duration);

}  // namespace poduplink::bench
