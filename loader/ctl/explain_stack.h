// SPDX-License-Identifier: Apache-2.0
// The way of a packet that a program leaves to the host's stack, and its last step out of an uplink.
#pragma once

#include "loader/ctl/explain_packet.h"
#include "loader/ctl/explain_story.h"

namespace poduplink::ctl {

// By its home, to its next hop there, and whether anybody answers.
void tell_way_by_home(Story& story, ExplainNode& node, const pdl_pod& pod, const Probe& probe);

// What connection tracking, routing and, where that leads out of an uplink, uplink_egress make of it.
Result<> follow_stack(Story& story, ExplainNode& node, const Subject& subject);

}  // namespace poduplink::ctl
