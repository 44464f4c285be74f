// SPDX-License-Identifier: Apache-2.0
// Programs of the benchmarks at the ingress of devices.
#pragma once

#include <string>

#include "tests/harness/namespace.h"

struct bpf_program;

namespace poduplink::bench {

// By clsact and cls_bpf, as the veth of a fast-mode pod has it: the first of all filters. It stays with the device.
// Errors are thrown.
void attach_at_ingress(const harness::Namespace& space, const std::string& device, const bpf_program* program);

}  // namespace poduplink::bench
