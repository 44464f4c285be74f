// SPDX-License-Identifier: Apache-2.0
// What each command finds out. Errors: what could not be read, with its path or name.
#pragma once

#include <functional>
#include <string>

#include "loader/base/result.h"
#include "loader/ctl/node.h"
#include "loader/ctl/sample.h"
#include "loader/ctl/view.h"

namespace poduplink::ctl {

// The whole node at a glance, problems first.
Result<View> status_view(const Settings& settings);

// Everything that is not as it should be, with what it means and what to do. Not well where there is a problem.
Result<View> doctor_view(const Settings& settings);

// Pod addresses: those that a word is part of (address, pod, container, uplink), or all.
Result<View> pods_view(const Settings& settings, const std::string& word);

// Every interface that is an uplink, might be one or was refused, with the reason, and its traffic.
Result<View> uplinks_view(const Settings& settings, Rates& rates);

Result<View> exempt_view(const Settings& settings);

// The verdicts that were counted, or all of them.
Result<View> stats_view(const Settings& settings, bool all, Rates& rates);

// Connections that the kernel tracks and that have a pod at an end, or those of one pod address, and the way of each.
Result<View> flows_view(const Settings& settings, const std::string& pod);

// Hands over what was told since events were last read, oldest first; each event is read once, by whoever comes first.
// `follow`: goes on with those that come, until `each` returns false.
Result<> read_events(const Settings& settings, bool follow, const std::function<bool(const Json&)>& each);
// One event on a line.
std::string event_line(const Json& event);

// What would become of a packet that a pod sends or is sent: by the loaded programs themselves, without sending any.
struct ExplainQuestion {
  std::string pod;          // address
  std::string destination;  // address; of the sender where the packet is inbound
  std::string protocol = "udp";
  unsigned source_port = 40000;
  unsigned destination_port = 53;
  unsigned size = 100;  // octets of layer 3
  unsigned hop_limit = 64;
  bool fragmentable = false;  // IPv4 without DF
  std::string fragment;       // "first", "later"; empty: whole
  bool options = false;       // IPv4 option, IPv6 routing header
  unsigned extensions = 0;    // IPv6 destination options headers
  bool icmp_error = false;    // an error about the flow's packet of the other direction
  std::string quoting;        // address in the pod's place in what the error quotes
  bool neighbour = false;     // an ARP request or neighbour solicitation for DESTINATION
  std::string from;           // source address, where it is another than the sender's own
  std::string to_mac;         // destination MAC; empty: the interface's, or a question's group
  unsigned vlan = 0;          // ID; 0: untagged
  bool inbound = false;       // arrives at an uplink for the pod
  std::string uplink;         // which; empty: the pod's home
};
Result<View> explain_view(const Settings& settings, const ExplainQuestion& question);

// What poduplinkd would say of this file: every mistake.
Result<View> check_config_view(const std::string& path);

}  // namespace poduplink::ctl
