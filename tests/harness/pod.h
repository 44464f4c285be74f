// SPDX-License-Identifier: Apache-2.0
// A pod of the lab and how it is asked for.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "loader/base/address.h"
#include "tests/harness/cni_answer.h"
#include "tests/harness/namespace.h"

namespace poduplink::harness {

enum class Ipam { poduplink, host_local, stub };

struct PodOptions {
  Ipam ipam = Ipam::poduplink;
  // 0: poduplink-ipam chooses among all; the others take uplink 1.
  unsigned uplink = 0;
  bool v4 = true;
  bool v6 = true;
  std::string mode;  // "fast", "netfilter"; empty: the key is left out
  std::string version = "1.0.0";
  std::string if_name = "eth0";
  std::string args;     // CNI_ARGS
  std::string network;  // empty: derived from IPAM and uplink
  std::string patch;    // RFC 7386 merge patch for the whole configuration, applied last
  // Ipam::stub only: the whole result it prints; empty: one made like Azure's, the uplink's MAC with an empty name.
  std::string stub_result;
};

struct Pod {
  std::string name;
  PodOptions options;
  std::string container_id;
  std::string config;  // as the plugin gets it
  std::shared_ptr<Namespace> space;

  // After ADD.
  AddResult result;
  std::optional<IpAddress> v4;
  std::optional<IpAddress> v6;
  MacAddress mac;
  std::string host_veth;
  unsigned uplink = 0;  // by the addresses: 10.<uplink>…, fd00:<uplink>…
};

}  // namespace poduplink::harness
