// SPDX-License-Identifier: Apache-2.0
// What must hold before anything is changed: named errors instead of half a start.
#pragma once

#include <string>

#include "loader/base/result.h"

namespace poduplink {

// Errors: the capabilities that this process lacks, by name.
Result<> check_capabilities();

// Errors: the nearest folder of `pin_dir` that exists is not on a bpffs, with how to mount one.
Result<> check_pin_dir(const std::string& pin_dir);

// Cheap enough to ask every second.
bool connection_tracking_is_present();

// Loads nf_conntrack where it is a module and modprobe is there. Runs another program: take no lock before.
void load_conntrack_module();

// Whether the programs can ask connection tracking (bpf_skb_ct_lookup). False: there is none in this kernel so
// far, so no flow can be NATed by it. Errors: tracking is there, but cannot be asked.
Result<bool> conntrack_can_be_asked();

}  // namespace poduplink
