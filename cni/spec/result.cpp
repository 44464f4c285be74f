// SPDX-License-Identifier: Apache-2.0
#include "cni/spec/result.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "cni/spec/versions.h"

namespace poduplink {
namespace {

constexpr std::int64_t max_u32 = std::numeric_limits<std::uint32_t>::max();

CniResult<std::string> text_or_empty(const Section& section, std::string_view key) {
  PDL_CNI_TRY_ASSIGN(auto value, section.text(key));
  return value ? std::move(*value) : std::string();
}

CniResult<std::vector<std::string>> texts_or_empty(const Section& section, std::string_view key) {
  PDL_CNI_TRY_ASSIGN(auto value, section.texts(key));
  return value ? std::move(*value) : std::vector<std::string>();
}

CniResult<Prefix> required_prefix(const Section& section, std::string_view key) {
  PDL_CNI_TRY_ASSIGN(const auto value, section.text(key));
  if (!value) return section.fault(key, "is missing");
  const auto prefix = Prefix::parse(*value);
  if (!prefix) return section.fault(key, "is not an address with its prefix length");
  return *prefix;
}

// An empty string counts as absent, as Go writes it for none.
CniResult<std::optional<IpAddress>> optional_address(const Section& section, std::string_view key) {
  PDL_CNI_TRY_ASSIGN(const auto value, section.text(key));
  if (!value || value->empty()) return std::nullopt;
  const auto address = IpAddress::parse(*value);
  if (!address) return section.fault(key, "is not an address");
  return *address;
}

CniResult<std::optional<std::uint32_t>> optional_u32(const Section& section, std::string_view key) {
  PDL_CNI_TRY_ASSIGN(const auto value, section.number(key, 0, max_u32));
  if (!value) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

CniResult<ResultInterface> parse_interface(const Section& section) {
  ResultInterface interface;
  PDL_CNI_TRY_ASSIGN(interface.name, text_or_empty(section, "name"));
  PDL_CNI_TRY_ASSIGN(interface.mac, text_or_empty(section, "mac"));
  PDL_CNI_TRY_ASSIGN(interface.sandbox, text_or_empty(section, "sandbox"));
  PDL_CNI_TRY_ASSIGN(const auto mtu, optional_u32(section, "mtu"));
  interface.mtu = mtu.value_or(0);
  PDL_CNI_TRY_ASSIGN(interface.socket_path, text_or_empty(section, "socketPath"));
  PDL_CNI_TRY_ASSIGN(interface.pci_id, text_or_empty(section, "pciID"));
  return interface;
}

CniResult<ResultIp> parse_ip(const Section& section) {
  ResultIp ip;
  PDL_CNI_TRY_ASSIGN(ip.address, required_prefix(section, "address"));
  PDL_CNI_TRY_ASSIGN(ip.gateway, optional_address(section, "gateway"));
  constexpr auto limits = std::numeric_limits<std::int32_t>();
  PDL_CNI_TRY_ASSIGN(ip.interface, section.number("interface", limits.min(), limits.max()));
  return ip;
}

CniResult<ResultRoute> parse_route(const Section& section) {
  ResultRoute route;
  PDL_CNI_TRY_ASSIGN(route.dst, required_prefix(section, "dst"));
  PDL_CNI_TRY_ASSIGN(route.gw, optional_address(section, "gw"));
  PDL_CNI_TRY_ASSIGN(route.mtu, optional_u32(section, "mtu"));
  PDL_CNI_TRY_ASSIGN(route.advmss, optional_u32(section, "advmss"));
  PDL_CNI_TRY_ASSIGN(route.priority, optional_u32(section, "priority"));
  PDL_CNI_TRY_ASSIGN(route.table, optional_u32(section, "table"));
  PDL_CNI_TRY_ASSIGN(route.scope, optional_u32(section, "scope"));
  return route;
}

template <typename T>
CniResult<std::vector<T>> parse_list(const Section& root, std::string_view key, CniResult<T> (*parse)(const Section&)) {
  PDL_CNI_TRY_ASSIGN(const auto sections, root.sections(key));
  std::vector<T> list;
  for (const Section& section : sections) {
    PDL_CNI_TRY_ASSIGN(auto item, parse(section));
    list.push_back(std::move(item));
  }
  return list;
}

CniResult<AddResult> parse_fields(const Section& root, std::string_view config_version) {
  PDL_CNI_TRY_ASSIGN(const auto given, text_or_empty(root, "cniVersion"));
  const std::string version = given.empty() ? std::string(config_version) : given;
  if (!is_supported_version(version)) {
    return cni_fail(cni_code::incompatible_version, "result has the unknown cniVersion \"{}\"", version);
  }
  AddResult result;
  PDL_CNI_TRY_ASSIGN(result.interfaces, parse_list<ResultInterface>(root, "interfaces", &parse_interface));
  PDL_CNI_TRY_ASSIGN(result.ips, parse_list<ResultIp>(root, "ips", &parse_ip));
  PDL_CNI_TRY_ASSIGN(result.routes, parse_routes(root));
  PDL_CNI_TRY_ASSIGN(const auto dns, root.section("dns"));
  if (dns) {
    PDL_CNI_TRY_ASSIGN(result.dns, parse_dns(*dns));
  }
  return result;
}

}  // namespace

CniResult<Dns> parse_dns(const Section& section) {
  Dns dns;
  PDL_CNI_TRY_ASSIGN(dns.nameservers, texts_or_empty(section, "nameservers"));
  PDL_CNI_TRY_ASSIGN(dns.domain, text_or_empty(section, "domain"));
  PDL_CNI_TRY_ASSIGN(dns.search, texts_or_empty(section, "search"));
  PDL_CNI_TRY_ASSIGN(dns.options, texts_or_empty(section, "options"));
  return dns;
}

CniResult<std::vector<ResultRoute>> parse_routes(const Section& section) {
  return parse_list<ResultRoute>(section, "routes", &parse_route);
}

CniResult<AddResult> parse_add_result(const nlohmann::json& value, std::string_view config_version) {
  if (value.is_null()) return AddResult{};
  if (!value.is_object()) return cni_fail(cni_code::undecodable, "result {} is not an object", brief_json(value));
  // Go matches keys in any case, so other plugins may print them so.
  auto result = parse_fields(Section(value, {}, KeyCase::any), config_version);
  if (!result && result.error().code == cni_code::bad_config) result.error().code = cni_code::undecodable;
  return result;
}

CniResult<AddResult> parse_add_result_text(std::string_view text, std::string_view config_version) {
  PDL_CNI_TRY_ASSIGN(const auto document, parse_json(text));
  return parse_add_result(document.get(), config_version);
}

}  // namespace poduplink
