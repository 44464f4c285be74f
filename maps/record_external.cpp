// SPDX-License-Identifier: Apache-2.0
#include "maps/record_external.h"

#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "maps/json_fields.h"

namespace poduplink {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t max_octet = std::numeric_limits<std::uint8_t>::max();
constexpr std::int64_t max_number = std::numeric_limits<std::uint32_t>::max();

// A route has one next hop at most here.
Json route_json(const Route& route) {
  Json json = {{"to", route.destination.text()},
               {"table", route.table},
               {"metric", route.metric},
               {"type", route.type},
               {"protocol", route.protocol},
               {"scope", route.scope},
               {"tos", route.tos},
               {"onLink", route.on_link},
               {"mtu", route.mtu},
               {"advmss", route.advmss},
               {"preference", route.preference}};
  if (!route.next_hops.empty()) {
    json["link"] = route.next_hops.front().link;
    if (route.next_hops.front().gateway) json["via"] = route.next_hops.front().gateway->text();
  }
  if (route.source) json["source"] = route.source->text();
  json["metrics"] = Json::array();
  for (const auto& [metric, value] : route.metrics) json["metrics"].push_back({{"metric", metric}, {"value", value}});
  return json;
}

template <typename Number>
Result<> read_number(const Json& json, const char* key, std::int64_t max, Number& into) {
  PDL_TRY_ASSIGN(const std::int64_t value, integer_at(json, key, max));
  into = static_cast<Number>(value);
  return {};
}

Result<> read_next_hop(const Json& json, Route& route) {
  if (!json.contains("link")) return json.contains("via") ? Result<>(fail("via: there is no link")) : Result<>();
  NextHop hop;
  PDL_TRY_ASSIGN(hop.link, index_at(json, "link"));
  if (json.contains("via")) {
    PDL_TRY_ASSIGN(hop.gateway, IpAddress::parse(json["via"].get<std::string>()));
  }
  route.next_hops.push_back(hop);
  return {};
}

Result<Route> parse_route_json(const Json& json) {
  Route route;
  PDL_TRY_ASSIGN(route.destination, Prefix::parse(json.at("to").get<std::string>()));
  if (route.destination.has_host_bits()) return fail("to: {} has host bits", route.destination.text());
  PDL_TRY(read_number(json, "table", max_number, route.table));
  PDL_TRY(read_number(json, "metric", max_number, route.metric));
  PDL_TRY(read_number(json, "type", max_octet, route.type));
  PDL_TRY(read_number(json, "protocol", max_octet, route.protocol));
  PDL_TRY(read_number(json, "scope", max_octet, route.scope));
  PDL_TRY(read_number(json, "tos", max_octet, route.tos));
  PDL_TRY(read_number(json, "mtu", max_number, route.mtu));
  PDL_TRY(read_number(json, "advmss", max_number, route.advmss));
  PDL_TRY(read_number(json, "preference", max_octet, route.preference));
  route.on_link = json.at("onLink").get<bool>();
  PDL_TRY(read_next_hop(json, route));
  if (json.contains("source")) {
    PDL_TRY_ASSIGN(route.source, IpAddress::parse(json["source"].get<std::string>()));
  }
  for (const Json& entry : json.at("metrics")) {
    auto& [metric, value] = route.metrics.emplace_back();
    PDL_TRY(read_number(entry, "metric", std::numeric_limits<std::uint16_t>::max(), metric));
    PDL_TRY(read_number(entry, "value", max_number, value));
  }
  return route;
}

Json routes_json(const std::vector<Route>& routes) {
  Json list = Json::array();
  for (const Route& route : routes) list.push_back(route_json(route));
  return list;
}

Result<std::vector<Route>> parse_routes_json(const Json& list) {
  std::vector<Route> routes;
  for (const Json& entry : list) {
    PDL_TRY_ASSIGN(Route route, parse_route_json(entry));
    routes.push_back(std::move(route));
  }
  return routes;
}

Result<Rule> parse_rule_json(const Json& json) {
  Rule rule;
  PDL_TRY_ASSIGN(rule.from, Prefix::parse(json.at("from").get<std::string>()));
  PDL_TRY(read_number(json, "table", max_number, rule.table));
  PDL_TRY(read_number(json, "preference", max_number, rule.preference));
  return rule;
}

}  // namespace

Json external_json(const RecordExternal& external) {
  Json json = {{"ifName", external.if_name},
               {"netnsCookie", external.netns_cookie},
               {"firstInterface", external.first_name},
               {"firstIndex", external.first_index},
               {"firstAddresses", Json::array()},
               {"formerDefaultRoutes", routes_json(external.former)},
               {"routes", routes_json(external.made)},
               {"rules", Json::array()}};
  for (const IpAddress& address : external.first_addresses) json["firstAddresses"].push_back(address.text());
  for (const Rule& rule : external.rules)
    json["rules"].push_back({{"from", rule.from.text()}, {"table", rule.table}, {"preference", rule.preference}});
  if (!external.failed_open.empty()) json["failedOpen"] = external.failed_open;
  return json;
}

Result<RecordExternal> parse_external_json(const Json& json) {
  RecordExternal external;
  external.if_name = json.at("ifName").get<std::string>();
  PDL_TRY(read_number(json, "netnsCookie", std::numeric_limits<std::int64_t>::max(), external.netns_cookie));
  external.first_name = json.at("firstInterface").get<std::string>();
  PDL_TRY_ASSIGN(external.first_index, index_at(json, "firstIndex"));
  for (const Json& text : json.at("firstAddresses")) {
    PDL_TRY_ASSIGN(const IpAddress address, IpAddress::parse(text.get<std::string>()));
    external.first_addresses.push_back(address);
  }
  PDL_TRY_ASSIGN(external.former, parse_routes_json(json.at("formerDefaultRoutes")));
  PDL_TRY_ASSIGN(external.made, parse_routes_json(json.at("routes")));
  for (const Json& entry : json.at("rules")) {
    PDL_TRY_ASSIGN(const Rule rule, parse_rule_json(entry));
    external.rules.push_back(rule);
  }
  if (json.contains("failedOpen")) external.failed_open = json["failedOpen"].get<std::string>();
  return external;
}

}  // namespace poduplink
