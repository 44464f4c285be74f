// SPDX-License-Identifier: Apache-2.0
#include "cni/ipam/ipam_config.h"

#include <algorithm>

#include "loader/base/address.h"

namespace poduplink::ipam {
namespace {

CniResult<std::optional<unsigned>> prefix_length(const Section& section, std::string_view key, unsigned max) {
  PDL_CNI_TRY_ASSIGN(const auto length, section.number(key, 1, max));
  if (!length) return std::nullopt;
  return static_cast<unsigned>(*length);
}

CniResult<std::optional<IpAddress>> address(const Section& section, std::string_view key) {
  PDL_CNI_TRY_ASSIGN(const auto text, section.text(key));
  if (!text) return std::nullopt;
  const auto parsed = IpAddress::parse(*text);
  if (!parsed) return section.fault(key, "is no IP address");
  return *parsed;
}

CniResult<std::string> parse_uplink(const Section& section) {
  PDL_CNI_TRY_ASSIGN(auto uplink, section.text("uplink"));
  if (!uplink) return section.fault("uplink", "is missing");
  if (!is_interface_name(*uplink) && !MacAddress::parse(*uplink)) {
    return section.fault("uplink", "is neither the name of an interface nor a MAC address");
  }
  return std::move(*uplink);
}

// Without a colon in any range there is none of IPv6, and "prefix" speaks of IPv4.
bool is_v6_text(const std::string& range) { return range.find(':') != std::string::npos; }

CniResult<std::vector<AddressRange>> parse_ranges(const Section& section) {
  PDL_CNI_TRY_ASSIGN(const auto texts, section.texts("ranges"));
  if (!texts || texts->empty()) return section.fault("ranges", "names no addresses");
  const bool only_v6 = std::ranges::all_of(*texts, is_v6_text);
  PDL_CNI_TRY_ASSIGN(auto prefix4, prefix_length(section, "prefix", only_v6 ? 128 : 32));
  PDL_CNI_TRY_ASSIGN(auto prefix6, prefix_length(section, "prefix6", 128));
  if (only_v6 && prefix4) {
    if (prefix6) return section.fault("prefix", "is for IPv4, and the pool has no IPv4 range beside 'prefix6'");
    prefix6 = prefix4;
  }
  std::vector<AddressRange> ranges;
  for (const std::string& text : *texts) {
    auto range = parse_range(text, prefix4, prefix6);
    if (!range) {
      return cni_fail(cni_code::bad_config, "key '{}': \"{}\" {}", section.path_of("ranges"), text,
                      range.error().message);
    }
    ranges.push_back(std::move(*range));
  }
  return ranges;
}

CniResult<> check_gateway(const Section& section, const char* key, const Pool& pool, const IpAddress& gateway,
                          bool on_link_gateway) {
  if (!pool.has(gateway.family())) return section.fault(key, "is a gateway of a family that no range has");
  if (gateway.is_unspecified() || gateway.is_multicast() || gateway.is_loopback() || gateway.is_v4_mapped()) {
    return section.fault(key, "cannot be a gateway");
  }
  if (on_link_gateway || (gateway.is_v6() && gateway.is_link_local())) return {};
  for (const AddressRange& range : pool.ranges) {
    if (range.family() != gateway.family()) continue;
    if (!range.subnet.contains(gateway)) {
      return section.fault(key, formatted("is not in the subnet {} of range \"{}\"", range.subnet.text(), range.text));
    }
    if (const char* why = why_reserved(range, gateway); why != nullptr && gateway.is_v4()) {
      return section.fault(key, why);
    }
  }
  return {};
}

CniResult<> parse_gateways(const Section& section, Pool& pool, bool on_link_gateway) {
  for (const char* key : {"gateway", "gateway6"}) {
    PDL_CNI_TRY_ASSIGN(const auto gateway, address(section, key));
    if (!gateway) continue;
    if (key == std::string_view("gateway6") && gateway->is_v4()) return section.fault(key, "is no IPv6 address");
    auto& place = gateway->is_v4() ? pool.gateway4 : pool.gateway6;
    if (place) return section.fault(key, "is a second IPv6 gateway beside key 'gateway'");
    PDL_CNI_TRY(check_gateway(section, key, pool, *gateway, on_link_gateway));
    place = *gateway;
  }
  return {};
}

CniResult<Pool> parse_pool(const Section& section, bool on_link_gateway) {
  PDL_CNI_TRY(section.only({"uplink", "ranges", "prefix", "prefix6", "gateway", "gateway6"}));
  Pool pool;
  PDL_CNI_TRY_ASSIGN(pool.uplink, parse_uplink(section));
  PDL_CNI_TRY_ASSIGN(pool.ranges, parse_ranges(section));
  PDL_CNI_TRY(parse_gateways(section, pool, on_link_gateway));
  return pool;
}

CniResult<> check_overlaps(const std::vector<Pool>& pools) {
  struct Item {
    const AddressRange* range;
    const std::string* uplink;
  };
  std::vector<Item> items;
  for (const Pool& pool : pools) {
    for (const AddressRange& range : pool.ranges) items.push_back({&range, &pool.uplink});
  }
  std::ranges::sort(items, {}, [](const Item& item) { return item.range->first; });
  for (std::size_t i = 1; i < items.size(); ++i) {
    const Item& before = items[i - 1];
    const Item& after = items[i];
    if (before.range->family() == after.range->family() && after.range->first <= before.range->last) {
      return cni_fail(cni_code::bad_config, R"(key 'ipam.pools': range "{}" of {} and range "{}" of {} overlap)",
                      before.range->text, *before.uplink, after.range->text, *after.uplink);
    }
  }
  return {};
}

bool is_absolute(const std::string& path) { return path.starts_with('/') && path.find('\0') == std::string::npos; }

}  // namespace

bool Pool::has(Family family) const {
  return std::ranges::any_of(ranges, [family](const AddressRange& range) { return range.family() == family; });
}

const AddressRange* Pool::range_of(const IpAddress& address) const {
  const auto found = std::ranges::find_if(ranges, [&](const AddressRange& range) { return range.contains(address); });
  return found != ranges.end() ? &*found : nullptr;
}

CniResult<IpamConfig> parse_ipam_config(const NetworkConfig& config) {
  const Section root = config.root();
  PDL_CNI_TRY_ASSIGN(const auto section, root.section("ipam"));
  if (!section) return root.fault("ipam", "is missing");
  PDL_CNI_TRY(section->only({"type", "pools", "dataDir", "routes"}));
  PDL_CNI_TRY_ASSIGN(const auto on_link_gateway, root.flag("onLinkGateway"));

  IpamConfig ipam;
  PDL_CNI_TRY_ASSIGN(const auto data_dir, section->text("dataDir"));
  if (data_dir && !is_absolute(*data_dir)) return section->fault("dataDir", "is no absolute path");
  ipam.data_dir = data_dir.value_or(default_data_dir);
  PDL_CNI_TRY_ASSIGN(const auto pools, section->sections("pools"));
  if (pools.empty()) return section->fault("pools", "names no pool");
  for (const Section& pool_section : pools) {
    PDL_CNI_TRY_ASSIGN(auto pool, parse_pool(pool_section, on_link_gateway.value_or(false)));
    ipam.pools.push_back(std::move(pool));
  }
  PDL_CNI_TRY(check_overlaps(ipam.pools));
  PDL_CNI_TRY_ASSIGN(ipam.routes, parse_routes(*section));
  return ipam;
}

std::string data_dir_of(const NetworkConfig& config) {
  if (const auto section = config.root().section("ipam"); section && *section) {
    const auto data_dir = (**section).text("dataDir");
    if (data_dir && *data_dir && is_absolute(**data_dir)) return **data_dir;
  }
  return default_data_dir;
}

}  // namespace poduplink::ipam
