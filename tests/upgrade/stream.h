// SPDX-License-Identifier: Apache-2.0
// A steady stream of UDP packets out of a pod, counted at every gateway by nftables, so that not one can be missed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/harness/lab.h"

namespace poduplink::harness {

class Stream {
 public:
  // Starts to send: `rate` packets of 64 octets a second, from the pod's IPv4 and IPv6 address in turn.
  static Result<std::unique_ptr<Stream>> start(Lab& lab, const Pod& pod, unsigned rate);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  // Stops sending. Returns the number of packets that were sent.
  std::uint64_t stop();
  // Packets of this pod that have come to a gateway so far.
  [[nodiscard]] Result<std::uint64_t> arrived(unsigned uplink) const;

 private:
  Stream(Lab& lab, Pod pod, unsigned rate) : lab_(lab), pod_(std::move(pod)), rate_(rate) {}
  void send(int v4, int v6);

  Lab& lab_;
  Pod pod_;
  unsigned rate_;
  std::atomic<bool> stop_ = false;
  std::uint64_t sent_ = 0;
  std::string error_;
  std::thread thread_;
};

// Stops it. All that was sent came to the pod's own gateway, nothing to another.
void all_arrived(Stream& stream, const Lab& lab, const Pod& pod);

}  // namespace poduplink::harness
