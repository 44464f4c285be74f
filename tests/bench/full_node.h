// SPDX-License-Identifier: Apache-2.0
// A node with as many attachments as wanted, made by the plugin's own code, without a process and an IPAM plugin for
// each.
#pragma once

#include <vector>

#include "cni/pod_link.h"
#include "cni/state.h"
#include "loader/net/link.h"
#include "tests/harness/lab.h"

namespace poduplink::bench {

// The address of pod number `number` from 0 on this uplink, up to 16,383: of those that are there to fill the node.
IpAddress filling_pod(const harness::Uplink& uplink, Family family, unsigned number);

// Attachments of a lab with a running agent. Each has an IPv4 and an IPv6 address; their homes are the lab's uplinks in
// turn. Their pods' ends lie in one further namespace of the lab. Nothing is taken down: it goes with the lab. Errors
// are thrown as std::runtime_error.
class FullNode {
 public:
  explicit FullNode(harness::Lab& lab);
  // Number `number` from 0, each once; its addresses are those of filling_pod().
  void add(unsigned number, pdl_mode mode);
  // Who that is, and the addresses it has.
  [[nodiscard]] static AttachmentId id(unsigned number);
  [[nodiscard]] std::vector<IpAddress> addresses(unsigned number) const;

 private:
  [[nodiscard]] unsigned home_number(unsigned number) const;

  harness::Lab& lab_;
  const harness::Namespace* pods_;
  Netlink host_;
  Netlink inside_;
  Options options_;
  std::vector<Link> homes_;
};

}  // namespace poduplink::bench
