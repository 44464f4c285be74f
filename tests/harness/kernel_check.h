// SPDX-License-Identifier: Apache-2.0
// Whether the kernel shows what the result of an ADD says. Read by the `ip` program, so that no code under test has
// a part in it.
#pragma once

#include <string>
#include <vector>

#include "tests/harness/cni_answer.h"
#include "tests/harness/namespace.h"

namespace poduplink::harness {

// Every interface is there, up, with MAC and MTU as said, both ends of the veth with one MTU; the container's has the
// addresses of the result, none of them tentative, and no other but link-local ones; the routes of the result are
// there; and the node has a route by the veth for each address. One line for each fault.
std::vector<std::string> faults_against_kernel(const Namespace& node, const Invocation& asked, const AddResult& result);

}  // namespace poduplink::harness
