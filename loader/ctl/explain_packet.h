// SPDX-License-Identifier: Apache-2.0
// What explain is asked about: the packet, and the interface and the program that it meets first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "loader/ctl/commands.h"
#include "loader/ctl/probe.h"
#include "loader/net/link.h"

namespace poduplink::ctl {

struct ExplainNode {
  Tables tables;
  Netlink netlink;
  std::map<std::uint32_t, pdl_uplink> uplinks;
};

struct Subject {
  Probe probe;
  bool inbound = false;
  IpAddress self;              // the pod's
  IpAddress peer;              // the other end of its flow, by which the programs judge
  std::optional<pdl_pod> pod;  // absent: an inbound packet for an address that is no pod's
  Link link;                   // the pod's veth, or the uplink that it arrives on

  [[nodiscard]] const char* program() const { return inbound ? "uplink_ingress" : "pod_egress"; }
};

// Errors: what is wrong with the question, with the word at fault; no such pod or uplink.
Result<Subject> find_subject(ExplainNode& node, const ExplainQuestion& question);

// The packet in words.
std::string packet_text(const Subject& subject, const ExplainQuestion& question);

// Where a pod's packet goes to on its home: the destination itself, or a gateway, or nowhere. As the programs have it.
struct PodNextHop {
  std::optional<IpAddress> address;
  bool direct = false;
};
PodNextHop pod_next_hop(const pdl_pod& pod, const IpAddress& self, const IpAddress& destination);

}  // namespace poduplink::ctl
