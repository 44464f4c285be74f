// SPDX-License-Identifier: Apache-2.0
// pod_egress on a pod's host veth: how it is attached (plugin), checked (plugin) and repaired (agent).
#pragma once

#include <string>

#include "loader/base/result.h"
#include "loader/net/netlink.h"
#include "maps/abi.h"

namespace poduplink {

// Place of our filter on the veth's clsact, and on an uplink's below kernel 6.6: behind foreign filters on
// ingress. The kernel gives filters without a priority 49152 and less (tcf_auto_prio), so ours is beyond that:
// with the same number, one of another kind would keep ours out, and one of ours would run first.
inline constexpr unsigned short tc_ingress_priority = 65520;
inline constexpr unsigned short tc_egress_priority = 1;
inline constexpr unsigned tc_handle = 0x70646c;  // "pdl"

// Fast mode: clsact and cls_bpf. Netfilter mode: a tcx link, pinned as link_pin(folder, host veth name), where
// the kernel has tcx, else as in fast mode. Attaching twice is no error. Errors: errno with the step.
Result<> attach_pod_program(Netlink& netlink, const std::string& version_folder, const std::string& veth_name,
                            int veth_index, pdl_mode mode);

// Whether there is a program to attach. Errors: ENOENT with the pin that is missing, or what stands in its place.
Result<> find_pod_program(const std::string& version_folder);

// Empty where this build's pinned pod_egress is attached; else what is wrong, for CHECK and the agent.
Result<std::string> check_pod_program(Netlink& netlink, const std::string& version_folder, const std::string& veth_name,
                                      int veth_index, pdl_mode mode);

// Removes the pinned tcx link, if there is one; filters go with the veth. Absent things are no error.
Result<> detach_pod_program(const std::string& version_folder, const std::string& veth_name);

}  // namespace poduplink
