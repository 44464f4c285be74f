// SPDX-License-Identifier: Apache-2.0
// The plugin's own keys of the network configuration, and what the runtime adds for one container.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "cni/external.h"
#include "cni/spec/entry.h"
#include "cni/spec/error.h"
#include "cni/spec/result.h"
#include "cni/uplink.h"
#include "loader/base/address.h"
#include "maps/abi.h"
#include "maps/paths.h"

namespace poduplink {

struct Options {
  pdl_mode mode = PDL_MODE_FAST;     // "mode"
  bool require_uplink = true;        // "requireUplink"
  std::optional<UplinkName> uplink;  // "uplink"
  bool on_link_gateway = false;      // "onLinkGateway"
  unsigned mtu = 0;                  // "mtu", octets of layer 3; 0: that of the uplinks
  std::chrono::milliseconds ipam_timeout = std::chrono::seconds(60);    // "ipamTimeout"
  std::chrono::milliseconds uplink_timeout = std::chrono::seconds(10);  // "uplinkTimeout"
  std::string pin_dir = default_pin_dir;                                // "pinDir"
  std::string run_dir = default_run_dir;                                // "runDir"
  std::optional<ExternalOptions> external;                              // "external"
  std::optional<MacAddress> mac;                                        // asked for by the runtime
  std::optional<Dns> dns;                                               // replaces that of the IPAM result
  std::map<std::string, std::string> labels;                            // of CNI_ARGS, for people who read records

  // The name of the container's interface.
  [[nodiscard]] const std::string& container_interface(const Environment& environment) const {
    return external && external->chained() ? external->if_name : environment.ifname;
  }
  // How long a verb waits for another one of the same attachment, which may be waiting for its IPAM plugin.
  [[nodiscard]] std::chrono::milliseconds lock_patience() const { return ipam_timeout + std::chrono::seconds(20); }
};

// Everything, strictly. Errors: bad_config with key and value; unsupported_field for what is asked of the
// plugin and not done by it (ipMasq, a bandwidth where no shaper could see the packets);
// bad_environment for a MAC in CNI_ARGS that is none.
CniResult<Options> parse_options(const Invocation& invocation);

// For DEL: a key that cannot be read has its default.
Options readable_options(const Invocation& invocation);

}  // namespace poduplink
