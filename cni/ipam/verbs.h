// SPDX-License-Identifier: Apache-2.0
// What poduplink-ipam does for each verb.
#pragma once

#include <string>

#include "cni/spec/entry.h"

namespace poduplink::ipam {

// How an uplink is reported. Either may be empty, but not both: the main plugin finds the rest, and waits for
// an uplink that is not there yet.
struct UplinkIdentity {
  std::string name;
  std::string mac;
};

// Looks a configured uplink (name or MAC) up in the kernel. Never fails: what cannot be found is reported as
// configured.
using FindUplink = UplinkIdentity (*)(const std::string& uplink);
UplinkIdentity find_uplink(const std::string& uplink);

// Reserves one address of each family of one pool. A second ADD of an attachment fails and leaves the
// reservation of the first.
CniResult<AddResult> add(const Invocation& invocation, FindUplink find);

// Releases what the attachment holds. Needs no pools, no folder and no reservation.
CniResult<> del(const Invocation& invocation);

// Errors: check_failed where the attachment holds nothing, or prevResult has an address of a pool that it does not
// hold.
CniResult<> check(const Invocation& invocation);

// Releases what attachments hold that the runtime does not list. What was reserved after the call began is kept.
CniResult<> gc(const Invocation& invocation);

// Errors: not_available where the folder cannot be written or no pool has an address left.
CniResult<> status(const Invocation& invocation);

}  // namespace poduplink::ipam
