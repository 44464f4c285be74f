// SPDX-License-Identifier: Apache-2.0
#include "cni/uplink.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "loader/base/address.h"

namespace poduplink {
namespace {

constexpr MacAddress host_mac(std::array<std::uint8_t, 6>(PDL_HOST_MAC));

CniResult<> check_pod_address(const Prefix& prefix) {
  const IpAddress& address = prefix.address();
  const auto refuse = [&](std::string_view why) {
    return cni_fail(cni_code::ipam_result, "address {} of the IPAM result {}", prefix.text(), why);
  };
  if (address.is_v4_mapped()) return refuse("is an IPv4 address written as IPv6");
  if (address.is_unspecified() || address.is_multicast() || address.is_loopback()) {
    return refuse("is no address that a pod can have");
  }
  if (address.is_link_local()) return refuse("is link-local, so no uplink leads to it");
  if (prefix.length() == 0) return refuse("has a subnet that holds every address");
  const bool first_is_host = prefix.length() >= address.bits() - 1;
  if (!first_is_host && address == prefix.network()) return refuse("is the address of its subnet itself");
  if (prefix.has_broadcast() && address == prefix.last()) return refuse("is the broadcast address of its subnet");
  return {};
}

CniResult<UplinkName> name_of_interface(const ResultInterface& interface, std::size_t index) {
  UplinkName name{interface.name, std::nullopt, formatted("interfaces[{}] of the IPAM result", index)};
  if (name.name.empty() && interface.mac.empty()) {
    return cni_fail(cni_code::uplink, "{} has neither name nor MAC", name.origin);
  }
  if (!name.name.empty() && !is_interface_name(name.name)) {
    return cni_fail(cni_code::uplink, "{}: \"{}\" cannot be the name of an interface", name.origin, name.name);
  }
  if (!interface.mac.empty()) {
    auto mac = MacAddress::parse(interface.mac);
    if (!mac || mac->is_zero() || mac->is_multicast()) {
      return cni_fail(cni_code::uplink, "{}: \"{}\" is not the MAC of an interface", name.origin, interface.mac);
    }
    name.mac = *mac;
  }
  return name;
}

// The entry of `interfaces` that an address means. Nothing: no entry is on the host.
CniResult<std::optional<UplinkName>> name_for_ip(const AddResult& result, const ResultIp& ip) {
  if (ip.interface && *ip.interface != -1) {
    const std::int64_t index = *ip.interface;
    const auto count = static_cast<std::int64_t>(result.interfaces.size());
    if (index < 0 || index >= count) {
      return cni_fail(cni_code::uplink, "address {} of the IPAM result points to interfaces[{}], but there are {}",
                      ip.address.text(), index, count);
    }
    const auto place = static_cast<std::size_t>(index);
    if (!result.interfaces[place].sandbox.empty()) {
      return cni_fail(cni_code::uplink,
                      "address {} of the IPAM result points to interfaces[{}], which is in sandbox {}, not on the host",
                      ip.address.text(), index, result.interfaces[place].sandbox);
    }
    return name_of_interface(result.interfaces[place], place);
  }
  std::optional<std::size_t> only;
  for (std::size_t i = 0; i < result.interfaces.size(); ++i) {
    if (!result.interfaces[i].sandbox.empty()) continue;
    if (only) {
      return cni_fail(cni_code::uplink,
                      "address {} of the IPAM result has no 'interface', and interfaces[{}] and interfaces[{}] are "
                      "both on the host",
                      ip.address.text(), *only, i);
    }
    only = i;
  }
  if (!only) return std::nullopt;
  return name_of_interface(result.interfaces[*only], *only);
}

std::string names_of(const std::vector<const Link*>& links) {
  std::string text;
  for (const Link* link : links) {
    if (!text.empty()) text += ", ";
    text += link->name;
  }
  return text;
}

bool has_name(const Link& link, const std::string& name) {
  return link.name == name || std::ranges::find(link.alternative_names, name) != link.alternative_names.end();
}

Result<const Link*> find_by_name(const UplinkName& wanted, const HostView& view) {
  const auto found = std::ranges::find_if(view.links, [&](const Link& link) { return has_name(link, wanted.name); });
  if (found == view.links.end()) {
    return Failure(Error{ENODEV, formatted("uplink {} not found (named by {})", wanted.text(), wanted.origin)});
  }
  if (wanted.mac && found->mac != wanted.mac) {
    return fail("uplink {}: the interface of that name has MAC {} ({})", wanted.text(),
                found->mac ? found->mac->text() : std::string("none"), wanted.origin);
  }
  return &*found;
}

Result<const Link*> find_by_mac(const UplinkName& wanted, const HostView& view) {
  std::vector<const Link*> links;
  for (const Link& link : view.links) {
    if (link.mac == wanted.mac) links.push_back(&link);
  }
  if (links.empty()) {
    return Failure(Error{ENODEV, formatted("uplink {} not found (named by {})", wanted.text(), wanted.origin)});
  }
  if (links.size() == 1) return links.front();
  const auto leading = leading_links(view.links, *wanted.mac);
  if (leading.size() == 1) return leading.front();
  return fail("uplink {} is ambiguous: {} have it ({})", wanted.text(), names_of(links), wanted.origin);
}

Result<> check_can_serve(const Link& link, const UplinkName& wanted) {
  const auto refuse = [&](std::string_view why) {
    return fail("{} cannot be an uplink: it {} (named by {})", link.name, why, wanted.origin);
  };
  if (link.is_loopback()) return refuse("is the loopback interface");
  if (!link.is_ethernet() || !link.mac || link.mac->is_zero()) return refuse("has no MAC");
  if (*link.mac == host_mac) return refuse("is the host side of a pod's veth");
  return {};
}

bool is_home(const pdl_uplink& entry) { return entry.role == PDL_ROLE_HOME; }

}  // namespace

std::string UplinkName::text() const {
  if (!mac) return name;
  return name.empty() ? "with MAC " + mac->text() : name + " with MAC " + mac->text();
}

CniResult<UplinkName> parse_uplink_key(const std::string& value) {
  UplinkName name{{}, std::nullopt, "key 'uplink'"};
  if (const auto mac = MacAddress::parse(value)) {
    if (mac->is_zero() || mac->is_multicast()) {
      return cni_fail(cni_code::bad_config, "key 'uplink': \"{}\" is not the MAC of an interface", value);
    }
    name.mac = *mac;
    return name;
  }
  if (!is_interface_name(value)) {
    return cni_fail(cni_code::bad_config, "key 'uplink': \"{}\" is neither a MAC nor the name of an interface", value);
  }
  name.name = value;
  return name;
}

CniResult<std::vector<WantedAddress>> wanted_addresses(const AddResult& result,
                                                       const std::optional<UplinkName>& configured) {
  if (result.ips.empty()) return cni_fail(cni_code::ipam_result, "the IPAM result has no address");
  std::vector<WantedAddress> wanted;
  for (const ResultIp& ip : result.ips) {
    PDL_CNI_TRY(check_pod_address(ip.address));
    const bool twice = std::ranges::any_of(
        wanted, [&](const WantedAddress& other) { return other.address.address() == ip.address.address(); });
    if (twice) {
      return cni_fail(cni_code::ipam_result, "address {} is twice in the IPAM result", ip.address.address().text());
    }
    PDL_CNI_TRY_ASSIGN(auto name, name_for_ip(result, ip));
    if (!name) name = configured;
    wanted.push_back({ip.address, ip.gateway, std::move(name)});
  }
  return wanted;
}

Result<Uplink> find_uplink(const UplinkName& wanted, const HostView& view, const std::string& host_veth) {
  if (!wanted.name.empty() && wanted.name == host_veth) {
    return fail("{} cannot be an uplink: it is the pod's own veth (named by {})", wanted.name, wanted.origin);
  }
  if (wanted.mac == host_mac) {
    return fail("{} is the MAC of the host side of every pod's veth, not an uplink's (named by {})", wanted.mac->text(),
                wanted.origin);
  }
  PDL_TRY_ASSIGN(const Link* const link, wanted.name.empty() ? find_by_mac(wanted, view) : find_by_name(wanted, view));
  PDL_TRY(check_can_serve(*link, wanted));
  const auto entry = view.uplinks.find(static_cast<std::uint32_t>(link->index));
  if (entry == view.uplinks.end() || !is_home(entry->second)) {
    return Failure(Error{EAGAIN, formatted("uplink {} is not managed by the agent: it is not among its 'uplinks' "
                                           "(named by {})",
                                           link->name, wanted.origin)});
  }
  return Uplink{*link, entry->second};
}

Result<std::optional<Uplink>> uplink_by_subnet(const IpAddress& address, const HostView& view) {
  struct Candidate {
    std::uint32_t index = 0;
    Prefix subnet;
  };
  std::optional<Candidate> best;
  std::optional<Candidate> rival;
  for (const InterfaceAddress& own : view.addresses) {
    const auto index = static_cast<std::uint32_t>(own.link);
    const auto entry = view.uplinks.find(index);
    if (entry == view.uplinks.end() || !is_home(entry->second) || !own.prefix.contains(address)) continue;
    if (!best || own.prefix.length() > best->subnet.length()) {
      best = Candidate{index, own.prefix};
      rival.reset();
    } else if (own.prefix.length() == best->subnet.length() && index != best->index) {
      rival = Candidate{index, own.prefix};
    }
  }
  if (!best) return std::nullopt;
  const pdl_uplink& entry = view.uplinks.at(best->index);
  if (rival) {
    return fail("address {} lies in the subnet of both {} and {}: the key 'uplink' has to name one", address.text(),
                std::string(static_cast<const char*>(entry.name)),
                std::string(static_cast<const char*>(view.uplinks.at(rival->index).name)));
  }
  const auto link = std::ranges::find_if(
      view.links, [&](const Link& one) { return static_cast<std::uint32_t>(one.index) == best->index; });
  if (link == view.links.end()) return std::nullopt;
  return Uplink{*link, entry};
}

Result<std::optional<Uplink>> only_secondary(const HostView& view) {
  std::optional<Uplink> only;
  for (const Link& link : view.links) {
    const auto entry = view.uplinks.find(static_cast<std::uint32_t>(link.index));
    if (entry == view.uplinks.end() || !is_home(entry->second) || (entry->second.flags & PDL_UPLINK_PRIMARY) != 0)
      continue;
    if (only) {
      return fail("both {} and {} could be the external uplink: the IPAM result or the key 'uplink' has to name one",
                  only->link.name, link.name);
    }
    only = Uplink{link, entry->second};
  }
  return only;
}

}  // namespace poduplink
