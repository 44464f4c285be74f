// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "cni/ipam/ipam_config.h"
#include "cni/ipam/range.h"

using namespace poduplink;
using namespace poduplink::ipam;

namespace {

std::string text_with(const std::string& ipam, const std::string& more = "") {
  return R"({"cniVersion":"1.1.0","name":"net","ipam":)" + ipam + more + "}";
}

CniResult<IpamConfig> parse(const std::string& ipam, const std::string& more = "") {
  auto config = NetworkConfig::parse(text_with(ipam, more));
  REQUIRE(config);
  return parse_ipam_config(*config);
}

CniResult<IpamConfig> parse_pools(const std::string& pools, const std::string& more = "") {
  return parse(R"({"type":"poduplink-ipam","pools":)" + pools + "}", more);
}

std::vector<std::string> requested(const std::string& more, const std::string& args = "") {
  auto config = NetworkConfig::parse(text_with("{}", more));
  REQUIRE(config);
  const auto addresses = requested_addresses(*config, args);
  REQUIRE(addresses);
  std::vector<std::string> texts;
  for (const IpAddress& address : *addresses) texts.push_back(address.text());
  return texts;
}

CniError request_error(const std::string& more, const std::string& args = "") {
  auto config = NetworkConfig::parse(text_with("{}", more));
  REQUIRE(config);
  const auto addresses = requested_addresses(*config, args);
  REQUIRE_FALSE(addresses);
  return addresses.error();
}

IpAddress ip(std::string_view text) { return *IpAddress::parse(text); }

}  // namespace

TEST_CASE("the design's example is a valid pool") {
  const auto config = parse_pools(
      R"([{"uplink":"eth1","ranges":["10.2.0.100-10.2.0.200","fd00:2::/112"],"prefix":16,"gateway":"10.2.0.1"}])");
  REQUIRE(config);
  CHECK(config->data_dir == "/var/lib/cni/poduplink-ipam");
  REQUIRE(config->pools.size() == 1);
  const Pool& pool = config->pools[0];
  CHECK(pool.ranges[0].subnet.text() == "10.2.0.0/16");
  CHECK(pool.ranges[1].subnet.text() == "fd00:2::/112");
  CHECK(pool.gateway4 == ip("10.2.0.1"));
  CHECK_FALSE(pool.gateway6);
}

TEST_CASE("subnet lengths come from prefix, prefix6, the CIDR, or /64") {
  const auto subnet = [](const char* text, std::optional<unsigned> prefix4, std::optional<unsigned> prefix6) {
    const auto range = parse_range(text, prefix4, prefix6);
    return range ? range->subnet.text() : range.error().message;
  };
  CHECK(subnet("10.2.5.0/24", {}, {}) == "10.2.5.0/24");
  CHECK(subnet("10.2.5.0/24", 16, {}) == "10.2.0.0/16");
  CHECK(subnet("10.2.5.7", 16, {}) == "10.2.0.0/16");
  CHECK(subnet("fd00::1-fd00::f", 16, {}) == "fd00::/64");
  CHECK(subnet("fd00::1-fd00::f", {}, 120) == "fd00::/120");
  CHECK(subnet("fd00:2::/112", 16, 64) == "fd00:2::/64");
  CHECK(subnet("10.2.5.1-10.2.5.9", {}, {}).find("'prefix'") != std::string::npos);
  const auto only_v6 =
      parse_pools(R"([{"uplink":"eth1","ranges":["fd00::10-fd00::20"],"prefix":80,"gateway":"fd00::1"}])");
  REQUIRE(only_v6);
  CHECK(only_v6->pools[0].ranges[0].subnet.text() == "fd00::/80");
  CHECK(only_v6->pools[0].gateway6 == ip("fd00::1"));
}

TEST_CASE("addresses are counted up to 64 bits") {
  CHECK(count_addresses(ip("10.0.0.1"), ip("10.0.0.1")) == 1);
  CHECK(count_addresses(ip("10.0.0.250"), ip("10.0.1.5")) == 12);
  CHECK(count_addresses(ip("fd00::"), ip("fd00::ffff:ffff:ffff")) == UINT64_C(1) << 48U);
  CHECK(count_addresses(ip("fd00::ffff"), ip("fd00::1:0")) == 2);
  CHECK(count_addresses(ip("fd00::"), ip("fd00::ffff:ffff:ffff:ffff")) == UINT64_MAX);
  CHECK(count_addresses(ip("fd00::"), ip("fdff::")) == UINT64_MAX);
}

