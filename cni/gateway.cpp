// SPDX-License-Identifier: Apache-2.0
#include "cni/gateway.h"

#include <algorithm>

#include "maps/tables.h"

namespace poduplink {
namespace {

std::optional<IpAddress> uplink_gateway(const pdl_uplink& entry, Family family) {
  const IpAddress address = family == Family::v4 ? IpAddress::v4(entry.gateway4) : IpAddress::v6(entry.gateway6);
  if (address.is_unspecified()) return std::nullopt;
  return address;
}

// The primary's gateway, where the primary has an address in the very same subnet.
std::optional<Gateway> primary_gateway(const Prefix& pod, const HostView& view) {
  for (const auto& [index, entry] : view.uplinks) {
    if ((entry.flags & PDL_UPLINK_PRIMARY) == 0) continue;
    const auto gateway = uplink_gateway(entry, pod.family());
    const bool same_subnet = std::ranges::any_of(view.addresses, [&, primary = index](const InterfaceAddress& own) {
      return static_cast<std::uint32_t>(own.link) == primary && own.prefix.subnet() == pod.subnet();
    });
    if (!gateway || !same_subnet || !pod.contains(*gateway)) continue;
    return Gateway{*gateway, formatted("primary uplink {}", static_cast<const char*>(entry.name)), true};
  }
  return std::nullopt;
}

std::optional<Gateway> infer(const Prefix& pod, const HostView& view) {
  if (pod.family() != Family::v4 || pod.length() > 30) return std::nullopt;
  if (auto primary = primary_gateway(pod, view)) return primary;
  if (const auto first = first_of_subnet(pod)) return Gateway{*first, "the first address of the subnet", true};
  return std::nullopt;
}

CniResult<Gateway> find_gateway(const WantedAddress& wanted, const Uplink& uplink, const HostView& view) {
  if (wanted.gateway) return Gateway{*wanted.gateway, "the IPAM result", false};
  if (const auto known = uplink_gateway(uplink.entry, wanted.address.family())) {
    return Gateway{*known, formatted("uplink {}", uplink.link.name), false};
  }
  if ((uplink.entry.flags & PDL_UPLINK_DISCOVERED) != 0) {
    if (auto inferred = infer(wanted.address, view)) return *inferred;
  }
  return cni_fail(cni_code::ipam_result,
                  "address {} has no gateway: neither the IPAM result nor the agent's configuration of uplink {} "
                  "names one",
                  wanted.address.text(), uplink.link.name);
}

// Link-local addresses are compared on the uplink alone: fe80::1 is on many a bridge.
bool is_own(const IpAddress& address, const Link& uplink, const HostView& view) {
  return std::ranges::any_of(view.addresses, [&](const InterfaceAddress& own) {
    return own.prefix.address() == address && (own.link == uplink.index || !address.is_link_local());
  });
}

CniResult<> check_gateway(const Prefix& pod, const Gateway& gateway, const Link& uplink, const HostView& view,
                          bool on_link_gateway) {
  const IpAddress& address = gateway.address;
  const auto refuse = [&](std::string_view why) {
    return cni_fail(cni_code::ipam_result, "gateway {} of address {} (from {}) {}", address.text(), pod.text(),
                    gateway.origin, why);
  };
  if (address.is_unspecified() || address.is_multicast() || address.is_loopback() || address.is_v4_mapped()) {
    return refuse("is no address that a gateway can have");
  }
  if (pod.family() == Family::v6 && address.is_v4()) return refuse("is IPv4, which no IPv6 packet can go by");
  if (address == pod.address()) return refuse("is the pod's own address");
  if (is_own(address, uplink, view)) return refuse("is an address of this node");
  if (address.family() == pod.family() && pod.contains(address)) {
    if (pod.length() < pod.address().bits() - 1 && address == pod.network()) {
      return refuse("is the address of the subnet itself");
    }
    if (pod.has_broadcast() && address == pod.last()) return refuse("is the broadcast address of the subnet");
    return {};
  }
  if (address.is_v6() && address.is_link_local()) return {};
  if (on_link_gateway) return {};
  return refuse("lies outside the subnet: only with \"onLinkGateway\": true is it taken as a neighbour on the uplink");
}

}  // namespace

std::optional<IpAddress> first_of_subnet(const Prefix& pod) {
  if (pod.family() != Family::v4 || pod.length() > 30) return std::nullopt;
  const auto first = pod.network().plus(1);
  if (!first || *first == pod.address()) return std::nullopt;
  return first;
}

CniResult<Gateway> choose_gateway(const WantedAddress& wanted, const Uplink& uplink, const HostView& view,
                                  bool on_link_gateway) {
  PDL_CNI_TRY_ASSIGN(Gateway gateway, find_gateway(wanted, uplink, view));
  PDL_CNI_TRY(check_gateway(wanted.address, gateway, uplink.link, view, on_link_gateway));
  return gateway;
}

}  // namespace poduplink
