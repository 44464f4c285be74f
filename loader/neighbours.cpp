// SPDX-License-Identifier: Apache-2.0
#include "loader/neighbours.h"

#include <linux/neighbour.h>

#include <algorithm>
#include <cerrno>

#include "loader/base/log.h"

namespace poduplink {
namespace {

bool is_set(const Snapshot& snapshot, const PermanentNeighbour& wanted) {
  const Neighbour* known = snapshot.find_neighbour(wanted.link, wanted.address);
  return known != nullptr && known->mac == wanted.mac && (known->state & NUD_PERMANENT) != 0;
}

bool is_wanted_address(const std::set<PermanentNeighbour>& wanted, const PermanentNeighbour& old) {
  return std::ranges::any_of(
      wanted, [&](const PermanentNeighbour& one) { return one.link == old.link && one.address == old.address; });
}

}  // namespace

std::vector<std::string> keep_permanent_neighbours(Netlink& netlink, const std::set<PermanentNeighbour>& wanted,
                                                   const Snapshot& snapshot, AgentMemory& memory) {
  std::vector<std::string> problems;
  for (const PermanentNeighbour& one : wanted) {
    if (is_set(snapshot, one)) continue;
    const auto set = set_permanent_neighbour(netlink, one.link, one.address, one.mac);
    // A link that is down takes none; the event of its return comes back here.
    if (!set && set.error().code != ENETDOWN && set.error().code != ENODEV)
      problems.push_back(formatted("neighbour {}: {}", one.address.text(), set.error().message));
    if (set) memory.neighbours.insert(one);
  }
  std::erase_if(memory.neighbours, [&](const PermanentNeighbour& old) {
    if (wanted.contains(old)) return false;
    if (is_wanted_address(wanted, old)) return true;
    // It went with its link, or somebody else removed it.
    if (const auto gone = delete_neighbour(netlink, old.link, old.address); !gone)
      log_debug("neighbour {}: {}", old.address.text(), gone.error().message);
    return true;
  });
  return problems;
}

}  // namespace poduplink
