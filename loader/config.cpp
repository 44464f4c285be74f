// SPDX-License-Identifier: Apache-2.0
#include "loader/config.h"

#include <charconv>
#include <map>

#include <nlohmann/json.hpp>

#include "loader/base/address.h"
#include "loader/json_reader.h"

namespace poduplink {
namespace {

using nlohmann::json;
using Problems = std::vector<std::string>;

constexpr std::uint32_t most_entries = 1U << 24;
constexpr std::uint32_t most_uplinks = 4096;

Result<std::string> parse_interface_name(const std::string& text) {
  if (!is_interface_name(text)) return fail("'{}' is no interface name", text);
  if (text == "lo") return fail("'lo' is the loopback interface, which leads nowhere");
  return text;
}

Result<MacAddress> parse_unicast_mac(const std::string& text) {
  const Result<MacAddress> mac = MacAddress::parse(text);
  if (!mac) return fail("'{}' is no MAC address", text);
  if (mac->is_zero() || mac->is_multicast()) return fail("'{}' is not the MAC address of one interface", text);
  return *mac;
}

Result<IpAddress> parse_gateway(const std::string& text, Family family) {
  const char* wanted = family == Family::v4 ? "IPv4" : "IPv6";
  const Result<IpAddress> address = IpAddress::parse(text);
  if (!address || address->family() != family) return fail("'{}' is no {} address", text, wanted);
  const bool broadcast = address->is_v4() && address->text() == "255.255.255.255";
  if (address->is_unspecified() || address->is_loopback() || address->is_multicast() || address->is_v4_mapped() ||
      broadcast)
    return fail("'{}' cannot be a gateway", text);
  return *address;
}

Result<WhenDown> parse_when_down(const std::string& text) {
  if (text == "drop") return WhenDown::drop;
  if (text == "stack") return WhenDown::stack;
  return fail("'{}' is neither 'drop' nor 'stack'", text);
}

Result<std::uint16_t> parse_port(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0 || port > 65535)
    return fail("'{}' is no port", text);
  return static_cast<std::uint16_t>(port);
}

Result<ListenAddress> parse_listen(const std::string& text) {
  ListenAddress listen;
  if (text == "off") return listen;
  if (text.starts_with("unix:")) {
    listen.path = text.substr(5);
    // sun_path of sockaddr_un has 108 octets with the final zero.
    if (!listen.path.starts_with('/') || listen.path.size() > 107)
      return fail("'{}': a unix socket needs an absolute path of at most 107 octets", text);
    return listen;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return fail("'{}' is not ADDRESS:PORT, unix:/PATH or off", text);
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const Result<IpAddress> address = IpAddress::parse(host);
  const Result<std::uint16_t> port = parse_port(std::string_view(text).substr(colon + 1));
  if (!address || !port || bracketed != address->is_v6())
    return fail("'{}' is not ADDRESS:PORT (IPv6 in brackets), unix:/PATH or off", text);
  listen.address = *address;
  listen.port = *port;
  return listen;
}

// An exempt prefix or a single address.
Result<Prefix> parse_exempt(const std::string& text) {
  const Result<Prefix> prefix = Prefix::parse_or_host(text);
  if (!prefix) return fail("'{}' is no prefix", text);
  if (prefix->address().is_v4_mapped()) return fail("'{}' is an IPv4 prefix in IPv6 form; write it as IPv4", text);
  if (prefix->has_host_bits()) return fail("'{}' has host bits set; its network is {}", text, prefix->subnet().text());
  if (prefix->length() == 0) return fail("'{}' would exempt every destination, so that nothing is steered", text);
  return *prefix;
}

Result<Prefix> parse_link_local(const std::string& text) {
  const Result<Prefix> prefix = Prefix::parse_or_host(text);
  if (!prefix || prefix->family() != Family::v4) return fail("'{}' is no IPv4 prefix", text);
  if (!prefix->address().is_link_local() || prefix->length() < 16)
    return fail("'{}' does not lie in 169.254.0.0/16", text);
  if (prefix->has_host_bits()) return fail("'{}' has host bits set; its network is {}", text, prefix->subnet().text());
  return *prefix;
}

// A list of prefixes without repetitions.
void read_prefixes(ObjectReader& reader, std::string_view key, std::vector<Prefix>& prefixes, Problems& problems,
                   Result<Prefix> (*parse)(const std::string&)) {
  std::map<Prefix, std::string> seen;
  reader.each(key, [&](const json& element, const std::string& path) {
    if (!element.is_string()) {
      problems.push_back(formatted("{}: {} is not a text", path, quoted(element)));
      return;
    }
    const Result<Prefix> prefix = parse(element.get_ref<const std::string&>());
    if (!prefix) {
      problems.push_back(path + ": " + prefix.error().message);
      return;
    }
    const auto [place, fresh] = seen.emplace(*prefix, path);
    if (!fresh) problems.push_back(formatted("{}: '{}' stands in {} already", path, prefix->text(), place->second));
    prefixes.push_back(*prefix);
  });
}

UplinkConfig read_uplink(const json& element, const std::string& path, Problems& problems) {
  UplinkConfig uplink;
  ObjectReader reader(element, path, problems);
  reader.read_text("name", uplink.name, parse_interface_name);
  reader.read_text("mac", uplink.mac, parse_unicast_mac);
  reader.read_text("gateway4", uplink.gateway4,
                   [](const std::string& text) { return parse_gateway(text, Family::v4); });
  reader.read_text("gateway6", uplink.gateway6,
                   [](const std::string& text) { return parse_gateway(text, Family::v6); });
  reader.read_text("gatewayMac", uplink.gateway_mac, parse_unicast_mac);
  reader.read("onLink", uplink.on_link);
  reader.read("answerNeighbours", uplink.answer_neighbours);
  reader.read_text("whenDown", uplink.when_down, parse_when_down);
  reader.read("strict", uplink.strict);
  reader.read("manageRpFilter", uplink.manage_rp_filter);
  read_prefixes(reader, "linkLocal", uplink.link_local, problems, parse_link_local);
  if (uplink.link_local.size() > PDL_MAX_LINK_LOCAL)
    reader.problem("linkLocal",
                   formatted("{} prefixes, at most {} are possible", uplink.link_local.size(), PDL_MAX_LINK_LOCAL));
  if (!element.contains("name") && !element.contains("mac"))
    problems.push_back(formatted("{}: neither 'name' nor 'mac' says which interface it is", path));
  reader.finish();
  return uplink;
}

void read_uplinks(ObjectReader& top, AgentConfig& config, Problems& problems) {
  config.discover = top.find("uplinks") == nullptr;
  std::map<std::string, std::string> names;
  std::map<MacAddress, std::string> macs;
  top.each("uplinks", [&](const json& element, const std::string& path) {
    if (!element.is_object()) {
      problems.push_back(formatted("{}: {} is not an object", path, quoted(element)));
      return;
    }
    const UplinkConfig& uplink = config.uplinks.emplace_back(read_uplink(element, path, problems));
    if (!uplink.name.empty()) {
      const auto [place, fresh] = names.emplace(uplink.name, path);
      if (!fresh) problems.push_back(formatted("{}.name: '{}' is {} already", path, uplink.name, place->second));
    }
    if (uplink.mac) {
      const auto [place, fresh] = macs.emplace(*uplink.mac, path);
      if (!fresh) problems.push_back(formatted("{}.mac: '{}' is {} already", path, uplink.mac->text(), place->second));
    }
  });
  const json* list = top.find("uplinks");
  if (list != nullptr && list->is_array() && list->empty())
    top.problem("uplinks", "[] is an empty list; leave the key out to have the uplinks discovered");
}

void check_counts(const AgentConfig& config, Problems& problems) {
  if (config.uplinks.size() > config.map_sizes.uplinks)
    problems.push_back(
        formatted("uplinks: {} items, but mapSizes.uplinks is {}", config.uplinks.size(), config.map_sizes.uplinks));
  std::uint32_t v4 = 0;
  std::uint32_t v6 = 0;
  for (const Prefix& prefix : config.exempt) ++(prefix.family() == Family::v4 ? v4 : v6);
  for (const auto& [count, family] : {std::pair(v4, "IPv4"), std::pair(v6, "IPv6")}) {
    if (count > config.map_sizes.exempt)
      problems.push_back(
          formatted("exempt: {} {} prefixes, but mapSizes.exempt is {}", count, family, config.map_sizes.exempt));
  }
}

// Calls `read` with a reader of the object under a key, where there is one.
template <typename Read>
void read_object(ObjectReader& top, std::string_view key, Problems& problems, const Read& read) {
  const json* found = top.find(key);
  if (found == nullptr || !top.expect(*found, found->is_object(), key, "an object")) return;
  ObjectReader reader(*found, top.at(key), problems);
  read(reader);
  reader.finish();
}

}  // namespace

std::string ListenAddress::text() const {
  if (is_off()) return "off";
  if (!address) return "unix:" + path;
  const std::string host = address->text();
  return address->is_v6() ? formatted("[{}]:{}", host, port) : formatted("{}:{}", host, port);
}

AgentConfig::AgentConfig() {
  metrics_listen.address = IpAddress::v4(std::array<std::uint8_t, 4>{127, 0, 0, 1});
  metrics_listen.port = 9465;
}

CheckedConfig check_config_text(const std::string& text) {
  CheckedConfig checked;
  Problems& problems = checked.problems;
  AgentConfig& config = checked.config;
  const Result<json> document = parse_json(text);
  if (!document) {
    problems.push_back(document.error().message);
    return checked;
  }
  if (!document->is_object()) {
    problems.push_back(formatted("{} is not an object", quoted(*document)));
    return checked;
  }
  ObjectReader top(*document, "", problems);
  read_uplinks(top, config, problems);
  read_prefixes(top, "exempt", config.exempt, problems, parse_exempt);
  top.read("steerNode", config.steer_node);
  read_object(top, "metrics", problems,
              [&](ObjectReader& reader) { reader.read_text("listen", config.metrics_listen, parse_listen); });
  read_object(top, "mapSizes", problems, [&](ObjectReader& reader) {
    reader.read("pods", config.map_sizes.pods, 1, most_entries);
    reader.read("nodes", config.map_sizes.nodes, 1, most_entries);
    reader.read("uplinks", config.map_sizes.uplinks, 1, most_uplinks);
    reader.read("exempt", config.map_sizes.exempt, 1, most_entries);
  });
  top.finish();
  check_counts(config, problems);
  return checked;
}

Result<AgentConfig> parse_config(const std::string& text) {
  CheckedConfig checked = check_config_text(text);
  if (checked.problems.empty()) return std::move(checked.config);
  return fail("{}", joined(checked.problems, "; "));
}

}  // namespace poduplink
