// SPDX-License-Identifier: Apache-2.0
// The agent's configuration file: JSON text in, checked values out. Nothing here looks at the machine, so
// that `poduplinkctl check-config` says the same of a file anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/result.h"
#include "maps/abi.h"

namespace poduplink {

inline constexpr const char* default_config_path = "/etc/poduplink/config.json";

enum class WhenDown { drop, stack };

// One item of "uplinks". At least one of name and mac is set.
struct UplinkConfig {
  std::string name;  // empty: found by its MAC alone
  std::optional<MacAddress> mac;
  std::optional<IpAddress> gateway4;
  std::optional<IpAddress> gateway6;
  std::optional<MacAddress> gateway_mac;  // kept as a permanent neighbour for the gateways
  bool on_link = true;
  bool answer_neighbours = true;
  WhenDown when_down = WhenDown::drop;
  bool strict = false;
  bool manage_rp_filter = false;
  std::vector<Prefix> link_local;

  // How messages call it: its name, else its MAC.
  [[nodiscard]] std::string label() const { return name.empty() ? mac.value_or(MacAddress{}).text() : name; }

  friend bool operator==(const UplinkConfig&, const UplinkConfig&) = default;
};

// Entries of the maps, fixed when the maps are made.
struct MapSizes {
  std::uint32_t pods = PDL_MAX_PODS;  // of each family
  std::uint32_t nodes = PDL_MAX_NODES;
  std::uint32_t uplinks = PDL_MAX_UPLINKS;
  std::uint32_t exempt = PDL_MAX_EXEMPT;

  friend bool operator==(const MapSizes&, const MapSizes&) = default;
};

// "127.0.0.1:9465", "[::1]:9465", "unix:/run/poduplink/metrics" or "off".
struct ListenAddress {
  std::optional<IpAddress> address;  // none: a unix socket, or off
  std::uint16_t port = 0;
  std::string path;  // of a unix socket

  [[nodiscard]] bool is_off() const { return !address && path.empty(); }
  // As it stands in the configuration.
  [[nodiscard]] std::string text() const;

  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

struct AgentConfig {
  AgentConfig();

  bool discover = true;  // "uplinks" is absent
  std::vector<UplinkConfig> uplinks;
  std::vector<Prefix> exempt;  // network addresses, in the order of the file: an item's place is its number
  bool steer_node = false;
  ListenAddress metrics_listen;
  MapSizes map_sizes;

  friend bool operator==(const AgentConfig&, const AgentConfig&) = default;
};

struct CheckedConfig {
  AgentConfig config;                 // of no use where there are problems
  std::vector<std::string> problems;  // each names key and value
};

// Finds every mistake, not only the first.
CheckedConfig check_config_text(const std::string& text);

// Errors: all mistakes in one message.
Result<AgentConfig> parse_config(const std::string& text);

}  // namespace poduplink
