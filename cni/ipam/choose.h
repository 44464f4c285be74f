// SPDX-License-Identifier: Apache-2.0
// Which pool, and which address of each of its families. No files, no kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cni/ipam/ipam_config.h"
#include "cni/ipam/reservation.h"

namespace poduplink::ipam {

struct Pick {
  Prefix address;          // with the subnet's length
  std::string run;         // which run of addresses it is of: the key of the hint
  bool requested = false;  // a requested address does not move the hint
};

struct Choice {
  const Pool* pool = nullptr;
  std::vector<Pick> picks;  // IPv4 first
};

// The address handed out last of a run, where known.
using Hints = std::function<std::optional<IpAddress>(const std::string& run)>;

// How many addresses of that family the pool can still hand out; 2^64 - 1 stands for all that is more.
// `reserved`, here and below: the configured gateways of all pools (gateways_of), sorted; `taken`: sorted by address.
std::uint64_t count_free(const Pool& pool, Family family, std::span<const Reservation> taken,
                         const std::vector<IpAddress>& reserved);

// All gateways of the pools, sorted and each once. None is ever handed out, in whichever pool it lies.
std::vector<IpAddress> gateways_of(const std::vector<Pool>& pools);

// One address of each family that the pool has. Without a request the pool that has most left of its scarcest
// family is taken, the first of several; each address is the next free one behind the one handed out last, so that
// one just released is not used again soon. Requested addresses, none of which is taken, decide the pool.
// Errors: no_address; address_refused, naming the address.
CniResult<Choice> choose(const std::vector<Pool>& pools, std::span<const Reservation> taken,
                         const std::vector<IpAddress>& requested, const Hints& hints);

}  // namespace poduplink::ipam
