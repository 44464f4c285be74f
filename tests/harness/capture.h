// SPDX-License-Identifier: Apache-2.0
// Frames seen on an interface, kept in memory, from the moment start() returns.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "loader/base/result.h"
#include "tests/harness/decode.h"
#include "tests/harness/namespace.h"

namespace poduplink::harness {

struct Frame {
  std::vector<std::uint8_t> octets;
  Decoded packet;
  bool outgoing = false;  // sent by this interface, not received on it
  // The sender left the checksum to hardware that a veth does not have: payload_checksum_ok says nothing.
  bool checksum_pending = false;
  std::chrono::steady_clock::time_point seen;
};

using FrameTest = std::function<bool(const Frame&)>;

class Capture {
 public:
  // Errors: ENODEV naming the interface.
  static Result<Capture> start(const Namespace& space, const std::string& interface);
  Capture(Capture&& other) noexcept;
  Capture& operator=(Capture&& other) noexcept;
  ~Capture();

  // A copy of what has come so far.
  [[nodiscard]] std::vector<Frame> frames() const;
  [[nodiscard]] std::vector<Frame> frames(const FrameTest& test) const;
  [[nodiscard]] std::size_t count(const FrameTest& test) const;
  // Waits until `number` frames have passed the test; false where they had not within `timeout`.
  [[nodiscard]] bool wait_for(const FrameTest& test, std::size_t number = 1,
                              std::chrono::milliseconds timeout = std::chrono::seconds(3)) const;
  void clear();
  // Frames that the kernel had no room for. 0, or the counts mean nothing.
  [[nodiscard]] std::size_t lost() const;
  // All frames, a line each, for messages.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  explicit Capture(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Tests to put together. received_from() leaves out neighbour discovery, which is each link's own business.
FrameTest received_from(const IpAddress& source);
FrameTest sent_to(const IpAddress& destination);
FrameTest both(FrameTest one, FrameTest other);

// Puts one frame on the wire by AF_PACKET, as from `interface` (what the node receives where it is a peer).
Result<> send_frame(const Namespace& space, const std::string& interface, std::span<const std::uint8_t> frame);

// Switches transmit checksums and segmentation of an interface off (ethtool -K … tx off tso off gso off), so
// that every packet bears a real checksum, which can be verified at the far side.
Result<> disable_offloads(const Namespace& space, const std::string& interface);

}  // namespace poduplink::harness
