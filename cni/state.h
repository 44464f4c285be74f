// SPDX-License-Identifier: Apache-2.0
// What an attachment leaves in the pinned maps and in RUN_DIR, and how it is taken away again. Callers hold the
// attachment's AttachmentLock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cni/options.h"
#include "cni/spec/error.h"
#include "loader/net/netlink.h"
#include "maps/attachment.h"
#include "maps/locks.h"
#include "maps/record.h"
#include "maps/tables.h"

namespace poduplink {

// Errors: try_again where another verb of the same attachment did not end in time, state else.
CniResult<AttachmentLock> lock_attachment(const Options& options, const AttachmentId& id);

// The pinned maps. Errors: agent_missing where nothing is pinned, try_again where the maps have another ABI,
// datapath for a missing bpffs, missing capabilities and foreign pins.
CniResult<Tables> open_datapath(const std::string& pin_dir);

// Writes the first record, in state "adding": whatever becomes of this ADD, a later DEL or GC knows of it. Waits while
// a GC of the network runs its IPAM plugin. Errors: already_added where there is a record, naming it; state; try_again.
CniResult<> begin_attachment(const Options& options, const Record& record);

// Held by GC while the IPAM plugin collects: no ADD of the network gets to its IPAM plugin meanwhile. Errors: as of
// lock_attachment().
CniResult<AttachmentLock> lock_network(const Options& options, const std::string& network);

// Takes possession: program on the veth, record in state "adding" and map entries, in one hold of the lock.
// `entries` go with record.addresses, nothing for an address without an uplink; their owner and veth are filled in
// here. An entry of an attachment that is gone is replaced and its record forgets the address. On an error some of it
// may be done: remove_attachment() undoes it. Errors: already_added where a living attachment holds an address; uplink
// where a home is managed no longer; datapath, with the name of a map that is full; state.
CniResult<> claim(Netlink& netlink, const Options& options, const Record& record,
                  const std::vector<std::optional<pdl_pod>>& entries);

// From here on the agent repairs the attachment.
CniResult<> mark_ready(const Options& options, Record record);

// Takes away what sends and receives of an attachment, with or without its record: entries that it owns, the pinned
// link, proxy neighbours, the host side of the veth (and with it routes and the container's interface); what an
// external network changed of the pod's first one is put back. What is missing is no error; a step that fails does not
// keep the next from being tried. The record stays, in state "deleting", until the address is given back. Errors: the
// first one.
CniResult<> take_down(const Options& options, const AttachmentId& id);

// Removes the record: nothing is left that somebody would have to know of.
CniResult<> forget(const Options& options, const AttachmentId& id);

// Whether the host veth of an entry's owner is there.
Result<bool> is_owner_alive(Netlink& netlink, const pdl_pod& entry);

}  // namespace poduplink