TEST_CASE("a faulty pool is refused with code 7, naming key and value") {
  struct Case {
    const char* pools;
    const char* key;
    const char* value;
  };
  const Case cases[] = {
      {"[]", "ipam.pools", ""},
      {"{}", "ipam.pools", "{}"},
      {"[5]", "ipam.pools", "5"},
      {R"([{"ranges":["10.0.0.0/24"]}])", "ipam.pools[0].uplink", ""},
      {R"([{"uplink":"a/b","ranges":["10.0.0.0/24"]}])", "ipam.pools[0].uplink", "a/b"},
      {R"([{"uplink":"","ranges":["10.0.0.0/24"]}])", "ipam.pools[0].uplink", "\"\""},
      {R"([{"uplink":"e"}])", "ipam.pools[0].ranges", ""},
      {R"([{"uplink":"e","ranges":[]}])", "ipam.pools[0].ranges", "[]"},
      {R"([{"uplink":"e","ranges":"10.0.0.0/24"}])", "ipam.pools[0].ranges", "10.0.0.0/24"},
      {R"([{"uplink":"e","ranges":["10.0.0.9-10.0.0.1"],"prefix":24}])", "ipam.pools[0].ranges", "10.0.0.9-10.0.0.1"},
      {R"([{"uplink":"e","ranges":["10.0.0.1-fd00::1"],"prefix":24}])", "ipam.pools[0].ranges", "10.0.0.1-fd00::1"},
      {R"([{"uplink":"e","ranges":["10.0.0.1-10.0.1.1"],"prefix":24}])", "ipam.pools[0].ranges", "10.0.0.1-10.0.1.1"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/16"],"prefix":24}])", "ipam.pools[0].ranges", "10.0.0.0/16"},
      {R"([{"uplink":"e","ranges":["10.0.0.5/24"]}])", "ipam.pools[0].ranges", "10.0.0.5/24"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/33"]}])", "ipam.pools[0].ranges", "10.0.0.0/33"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/0"]}])", "ipam.pools[0].ranges", "10.0.0.0/0"},
      {R"([{"uplink":"e","ranges":["224.0.0.0/24"]}])", "ipam.pools[0].ranges", "224.0.0.0/24"},
      {R"([{"uplink":"e","ranges":["127.0.0.0/24"]}])", "ipam.pools[0].ranges", "127.0.0.0/24"},
      {R"([{"uplink":"e","ranges":["::ffff:10.0.0.0/120"]}])", "ipam.pools[0].ranges", "::ffff:10.0.0.0/120"},
      {R"([{"uplink":"e","ranges":["fe80::/64"]}])", "ipam.pools[0].ranges", "fe80::/64"},
      {R"([{"uplink":"e","ranges":["x"]}])", "ipam.pools[0].ranges", "\"x\""},
      {R"([{"uplink":"e","ranges":["10.0.0.1-"],"prefix":24}])", "ipam.pools[0].ranges", "10.0.0.1-"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/24"],"prefix":33}])", "ipam.pools[0].prefix", "33"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/24"],"prefix":"24"}])", "ipam.pools[0].prefix", "\"24\""},
      {R"([{"uplink":"e","ranges":["fd00::/112"],"prefix":64,"prefix6":64}])", "ipam.pools[0].prefix", "64"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/24"],"gateway":"10.0.1.1"}])", "ipam.pools[0].gateway", "10.0.1.1"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/24"],"gateway":"10.0.0.0"}])", "ipam.pools[0].gateway", "10.0.0.0"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/24"],"gateway":"10.0.0.255"}])", "ipam.pools[0].gateway", "10.0.0.255"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/24"],"gateway":"fd00::1"}])", "ipam.pools[0].gateway", "fd00::1"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/24"],"gateway":""}])", "ipam.pools[0].gateway", "\"\""},
      {R"([{"uplink":"e","ranges":["10.0.0.0/24"],"gateway6":"10.0.0.1"}])", "ipam.pools[0].gateway6", "10.0.0.1"},
      {R"([{"uplink":"e","ranges":["fd00::/64"],"gateway":"fd00::1","gateway6":"fd00::2"}])", "ipam.pools[0].gateway6",
       "fd00::2"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/24"],"gatway":"10.0.0.1"}])", "ipam.pools[0].gatway", "10.0.0.1"},
      {R"([{"uplink":"e","ranges":["10.0.0.0/24"]},{"uplink":"f","ranges":["10.0.0.255-10.0.0.255"],"prefix":23}])",
       "ipam.pools", "10.0.0.0/24"},
      {R"([{"uplink":"e","ranges":["fd00::/64","fd00::5-fd00::7"]}])", "ipam.pools", "fd00::5-fd00::7"},
  };
  for (const Case& one : cases) {
    INFO(one.pools);
    const auto config = parse_pools(one.pools);
    REQUIRE_FALSE(config);
    INFO(config.error().msg);
    CHECK(config.error().code == 7);
    CHECK(config.error().msg.find("'" + std::string(one.key) + "'") != std::string::npos);
    CHECK(config.error().msg.find(one.value) != std::string::npos);
  }
}

