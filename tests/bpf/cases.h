// SPDX-License-Identifier: Apache-2.0
// One packet, where it goes in, and what must become of it. The tables are the packet contract of
// docs/datapath.md by example.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/bpf/world.h"

namespace poduplink::tests {

enum class Fate {
  stack,   // TC_ACT_UNSPEC, the frame untouched
  drop,    // TC_ACT_SHOT
  uplink,  // bpf_redirect_neigh
  pod,     // bpf_redirect_peer
  answer,  // bpf_redirect to where it came from
  sender,  // Too big: bpf_redirect_peer to the veth it came from
  host,    // Too big: bpf_redirect into the stack, by the target's ingress
};

struct Case {
  std::string name;
  Input input;
  pdl_verdict verdict = PDL_VERDICT_COUNT;
  Fate fate = Fate::stack;
  unsigned target = 0;                // interface of a redirect
  std::optional<IpAddress> next_hop;  // Fate::uplink
  bool routed = true;                 // a redirect that must take one from the TTL
  Config config;
  std::optional<Octets> answer;  // the whole frame of the last three
};

std::vector<Case> pod_egress_cases(Family family);
std::vector<Case> pod_egress_source_cases(Family family);
std::vector<Case> pod_egress_frame_cases();
std::vector<Case> uplink_ingress_cases(Family family);
std::vector<Case> uplink_ingress_frame_cases();
std::vector<Case> uplink_egress_cases(Family family);
std::vector<Case> mode_cases(Family family);
std::vector<Case> all_cases();

// ---- pieces that the tables share ----

inline Ethernet from_pod() { return {pod_mac(kVethA), host_mac()}; }
inline Ethernet to_uplink(unsigned uplink) { return {router_mac(), device_mac(uplink)}; }
inline Ethernet on_wire() { return {device_mac(kUplink2), router_mac()}; }

// "IPv4: name" or "IPv6: name"
std::string named(Family family, const std::string& name);

// The answer that tells a frame's sender its uplink's MTU. Nothing may stand behind the frame's IP packet.
Octets too_big_answer(const Ethernet& eth, const IpAddress& from, const Octets& frame);

// An ICMP error of the family: unreachable port. The quote follows it.
Icmp unreachable(Family family);

Octets operator+(const Ethernet& eth, const std::vector<Layer>& rest);

}  // namespace poduplink::tests
