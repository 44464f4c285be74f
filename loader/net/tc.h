// SPDX-License-Identifier: Apache-2.0
// The clsact qdisc and cls_bpf filters: how programs are attached on pod veths everywhere, and on uplinks
// where the kernel has no tcx.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loader/base/result.h"
#include "loader/net/netlink.h"

namespace poduplink {

enum class TcHook { ingress, egress };

struct TcFilter {
  std::uint32_t handle = 0;
  std::uint16_t priority = 0;  // lower runs first
  std::string kind;            // "bpf", "flower" …
  std::string name;            // TCA_BPF_NAME
  std::uint32_t program_id = 0;
  bool direct_action = false;
};

// Which qdisc has the place of ingress filters.
enum class IngressQdisc { none, clsact, ingress };
Result<IngressQdisc> ingress_qdisc(Netlink& netlink, int link);

// The link that a message of RTNLGRP_TC is about.
int parse_tc_link(const nlmsghdr* message);

// Adds clsact unless it is there. Errors: EBUSY, with the reason, where an `ingress` qdisc excludes it.
Result<> ensure_clsact(Netlink& netlink, int link);
Result<> delete_clsact(Netlink& netlink, int link);

struct BpfFilter {
  int link = 0;
  TcHook hook = TcHook::ingress;
  std::uint16_t priority = 0;
  std::uint32_t handle = 0;
  int program_fd = -1;
  std::string name;
};

// Adds a direct-action filter or, atomically, replaces the one of the same hook, priority and handle.
Result<> set_bpf_filter(Netlink& netlink, const BpfFilter& filter);
// Errors: ENOENT where there is none.
Result<> delete_bpf_filter(Netlink& netlink, int link, TcHook hook, std::uint16_t priority, std::uint32_t handle);
// In the order in which they run. No clsact: an empty list.
Result<std::vector<TcFilter>> dump_filters(Netlink& netlink, int link, TcHook hook);

}  // namespace poduplink
