// SPDX-License-Identifier: Apache-2.0
// Frames put on the devices of the world by AF_PACKET, with a program attached there: what a test run cannot make.
#pragma once

#include <bpf/libbpf.h>

#include <span>

#include "loader/base/fd.h"
#include "tests/bpf/world.h"

namespace poduplink::tests {

inline constexpr unsigned peer_offset = 100;  // a device's other end has the index of the device plus this

// Sends on one interface. A frame that a program drops on its way out counts as sent. Throws std::runtime_error.
class Sender {
 public:
  explicit Sender(unsigned ifindex);
  void send(const Octets& frame) const;
  // skb->mark of what is sent from now on.
  void set_mark(unsigned mark) const;

 private:
  Fd fd_;
};

// The same by a transmit ring: the kernel copies the Ethernet header only, the rest of the packet stays in pages.
class PageSender {
 public:
  explicit PageSender(unsigned ifindex);
  PageSender(const PageSender&) = delete;
  PageSender& operator=(const PageSender&) = delete;
  ~PageSender();
  // Returns when the kernel has done with the frame.
  void send(const Octets& frame);

 private:
  Fd fd_;
  std::uint8_t* area_ = nullptr;
  std::size_t next_ = 0;  // the kernel goes round the ring
};

// One program at one hook of a device, by clsact as the plugin attaches it.
class Attached {
 public:
  Attached(const Datapath& datapath, Program program, unsigned device);
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  ~Attached();

  // Where frames are to be sent for the program to see them: the device itself for what leaves by it, else its other
  // end.
  [[nodiscard]] unsigned sending_end() const;

  // From now on a program before ours puts a VLAN tag beside each frame; its TCI is skb->mark.
  void tag_frames();

 private:
  Program program_;
  bpf_tc_hook hook_{};
  Fd tagger_;
};

}  // namespace poduplink::tests
