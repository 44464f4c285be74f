// SPDX-License-Identifier: Apache-2.0
#include "cni/ipam/choose.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

namespace poduplink::ipam {
namespace {

using Addresses = std::vector<IpAddress>;
using Taken = std::span<const Reservation>;

constexpr std::array<Family, 2> families = {Family::v4, Family::v6};

const char* family_name(Family family) { return family == Family::v4 ? "IPv4" : "IPv6"; }

bool holds(const Addresses& sorted, const IpAddress& address) { return std::ranges::binary_search(sorted, address); }

bool holds(Taken taken, const IpAddress& address) {
  return std::ranges::binary_search(taken, address, {}, &Reservation::address);
}

// What lies in the range of a list that is sorted by address.
template <typename List, typename Projection = std::identity>
auto within(const List& sorted, const AddressRange& range, Projection address = {}) {
  const auto begin = std::ranges::lower_bound(sorted, range.first, {}, address);
  return std::span(begin, std::ranges::upper_bound(sorted, range.last, {}, address));
}

std::uint64_t count_free(const AddressRange& range, Taken taken, const Addresses& reserved) {
  std::uint64_t unusable = 0;
  for (const IpAddress& address : within(reserved, range)) {
    if (why_reserved(range, address) == nullptr && !holds(taken, address)) ++unusable;
  }
  // At most the first and the last address of the subnet are reserved, and those are ends of the range if in it.
  for (const IpAddress& end : {range.first, range.last}) {
    if (why_reserved(range, end) != nullptr && !holds(taken, end)) ++unusable;
    if (range.first == range.last) break;
  }
  unusable += within(taken, range, &Reservation::address).size();
  const std::uint64_t all = count_addresses(range.first, range.last);
  return all > unusable ? all - unusable : 0;
}

bool is_free(const AddressRange& range, const IpAddress& address, Taken taken, const Addresses& reserved) {
  return !holds(taken, address) && !holds(reserved, address) && why_reserved(range, address) == nullptr;
}

// The first free address from `from` to `to`, both included.
std::optional<IpAddress> first_free(const AddressRange& range, std::optional<IpAddress> from, const IpAddress& to,
                                    Taken taken, const Addresses& reserved) {
  for (; from && *from <= to; from = from->plus(1)) {
    if (is_free(range, *from, taken, reserved)) return from;
  }
  return std::nullopt;
}

// What pool and family are called in hints: a run keeps its place while its first range begins where it did.
std::string run_of(const Pool& pool, Family family) {
  return std::ranges::find(pool.ranges, family, &AddressRange::family)->first.text();
}

// The next free address of the family behind the hint, round the ranges once.
std::optional<Pick> next_free(const Pool& pool, Family family, Taken taken, const Addresses& reserved,
                              const Hints& hints) {
  std::vector<const AddressRange*> ranges;
  for (const AddressRange& range : pool.ranges) {
    if (range.family() == family) ranges.push_back(&range);
  }
  const std::string run = run_of(pool, family);
  const auto pick = [&run](const AddressRange& range, const IpAddress& address) {
    return Pick{Prefix(address, range.subnet.length()), run, false};
  };
  const auto last = hints(run);
  const auto start = std::ranges::find_if(ranges, [&](const auto* range) { return last && range->contains(*last); });
  const std::size_t begin = start != ranges.end() ? static_cast<std::size_t>(start - ranges.begin()) : 0;
  if (start != ranges.end()) {
    if (const auto found = first_free(**start, last->plus(1), (*start)->last, taken, reserved)) {
      return pick(**start, *found);
    }
  }
  // The range of the hint comes last again, for what lies before the hint.
  const std::size_t first = start != ranges.end() ? 1 : 0;
  for (std::size_t i = first; i < ranges.size() + first; ++i) {
    const AddressRange& range = *ranges[(begin + i) % ranges.size()];
    if (const auto found = first_free(range, range.first, range.last, taken, reserved)) return pick(range, *found);
  }
  return std::nullopt;
}

// What is left of the pool's scarcest family.
std::uint64_t pairs_left(const Pool& pool, Taken taken, const Addresses& reserved) {
  std::uint64_t left = std::numeric_limits<std::uint64_t>::max();
  for (const Family family : families) {
    if (pool.has(family)) left = std::min(left, count_free(pool, family, taken, reserved));
  }
  return left;
}

std::string exhausted_text(const std::vector<Pool>& pools, Taken taken, const Addresses& reserved) {
  std::string text;
  for (const Pool& pool : pools) {
    for (const Family family : families) {
      if (!pool.has(family) || count_free(pool, family, taken, reserved) > 0) continue;
      if (!text.empty()) text += ", ";
      text += formatted("{} of uplink {}", family_name(family), pool.uplink);
    }
  }
  return text;
}

CniResult<const Pool*> pool_of_requests(const std::vector<Pool>& pools, const Addresses& requested,
                                        const Addresses& reserved) {
  const Pool* chosen = nullptr;
  for (const IpAddress& address : requested) {
    const auto found = std::ranges::find_if(pools, [&](const Pool& pool) { return pool.range_of(address) != nullptr; });
    if (found == pools.end()) {
      return cni_fail(cni_code::address_refused, "requested address {} is in no range of any pool", address.text());
    }
    const char* why = why_reserved(*found->range_of(address), address);
    if (why == nullptr && holds(reserved, address)) why = "is a gateway";
    if (why != nullptr) {
      return cni_fail(cni_code::address_refused, "requested address {} {}", address.text(), why);
    }
    if (chosen != nullptr && chosen != &*found) {
      return cni_fail(cni_code::address_refused, "requested addresses {} and {} belong to two uplinks, {} and {}",
                      requested.front().text(), address.text(), chosen->uplink, found->uplink);
    }
    chosen = &*found;
  }
  return chosen;
}

}  // namespace

std::uint64_t count_free(const Pool& pool, Family family, Taken taken, const Addresses& reserved) {
  std::uint64_t sum = 0;
  for (const AddressRange& range : pool.ranges) {
    if (range.family() != family) continue;
    const std::uint64_t free = count_free(range, taken, reserved);
    sum = sum + free < sum ? std::numeric_limits<std::uint64_t>::max() : sum + free;
  }
  return sum;
}

Addresses gateways_of(const std::vector<Pool>& pools) {
  Addresses gateways;
  for (const Pool& pool : pools) {
    for (const Family family : families) {
      if (pool.gateway(family)) gateways.push_back(*pool.gateway(family));
    }
  }
  std::ranges::sort(gateways);
  const auto doubles = std::ranges::unique(gateways);
  gateways.erase(doubles.begin(), doubles.end());
  return gateways;
}

CniResult<Choice> choose(const std::vector<Pool>& pools, Taken taken, const Addresses& requested, const Hints& hints) {
  const Addresses reserved = gateways_of(pools);
  Choice choice;
  PDL_CNI_TRY_ASSIGN(choice.pool, pool_of_requests(pools, requested, reserved));
  if (choice.pool == nullptr) {
    choice.pool =
        &*std::ranges::max_element(pools, {}, [&](const Pool& pool) { return pairs_left(pool, taken, reserved); });
  }
  for (const Family family : families) {
    if (!choice.pool->has(family)) continue;
    const auto request = std::ranges::find(requested, family, &IpAddress::family);
    if (request != requested.end()) {
      const Prefix address(*request, choice.pool->range_of(*request)->subnet.length());
      choice.picks.push_back({address, run_of(*choice.pool, family), true});
      continue;
    }
    auto pick = next_free(*choice.pool, family, taken, reserved, hints);
    if (!pick) {
      return cni_fail(cni_code::no_address, "no address is free: exhausted is {}",
                      exhausted_text(pools, taken, reserved));
    }
    choice.picks.push_back(std::move(*pick));
  }
  return choice;
}

}  // namespace poduplink::ipam
