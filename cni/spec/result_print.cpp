// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "cni/spec/result.h"
#include "cni/spec/versions.h"

namespace poduplink {
namespace {

using nlohmann::json;

void set_if_given(json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

void set_if_given(json& object, const char* key, const std::optional<std::uint32_t>& value) {
  if (value) object[key] = *value;
}

void set_if_given(json& object, const char* key, const std::vector<std::string>& values) {
  if (!values.empty()) object[key] = values;
}

json interface_object(const ResultInterface& interface, bool is_1_1) {
  json object = json::object();
  object["name"] = interface.name;
  set_if_given(object, "mac", interface.mac);
  set_if_given(object, "sandbox", interface.sandbox);
  if (is_1_1) {
    if (interface.mtu > 0) object["mtu"] = interface.mtu;
    set_if_given(object, "socketPath", interface.socket_path);
    set_if_given(object, "pciID", interface.pci_id);
  }
  return object;
}

json ip_object(const ResultIp& ip, bool names_family) {
  json object = json::object();
  if (names_family) object["version"] = ip.address.address().is_v4() ? "4" : "6";
  object["address"] = ip.address.text();
  if (ip.gateway) object["gateway"] = ip.gateway->text();
  if (ip.interface) object["interface"] = *ip.interface;
  return object;
}

json route_object(const ResultRoute& route, bool is_1_1) {
  json object = json::object();
  object["dst"] = route.dst.text();
  if (route.gw) object["gw"] = route.gw->text();
  if (is_1_1) {
    set_if_given(object, "mtu", route.mtu);
    set_if_given(object, "advmss", route.advmss);
    set_if_given(object, "priority", route.priority);
    set_if_given(object, "table", route.table);
    set_if_given(object, "scope", route.scope);
  }
  return object;
}

json dns_object(const Dns& dns) {
  json object = json::object();
  set_if_given(object, "nameservers", dns.nameservers);
  set_if_given(object, "domain", dns.domain);
  set_if_given(object, "search", dns.search);
  set_if_given(object, "options", dns.options);
  return object;
}

}  // namespace

std::string print_add_result(const AddResult& result, std::string_view cni_version) {
  const bool is_1_1 = version_at_least(cni_version, "1.1.0");
  const bool names_family = !version_at_least(cni_version, "1.0.0");
  json document = json::object();
  document["cniVersion"] = std::string(cni_version);
  document["interfaces"] = json::array();
  for (const auto& interface : result.interfaces) {
    document["interfaces"].push_back(interface_object(interface, is_1_1));
  }
  document["ips"] = json::array();
  for (const auto& ip : result.ips) document["ips"].push_back(ip_object(ip, names_family));
  if (!result.routes.empty()) document["routes"] = json::array();
  for (const auto& route : result.routes) document["routes"].push_back(route_object(route, is_1_1));
  if (!result.dns.empty()) document["dns"] = dns_object(result.dns);
  return print_json(document);
}

}  // namespace poduplink
