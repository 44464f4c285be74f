// SPDX-License-Identifier: Apache-2.0
// A packet that nobody sends, and what a loaded program makes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/result.h"

namespace poduplink::ctl {

struct Probe {
  IpAddress source;
  IpAddress destination;
  std::uint8_t protocol = 17;     // IPPROTO_*; 1 and 58 become an echo request
  std::uint16_t source_port = 0;  // of an echo request: its identifier
  std::uint16_t destination_port = 0;
  std::size_t size = 100;     // octets of layer 3
  bool dont_fragment = true;  // IPv4
  std::uint8_t hop_limit = 64;
  MacAddress source_mac;
  MacAddress destination_mac;
};

// The kernel takes no more than a page for a test run.
inline constexpr std::size_t largest_probe = 3500;
// Of this protocol and family: headers alone.
std::size_t smallest_probe(Family family, std::uint8_t protocol);

// The frame; checksums of layer 4 are left zero, which no program looks at.
std::vector<std::uint8_t> probe_frame(const Probe& probe);

struct ProgramRun {
  unsigned verdict = 0;  // enum pdl_verdict
  int action = 0;        // TC_ACT_*
};

// Runs the program that is pinned under a version folder by BPF_PROG_TEST_RUN: on the node's own maps and connection
// tracking, and without sending anything. Its verdict is read from the counters, which therefore go up (by one, or a
// few where other packets came between), and a drop is told as an event. Needs the network namespace of the node.
// Errors: the kernel's refusal; so much traffic that the verdict cannot be told.
Result<ProgramRun> run_program(const std::string& version_folder, const std::string& program,
                               const std::vector<std::uint8_t>& frame, int ifindex, int ingress_ifindex);

}  // namespace poduplink::ctl