TEST_CASE("keys beside the pools are checked") {
  const std::string pools = R"("pools":[{"uplink":"e","ranges":["10.0.0.0/24"]}])";
  CHECK(parse("{" + pools + R"(,"type":"poduplink-ipam","dataDir":"/x"})")->data_dir == "/x");
  for (const char* bad : {R"("dataDir":"relative")", R"("dataDir":5)", R"("subnet":"10.0.0.0/8")", R"("routes":{})",
                          R"("routes":[{"dst":"10.0.0.0"}])"}) {
    INFO(bad);
    const auto config = parse("{" + pools + "," + bad + "}");
    REQUIRE_FALSE(config);
    CHECK(config.error().code == 7);
  }
  const auto routes = parse("{" + pools + R"(,"routes":[{"dst":"192.0.2.0/24","gw":"10.0.0.1"}]})");
  REQUIRE(routes);
  CHECK(routes->routes[0].dst.text() == "192.0.2.0/24");
  auto without = NetworkConfig::parse(R"({"cniVersion":"1.1.0","name":"net"})");
  CHECK(parse_ipam_config(*without).error().code == 7);
}

TEST_CASE("gateways outside the subnet need onLinkGateway, link-local IPv6 ones do not") {
  const char* outside = R"([{"uplink":"e","ranges":["10.0.0.5/32"],"gateway":"169.254.1.1"}])";
  CHECK_FALSE(parse_pools(outside));
  CHECK(parse_pools(outside, R"(,"onLinkGateway":true)"));
  CHECK(parse_pools(R"([{"uplink":"e","ranges":["fd00::/112"],"gateway6":"fe80::1"}])"));
}

TEST_CASE("neighbouring ranges and the same subnet on several pools are fine") {
  CHECK(parse_pools(R"([{"uplink":"e","ranges":["10.0.0.10-10.0.0.19","10.0.0.20-10.0.0.29"],"prefix":24},
                        {"uplink":"f","ranges":["10.0.0.30-10.0.0.39"],"prefix":24}])"));
}

TEST_CASE("an uplink may be a MAC") {
  CHECK(parse_pools(R"([{"uplink":"02:00:5E:10:00:02","ranges":["10.0.0.0/24"]}])"));
  CHECK_FALSE(parse_pools(R"([{"uplink":"02:00:5E:10:00","ranges":["10.0.0.0/24"]}])"));
}

TEST_CASE("the data directory is found in a configuration that is faulty otherwise") {
  const auto data_dir = [](const std::string& ipam) { return data_dir_of(*NetworkConfig::parse(text_with(ipam))); };
  CHECK(data_dir(R"({"dataDir":"/x","pools":5,"typo":1})") == "/x");
  CHECK(data_dir(R"({"dataDir":5})") == default_data_dir);
  CHECK(data_dir("5") == default_data_dir);
  CHECK(data_dir("null") == default_data_dir);
}

TEST_CASE("requests come from runtimeConfig, else args, else CNI_ARGS") {
  using Texts = std::vector<std::string>;
  const std::string runtime = R"(,"runtimeConfig":{"ips":["10.0.0.1/24","fd00::1"]})";
  const std::string args = R"(,"args":{"cni":{"ips":["10.0.0.2"]}})";
  CHECK(requested("").empty());
  CHECK(requested(runtime + args, "IP=10.0.0.3") == Texts{"10.0.0.1", "fd00::1"});
  CHECK(requested(args, "IP=10.0.0.3") == Texts{"10.0.0.2"});
  CHECK(requested("", "IgnoreUnknown=1;IP=10.0.0.3,fd00::3/64;K8S_POD_NAME=x") == Texts{"10.0.0.3", "fd00::3"});
  CHECK(requested(R"(,"runtimeConfig":{"Ips":["10.0.0.1","10.0.0.1/24"]})") == Texts{"10.0.0.1"});
  CHECK(requested(R"(,"runtimeConfig":{"ips":[]})", "IP=10.0.0.3") == Texts{"10.0.0.3"});
}

TEST_CASE("a malformed request is an error, except in args, which never is one") {
  CHECK(request_error(R"(,"runtimeConfig":{"ips":["x"]})").code == 7);
  CHECK(request_error(R"(,"runtimeConfig":{"ips":"10.0.0.1"})").code == 7);
  CHECK(request_error("", "IP=10.0.0.300").code == 4);
  CHECK(request_error("", "IP=10.0.0.300").msg.find("10.0.0.300") != std::string::npos);
  CHECK(request_error(R"(,"runtimeConfig":{"ips":["10.0.0.1","10.0.0.2"]})").msg.find("10.0.0.2") != std::string::npos);
  for (const char* args : {R"({"cni":{"ips":"x"}})", R"({"cni":{"ips":["x"]}})", R"({"cni":5})", "5", "null"}) {
    INFO(args);
    CHECK(requested(R"(,"args":)" + std::string(args)).empty());
  }
}
