// SPDX-License-Identifier: Apache-2.0
// The far end of the packets that are counted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/harness/namespace.h"

struct pdl_drain;

namespace poduplink::bench {

// UDP to this port is what a drain takes.
inline constexpr std::uint16_t discard_port = 9;

// Counts packets to the discard port as they arrive on a device, and drops them there, at its ingress. So the receiver
// is the same for every variant and costs little beside the path: no socket, no route, no answer. It stays with its
// device. Errors are thrown.
class Drain {
 public:
  Drain(const harness::Namespace& space, const std::string& device);
  Drain(Drain&& other) noexcept;
  Drain& operator=(Drain&& other) noexcept;
  ~Drain();

  [[nodiscard]] std::uint64_t arrived() const;

 private:
  struct Destroy {
    void operator()(pdl_drain* skeleton) const;
  };
  std::unique_ptr<pdl_drain, Destroy> skeleton_;
};

}  // namespace poduplink::bench
