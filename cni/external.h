// SPDX-License-Identifier: Apache-2.0
// The key 'external': the pod keeps its first network for the cluster and leaves the cluster by the interface that this
// plugin adds (docs/external-network.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cni/spec/entry.h"
#include "cni/spec/error.h"
#include "loader/base/address.h"

namespace poduplink {

struct ExternalOptions {
  std::string if_name;          // "ifName": chained behind the plugin of the first network; empty: it stands alone
  std::vector<Prefix> cluster;  // "clusterCIDRs": stay with the first network
  bool require_distinct_subnet = false;  // "requireDistinctSubnet"
  bool fail_open = false;                // "failOpen": without the second NIC the pod stays as it is

  [[nodiscard]] bool chained() const { return !if_name.empty(); }
};

// Nothing: the key is absent. Errors: bad_config with key and value.
CniResult<std::optional<ExternalOptions>> parse_external(const Invocation& invocation);

// Chained, the IPAM plugin is asked for the same container and interface name as that of the first network. With one
// store for both, host-local would give back the other's address. Errors: bad_config. For DEL and GC too: an IPAM
// plugin that ADD never ran is not run.
CniResult<> check_ipam_store(const Invocation& invocation);

// Of one family with a part in common.
bool overlap(const Prefix& one, const Prefix& other);

}  // namespace poduplink
