// SPDX-License-Identifier: Apache-2.0
// What the oracle must know of a loaded object and of a test run.
#pragma once

#include "tests/bpf/oracle.h"

namespace poduplink::tests::oracle {

// The maps as they are now. `nated` is the world's (world.h) and whatever the caller adds.
State read_state(const Datapath& datapath);

// The packet that a test run makes of an input.
Skb skb_of(const Input& input);
// What the kernel finds in a frame that a device receives.
std::uint16_t protocol_of(const Octets& frame);
PacketType type_of(const Octets& frame, const MacAddress& device);

int action_of(Ending ending);          // TC_ACT_*
std::uint32_t kind_of(Ending ending);  // RECORDED_*

// An entry as conntrack finds it, by both its tuples.
void add_nated(State& state, const Tuple& original, const Tuple& reply);

}  // namespace poduplink::tests::oracle
