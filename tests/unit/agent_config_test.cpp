// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "loader/config.h"

using namespace poduplink;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("an empty object is the default configuration, with discovery") {
  const auto config = parse_config("{}");
  REQUIRE(config);
  CHECK(*config == AgentConfig{});
  CHECK(config->discover);
  CHECK(config->exempt.empty());
  CHECK_FALSE(config->steer_node);
  CHECK(config->metrics_listen.address->text() == "127.0.0.1");
  CHECK(config->metrics_listen.port == 9465);
  CHECK(config->map_sizes.pods == 65536);
}

TEST_CASE("every key of the configuration is read") {
  const auto config = parse_config(R"({
    "uplinks": [{"name": "eth1"},
                {"name": "eth2", "mac": "02:00:00:00:00:02", "gateway4": "10.2.0.1", "gateway6": "fe80::1",
                 "gatewayMac": "12:34:56:78:9a:bc", "onLink": false, "answerNeighbours": false, "whenDown": "stack",
                 "strict": true, "manageRpFilter": true, "linkLocal": ["169.254.169.254/32", "169.254.170.0/24"]}],
    "exempt": ["10.96.0.0/12", "fd00:96::/108", "192.0.2.1"],
    "steerNode": true, "metrics": {"listen": "[::1]:9000"},
    "mapSizes": {"pods": 1000, "nodes": 100, "uplinks": 10, "exempt": 500}})");
  REQUIRE(config);
  CHECK_FALSE(config->discover);
  REQUIRE(config->uplinks.size() == 2);
  const UplinkConfig& plain = config->uplinks[0];
  CHECK(plain.name == "eth1");
  CHECK((plain.on_link && plain.answer_neighbours && !plain.strict && !plain.manage_rp_filter));
  CHECK(plain.when_down == WhenDown::drop);
  const UplinkConfig& full = config->uplinks[1];
  CHECK(full.mac->text() == "02:00:00:00:00:02");
  CHECK(full.gateway4->text() == "10.2.0.1");
  CHECK(full.gateway6->text() == "fe80::1");
  CHECK(full.gateway_mac->text() == "12:34:56:78:9a:bc");
  CHECK((!full.on_link && !full.answer_neighbours && full.strict && full.manage_rp_filter));
  CHECK(full.when_down == WhenDown::stack);
  REQUIRE(full.link_local.size() == 2);
  CHECK(full.link_local[1].text() == "169.254.170.0/24");
  REQUIRE(config->exempt.size() == 3);
  CHECK(config->exempt[2].text() == "192.0.2.1/32");
  CHECK(config->steer_node);
  CHECK(config->metrics_listen.address->is_v6());
  CHECK(config->metrics_listen.port == 9000);
  CHECK(config->map_sizes == MapSizes{1000, 100, 10, 500});
}

TEST_CASE("metrics can be switched off, and an address reads as it was written") {
  const auto off = parse_config(R"({"metrics": {"listen": "off"}})");
  REQUIRE(off);
  CHECK(off->metrics_listen.is_off());
  for (const std::string text : {"127.0.0.1:9465", "[::1]:9000", "unix:/run/poduplink/metrics", "off"})
    CHECK(parse_config(formatted(R"({{"metrics": {{"listen": "{}"}}}})", text)).value().metrics_listen.text() == text);
}

TEST_CASE("metrics can listen on a unix socket") {
  const auto config = parse_config(R"({"metrics": {"listen": "unix:/run/poduplink/metrics"}})");
  REQUIRE(config);
  CHECK_FALSE(config->metrics_listen.address);
  CHECK(config->metrics_listen.path == "/run/poduplink/metrics");
  CHECK_FALSE(config->metrics_listen.is_off());
}

namespace {

struct Mistake {
  const char* text;
  const char* message;
};

}  // namespace

