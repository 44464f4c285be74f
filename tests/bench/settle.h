// SPDX-License-Identifier: Apache-2.0
// The kernel's work that goes on when a section is over, and would be measured in the next.
#pragma once

namespace poduplink::bench {

// The kernel takes namespaces down one after the other, in the order in which they went: a node of thousands of pods
// keeps it for a minute, with its network lock taken most of the time. Returns when all that went before this call
// are gone; waits four minutes at most. Throws std::runtime_error.
void wait_for_gone_namespaces();

}  // namespace poduplink::bench
