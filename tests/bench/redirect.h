// SPDX-License-Identifier: Apache-2.0
// Steering without deciding: what remains of the datapath's cost where its programs cost nothing.
#pragma once

#include <memory>
#include <string>

#include "loader/base/address.h"
#include "tests/harness/namespace.h"

struct pdl_redirect;

namespace poduplink::bench {

struct Redirection {
  std::string veth;  // the host's end, with both programs' hooks as poduplink has them (cls_bpf)
  std::string uplink;
  IpAddress gateway4, gateway6;
  IpAddress pod4, pod6;
};

// Sends everything from the veth to the uplink's gateway, and everything for the pod from the uplink into it. It stays
// with the devices. Errors are thrown.
void redirect_all(const harness::Namespace& node, const Redirection& redirection);

}  // namespace poduplink::bench
