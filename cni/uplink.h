// SPDX-License-Identifier: Apache-2.0
// Which uplink a pod address leaves by. Functions of the IPAM result and of a view of the host, without any
// system call, so that every rule can be tested by itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cni/spec/error.h"
#include "cni/spec/result.h"
#include "loader/base/address.h"
#include "loader/base/result.h"
#include "loader/net/link.h"
#include "loader/net/route.h"
#include "maps/abi.h"

namespace poduplink {

// What somebody calls an uplink: an entry of the IPAM result, or the key 'uplink'. At least one of name and
// MAC is there.
struct UplinkName {
  std::string name;               // empty: by MAC alone
  std::optional<MacAddress> mac;  // none: by name alone
  std::string origin;             // who says so, for messages: "interfaces[0] of the IPAM result"

  // "eth1 with MAC 02:00:5e:10:00:02"
  [[nodiscard]] std::string text() const;
};

// The key 'uplink': a MAC or an interface name. Errors: bad_config.
CniResult<UplinkName> parse_uplink_key(const std::string& value);

// An address that the pod shall have.
struct WantedAddress {
  Prefix address;                    // in its subnet on the uplink
  std::optional<IpAddress> gateway;  // as the IPAM plugin gave it
  std::optional<UplinkName> uplink;  // nothing: neither the result nor the configuration names one
};

// Reads addresses and uplinks from an IPAM result; `configured` stands in where the result names none.
// Errors: ipam_result for addresses that no pod can have and for none at all; uplink for entries of
// `interfaces` that name nothing, an impossible thing, or more than one.
CniResult<std::vector<WantedAddress>> wanted_addresses(const AddResult& result,
                                                       const std::optional<UplinkName>& configured);

// The host as it was read at one moment: what there is to know for some wanted addresses (cni/host_view.h).
struct HostView {
  std::vector<Link> links;
  std::vector<InterfaceAddress> addresses;
  std::map<std::uint32_t, pdl_uplink> uplinks;  // the map of that name, by interface index
};

struct Uplink {
  Link link;
  pdl_uplink entry{};
};

// The link that the name means, managed by the agent. `host_veth` is the pod's own, which is never an uplink.
// Errors: ENODEV where there is no such link, EAGAIN where the agent does not manage it (yet): both may
// change by waiting. Code 0, for good: several links, name and MAC that disagree, a link that cannot serve.
Result<Uplink> find_uplink(const UplinkName& wanted, const HostView& view, const std::string& host_veth);

// The managed uplink with an address in whose subnet the pod's lies; the longest prefix wins. Nothing: none.
// Errors: several with the same prefix length.
Result<std::optional<Uplink>> uplink_by_subnet(const IpAddress& address, const HostView& view);

// The only managed uplink beside the primary. Nothing: there is none. Errors: several.
Result<std::optional<Uplink>> only_secondary(const HostView& view);

}  // namespace poduplink
