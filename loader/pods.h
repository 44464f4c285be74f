// SPDX-License-Identifier: Apache-2.0
// The agent's side of the pod entries. The plugin writes them; the agent makes them true again: against the
// records both ways, and when an uplink or a gateway changes.
#pragma once

#include <optional>
#include <string>

#include "loader/base/result.h"
#include "loader/desired.h"
#include "loader/snapshot.h"
#include "maps/record.h"
#include "maps/tables.h"

namespace poduplink {

// The uplink of one of a record's addresses: by MAC and name, by MAC alone where only one has it, by name.
const DesiredUplink* uplink_of(const Desired& desired, const RecordAddress& address);

// The MAC of a gateway as the kernel's neighbour table has it; nothing while it is unresolved.
std::optional<MacAddress> gateway_mac(const Snapshot& snapshot, int link, const IpAddress& gateway);

// The entry that a ready record wants for one of its addresses. Nothing for an address without an uplink.
// `present` gives what cannot be known while the uplink is missing.
std::optional<pdl_pod> entry_of(const Record& record, const RecordAddress& address, const Desired& desired,
                                const Snapshot& snapshot, const pdl_pod* present);

struct PodRepairs {
  unsigned made = 0;
  unsigned changed = 0;
  unsigned erased = 0;

  [[nodiscard]] bool any() const { return made + changed + erased != 0; }
};

// Records against entries, both ways. Ready records whose veth lives get their entries, as they should be.
// Entries of no record go, unless the veth of their owner still lives. The caller holds GlobalLock.
Result<PodRepairs> reconcile_pods(Netlink& netlink, const Tables& tables, const std::string& run_dir,
                                  const Desired& desired, const Snapshot& snapshot);

// Gateway MACs and MTUs alone, without reading a record. The caller holds GlobalLock.
Result<PodRepairs> refresh_pods(const Tables& tables, const Desired& desired, const Snapshot& snapshot);

// Puts the pinned pod_egress on the veth of every ready record and every entry, and removes the pins of
// links whose veths are gone. The caller holds GlobalLock. Returns what failed, by veth.
std::vector<std::string> switch_pod_programs(Netlink& netlink, const Tables& tables, const std::string& run_dir,
                                             const std::vector<Link>& links);

}  // namespace poduplink
