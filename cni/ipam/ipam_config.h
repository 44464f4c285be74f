// SPDX-License-Identifier: Apache-2.0
// The "ipam" object of the network configuration.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cni/ipam/range.h"
#include "cni/spec/config.h"
#include "cni/spec/error.h"
#include "cni/spec/result.h"
#include "loader/base/address.h"

namespace poduplink::ipam {

inline constexpr const char* default_data_dir = "/var/lib/cni/poduplink-ipam";

struct Pool {
  std::string uplink;  // a name or a MAC, as configured
  std::vector<AddressRange> ranges;
  std::optional<IpAddress> gateway4;
  std::optional<IpAddress> gateway6;

  [[nodiscard]] bool has(Family family) const;
  [[nodiscard]] const std::optional<IpAddress>& gateway(Family family) const {
    return family == Family::v4 ? gateway4 : gateway6;
  }
  // Nullptr where none of the ranges holds the address.
  [[nodiscard]] const AddressRange* range_of(const IpAddress& address) const;
};

struct IpamConfig {
  std::string data_dir;
  std::vector<Pool> pools;
  std::vector<ResultRoute> routes;
};

// Errors: bad_config with key and value. Ranges overlap nowhere, gateways lie in the subnets of all ranges of
// their family (or are link-local IPv6, or the configuration has "onLinkGateway": true).
CniResult<IpamConfig> parse_ipam_config(const NetworkConfig& config);

// The data directory alone, for verbs that have to work whatever the rest of the configuration holds.
std::string data_dir_of(const NetworkConfig& config);

// Addresses that the runtime asks for, at most one a family: from "runtimeConfig.ips", else "args.cni.ips", else
// IP of CNI_ARGS. A prefix length beside an address is ignored: the pool knows its subnet.
// Errors: bad_config, bad_environment (CNI_ARGS). A malformed "args" is no error by the specification.
CniResult<std::vector<IpAddress>> requested_addresses(const NetworkConfig& config, const std::string& cni_args);

}  // namespace poduplink::ipam