TEST_CASE("a mistake is named with its key and value") {
  const auto mistake = GENERATE(
      Mistake{R"({"uplinks": [{"name": "a"}, {"name": "b", "gateway4": "10.2.0.999"}]})",
              "uplinks[1].gateway4: '10.2.0.999' is no IPv4 address"},
      Mistake{R"({"uplinks": [{"name": "a", "gateway4": "fe80::1"}]})", "uplinks[0].gateway4: 'fe80::1' is no IPv4"},
      Mistake{R"({"uplinks": [{"name": "a", "gateway6": "10.0.0.1"}]})", "uplinks[0].gateway6: '10.0.0.1' is no IPv6"},
      Mistake{R"({"uplinks": [{"name": "a", "gateway4": "0.0.0.0"}]})", "uplinks[0].gateway4: '0.0.0.0' cannot"},
      Mistake{R"({"uplinks": [{"name": "a", "gateway4": "224.0.0.1"}]})", "uplinks[0].gateway4: '224.0.0.1' cannot"},
      Mistake{R"({"uplinks": [{"name": "a", "gateway4": "255.255.255.255"}]})", "'255.255.255.255' cannot"},
      Mistake{R"({"uplinks": [{"name": "a", "gateway6": "::ffff:10.0.0.1"}]})",
              "uplinks[0].gateway6: '::ffff:10.0.0.1'"},
      Mistake{R"({"uplinks": [{"name": "a", "gatewayMac": "02:00:zz"}]})",
              "uplinks[0].gatewayMac: '02:00:zz' is no MAC"},
      Mistake{R"({"uplinks": [{"name": "a", "gatewayMac": "01:00:5e:00:00:01"}]})", "gatewayMac: '01:00:5e:00:00:01'"},
      Mistake{R"({"uplinks": [{"mac": "00:00:00:00:00:00"}]})", "uplinks[0].mac: '00:00:00:00:00:00'"},
      Mistake{R"({"uplinks": [{"name": "this-name-is-too-long"}]})", "uplinks[0].name: 'this-name-is-too-long'"},
      Mistake{R"({"uplinks": [{"name": "lo"}]})", "uplinks[0].name: 'lo' is the loopback"},
      Mistake{R"({"uplinks": [{"name": ""}]})", "uplinks[0].name: '' is no interface name"},
      Mistake{R"({"uplinks": [{"onLink": true}]})", "uplinks[0]: neither 'name' nor 'mac'"},
      Mistake{R"({"uplinks": [{"name": "a", "onLink": "yes"}]})", "uplinks[0].onLink: 'yes' is not true or false"},
      Mistake{R"({"uplinks": [{"name": "a", "strict": 1}]})", "uplinks[0].strict: 1 is not true or false"},
      Mistake{R"({"uplinks": [{"name": "a", "whenDown": "pass"}]})", "uplinks[0].whenDown: 'pass' is neither"},
      Mistake{R"({"uplinks": [{"name": "a", "gateway": "10.0.0.1"}]})",
              "uplinks[0].gateway: unknown key (its value is '10.0.0.1')"},
      Mistake{R"({"uplinks": [{"name": "a", "linkLocal": ["10.0.0.0/8"]}]})",
              "uplinks[0].linkLocal[0]: '10.0.0.0/8' does not lie"},
      Mistake{R"({"uplinks": [{"name": "a", "linkLocal": ["169.254.0.0/15"]}]})",
              "linkLocal[0]: '169.254.0.0/15' does not lie"},
      Mistake{R"({"uplinks": [{"name": "a", "linkLocal": ["169.254.1.1/24"]}]})", "its network is 169.254.1.0/24"},
      Mistake{R"({"uplinks": [{"name": "a", "linkLocal": ["169.254.0.1","169.254.0.2","169.254.0.3","169.254.0.4",
                  "169.254.0.5","169.254.0.6","169.254.0.7","169.254.0.8","169.254.0.9"]}]})",
              "linkLocal: 9 prefixes, at most 8"},
      Mistake{R"({"uplinks": [{"name": "a"}, {"name": "a"}]})", "uplinks[1].name: 'a' is uplinks[0] already"},
      Mistake{R"({"uplinks": [{"mac": "02:00:00:00:00:01"}, {"mac": "02-00-00-00-00-01"}]})",
              "uplinks[1].mac: '02:00:00:00:00:01' is uplinks[0] already"},
      Mistake{R"({"uplinks": []})", "uplinks: [] is an empty list"},
      Mistake{R"({"uplinks": {}})", "uplinks: {} is not a list"},
      Mistake{R"({"uplinks": ["eth1"]})", "uplinks[0]: 'eth1' is not an object"},
      Mistake{R"({"uplinks": null})", "uplinks: null is not a list"},
      Mistake{R"({"exempt": ["10.96.0.1/12"]})",
              "exempt[0]: '10.96.0.1/12' has host bits set; its network is 10.96.0.0/12"},
      Mistake{R"({"exempt": ["10.96.0.0/33"]})", "exempt[0]: '10.96.0.0/33' is no prefix"},
      Mistake{R"({"exempt": ["0.0.0.0/0"]})", "exempt[0]: '0.0.0.0/0' would exempt every destination"},
      Mistake{R"({"exempt": ["::/0"]})", "exempt[0]: '::/0' would exempt every destination"},
      Mistake{R"({"exempt": ["::ffff:10.0.0.0/120"]})", "exempt[0]: '::ffff:10.0.0.0/120'"},
      Mistake{R"({"exempt": ["10.0.0.0/8", "10.0.0.0/8"]})", "exempt[1]: '10.0.0.0/8' stands in exempt[0] already"},
      Mistake{R"({"exempt": [12]})", "exempt[0]: 12 is not a text"},
      Mistake{R"({"exempt": "10.0.0.0/8"})", "exempt: '10.0.0.0/8' is not a list"},
      Mistake{R"({"steerNode": "true"})", "steerNode: 'true' is not true or false"},
      Mistake{R"({"metrics": {"listen": "127.0.0.1"}})", "metrics.listen: '127.0.0.1' is not ADDRESS:PORT"},
      Mistake{R"({"metrics": {"listen": ""}})", "metrics.listen: '' is not ADDRESS:PORT, unix:/PATH or off"},
      Mistake{R"({"metrics": {"listen": "127.0.0.1:0"}})", "metrics.listen: '127.0.0.1:0'"},
      Mistake{R"({"metrics": {"listen": "127.0.0.1:65536"}})", "metrics.listen: '127.0.0.1:65536'"},
      Mistake{R"({"metrics": {"listen": "::1:9000"}})", "metrics.listen: '::1:9000'"},
      Mistake{R"({"metrics": {"listen": "unix:metrics"}})", "metrics.listen: 'unix:metrics'"},
      Mistake{R"({"metrics": {"port": 1}})", "metrics.port: unknown key (its value is 1)"},
      Mistake{R"({"metrics": 9465})", "metrics: 9465 is not an object"},
      Mistake{R"({"mapSizes": {"pods": 0}})", "mapSizes.pods: 0 is not from 1 to"},
      Mistake{R"({"mapSizes": {"pods": -1}})", "mapSizes.pods: -1 is not from 1 to"},
      Mistake{R"({"mapSizes": {"pods": 1e3}})", "mapSizes.pods: 1000.0 is not a whole number"},
      Mistake{R"({"mapSizes": {"pods": 99999999999}})", "mapSizes.pods: 99999999999 is not from 1 to"},
      Mistake{R"({"mapSizes": {"exempt": 1}, "exempt": ["10.0.0.0/8", "11.0.0.0/8"]})", "exempt: 2 IPv4 prefixes"},
      Mistake{R"({"mapSizes": {"uplinks": 1}, "uplinks": [{"name": "a"}, {"name": "b"}]})", "uplinks: 2 items"},
      Mistake{R"({"uplink": []})", "uplink: unknown key (its value is [])"},
      Mistake{R"({"steerNode": true, "steerNode": false})", "key 'steerNode' stands twice"},
      Mistake{R"({"steerNode": )", "no valid JSON"}, Mistake{"", "no valid JSON"},
      Mistake{"[]", "[] is not an object"});
  CAPTURE(mistake.text);
  const auto config = parse_config(mistake.text);
  REQUIRE_FALSE(config);
  CHECK_THAT(config.error().message, ContainsSubstring(mistake.message));
}

TEST_CASE("all mistakes of a file are told at once") {
  const CheckedConfig checked =
      check_config_text(R"({"steerNode": 1, "exempt": ["x"], "uplinks": [{"name": "a", "b": 1}]})");
  CHECK(checked.problems.size() == 3);
}

TEST_CASE("two families of one prefix length are not the same prefix") {
  CHECK(parse_config(R"({"exempt": ["10.0.0.0/8", "fd00::/8"]})"));
}
