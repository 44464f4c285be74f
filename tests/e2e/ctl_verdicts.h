// SPDX-License-Identifier: Apache-2.0
// The table of all verdicts: for each a packet that gets it, as explain is asked about it and as it is really sent.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/steps.h"
#include "tests/harness/conversation.h"
#include "tests/harness/packet.h"

namespace poduplink::harness {

// States of the node, in the order in which it goes through them.
enum class Stage { well, natted, gateway_silent, homes_down };

// Pods: `fast` and `netfilter` at home on eth2 (MTU 1400), `other` on eth1, `guest` on eth3, which is strict and has
// whenDown stack. The node's default route is by eth1.
struct VerdictLab {
  VerdictLab();
  std::unique_ptr<Lab> lab;
  std::map<unsigned, EchoServer> servers;
  Pod fast, netfilter, other, guest;
  std::vector<Conversation> listeners;  // so that no pod answers UDP to `listening_port` by ICMP
};
inline constexpr std::uint16_t listening_port = 53;
inline constexpr std::uint16_t calling_port = 5003;  // of the fast pod, when it called the service

// One packet.
struct Asked {
  IpAddress self;  // explain POD-ADDRESS DESTINATION options…
  IpAddress peer;
  std::vector<std::string> options;
  const Pod* sender = nullptr;                               // a pod, or
  unsigned gateway = 0;                                      // the gateway of this uplink
  std::vector<tests::Layer> layers;                          // behind the Ethernet header
  std::optional<MacAddress> to_mac;                          // absent: of the interface that it meets first
  std::optional<std::pair<IpAddress, IpAddress>> leaves_as;  // where it is NATed on its way
};

struct Row {
  pdl_verdict verdict;
  std::string outcome;  // as explain calls it
  std::function<Asked(const VerdictLab&, Family)> asked;
  std::optional<pdl_verdict> late;
  Stage stage = Stage::well;
  std::optional<Family> only;
};

std::vector<Row> rows_out();
std::vector<Row> rows_in();

// The ARP request or neighbour solicitation that explain makes with --neighbour, and the group that it goes to.
void ask_neighbour(Asked& asked, const IpAddress& sender, const MacAddress& sender_mac, const IpAddress& about);

// An address that this family has no special meaning for, nor anybody else.
IpAddress of_family(Family family, const char* v4, const char* v6);

}  // namespace poduplink::harness
