// SPDX-License-Identifier: Apache-2.0
#include "maps/record_external.h"

#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "maps/json_text.h"

namespace poduplink {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t max_octet = std::numeric_limits<std::uint8_t>::max();
constexpr std::uint64_t max_number = std::numeric_limits<std::uint32_t>::max();

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
Result<> read_number(const JsonValue& json, const char* key, std::uint64_t max, Number& into) {
  PDL_TRY_ASSIGN(const std::uint64_t value, json.number_at(key, max));
  into = static_cast<Number>(value);
  return {};
}

Result<> read_next_hop(const JsonValue& json, Route& route) {
  if (!json.contains("link")) return json.contains("via") ? Result<>(fail("via: there is no link")) : Result<>();
  NextHop hop;
  PDL_TRY_ASSIGN(hop.link, json.index_at("link"));
  if (json.contains("via")) {
    PDL_TRY_ASSIGN(hop.gateway, json.parsed_at("via", IpAddress::parse));
  }
  route.next_hops.push_back(hop);
  return {};
}

Result<Route> read_route(const JsonValue& json) {
  Route route;
  PDL_TRY_ASSIGN(route.destination, json.parsed_at("to", Prefix::parse));
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
  PDL_TRY_ASSIGN(route.on_link, json.bool_at("onLink"));
  PDL_TRY(read_next_hop(json, route));
  if (json.contains("source")) {
    PDL_TRY_ASSIGN(route.source, json.parsed_at("source", IpAddress::parse));
  }
  PDL_TRY_ASSIGN(const auto metrics, json.items_at("metrics"));
  for (const JsonValue& entry : metrics) {
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

Result<std::vector<Route>> read_routes(const JsonValue& json, const char* key) {
  PDL_TRY_ASSIGN(const auto entries, json.items_at(key));
  std::vector<Route> routes;
  for (const JsonValue& entry : entries) {
    PDL_TRY_ASSIGN(Route route, read_route(entry));
    routes.push_back(std::move(route));
  }
  return routes;
}

Result<Rule> read_rule(const JsonValue& json) {
  Rule rule;
  PDL_TRY_ASSIGN(rule.from, json.parsed_at("from", Prefix::parse));
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

Result<RecordExternal> read_external(const JsonValue& json) {
  RecordExternal external;
  PDL_TRY_ASSIGN(external.if_name, json.text_at("ifName"));
  PDL_TRY(read_number(json, "netnsCookie", std::numeric_limits<std::int64_t>::max(), external.netns_cookie));
  PDL_TRY_ASSIGN(external.first_name, json.text_at("firstInterface"));
  PDL_TRY_ASSIGN(external.first_index, json.index_at("firstIndex"));
  PDL_TRY_ASSIGN(const auto addresses, json.items_at("firstAddresses"));
  for (const JsonValue& item : addresses) {
    PDL_TRY_ASSIGN(const std::string_view text, item.text("firstAddresses"));
    PDL_TRY_ASSIGN(const IpAddress address, IpAddress::parse(text));
    external.first_addresses.push_back(address);
  }
  PDL_TRY_ASSIGN(external.former, read_routes(json, "formerDefaultRoutes"));
  PDL_TRY_ASSIGN(external.made, read_routes(json, "routes"));
  PDL_TRY_ASSIGN(const auto rules, json.items_at("rules"));
  for (const JsonValue& entry : rules) {
    PDL_TRY_ASSIGN(const Rule rule, read_rule(entry));
    external.rules.push_back(rule);
  }
  if (json.contains("failedOpen")) {
    PDL_TRY_ASSIGN(external.failed_open, json.text_at("failedOpen"));
  }
  return external;
}

}  // namespace poduplink
