// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "loader/base/address.h"

namespace poduplink::ipam {

struct Reservation {
  IpAddress address;
  std::uint64_t owner = 0;  // attachment_hash

  friend bool operator==(const Reservation&, const Reservation&) = default;
};

}  // namespace poduplink::ipam
