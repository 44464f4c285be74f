// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace poduplink::harness {

// Nine pods, three kinds of IPAM, three uplinks: shows on standard output that each pod leaves by its own, and
// that nothing stays. Progress goes to standard error. Isolates the process first. `json`: one JSON document
// with the same. Returns the exit code: 0 where every packet left by its pod's uplink and none is missing.
int run_demo(bool json);

// A pod with a cluster network of Debian's bridge and a second NIC for everything outside. The same exit codes.
int run_external_demo();

}  // namespace poduplink::harness
