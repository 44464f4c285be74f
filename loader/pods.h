// SPDX-License-Identifier: Apache-2.0
// The agent's side of the pod entries. The plugin writes them; the agent makes them true again: against the
// records both ways, and when an uplink or a gateway changes.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "loader/base/result.h"
#include "loader/desired.h"
#include "loader/records.h"
#include "loader/snapshot.h"
#include "maps/record.h"
#include "maps/tables.h"

namespace poduplink {

// The uplink of one of a record's addresses: by MAC and name, by MAC alone where only one has it, by a name and MAC
// that it once had, by name.
const DesiredUplink* uplink_of(const Desired& desired, const RecordAddress& address);

// The entry that a ready record wants for one of its addresses. Nothing for an address without an uplink.
// `present` gives what cannot be known while the uplink is missing.
std::optional<pdl_pod> entry_of(const Record& record, const RecordAddress& address, const Desired& desired,
                                const Snapshot& snapshot, const pdl_pod* present);

// As PodTable::entries() gives them.
using PodEntries = std::vector<std::pair<IpAddress, pdl_pod>>;
bool same_entries(const PodEntries& one, const PodEntries& other);

// Gateways of pods that do not answer, each with its uplink's index.
using SilentGateways = std::set<std::pair<int, IpAddress>>;

struct PodRepairs {
  unsigned made = 0;
  unsigned changed = 0;
  unsigned erased = 0;
  SilentGateways silent;  // of all entries as they are now

  [[nodiscard]] bool any() const { return made + changed + erased != 0; }
};

// Records against entries, both ways. Ready records whose veth lives get their entries, as they should be.
// Entries of no record go, unless the veth of their owner still lives. The caller holds GlobalLock.
// `entries`: all of them, as read in the same hold. `known`: see Events::pod_veths().
Result<PodRepairs> reconcile_pods(Netlink& netlink, const Tables& tables, const PodEntries& entries,
                                  const Records& records, const Desired& desired, const Snapshot& snapshot,
                                  const PodVeths& known);

// What is known of gateways, and MTUs, alone, without reading a record. The caller holds GlobalLock.
Result<PodRepairs> refresh_pods(const Tables& tables, const Desired& desired, const Snapshot& snapshot);

}  // namespace poduplink
