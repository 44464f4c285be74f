// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "cni/ipam/choose.h"

using namespace poduplink;
using namespace poduplink::ipam;

namespace {

IpAddress ip(std::string_view text) { return *IpAddress::parse(text); }

std::vector<Pool> pools_of(const std::string& pools) {
  auto config = NetworkConfig::parse(R"({"cniVersion":"1.1.0","name":"net","ipam":{"pools":)" + pools + "}}");
  REQUIRE(config);
  auto parsed = parse_ipam_config(*config);
  REQUIRE(parsed);
  return parsed->pools;
}

const Hints no_hints = [](const std::string&) { return std::nullopt; };

std::vector<Reservation> sorted(const std::vector<IpAddress>& addresses) {
  std::vector<Reservation> taken;
  taken.reserve(addresses.size());
  for (const IpAddress& address : addresses) taken.push_back({address, 1});
  std::ranges::sort(taken, {}, &Reservation::address);
  return taken;
}

std::string first_address(const CniResult<Choice>& choice) {
  return choice ? choice->picks[0].address.text() : choice.error().msg;
}

// Hands out of the pools until they are exhausted, as a store would.
std::vector<IpAddress> drain(const std::vector<Pool>& pools) {
  std::vector<IpAddress> taken;
  std::optional<IpAddress> last;
  const Hints hints = [&last](const std::string&) { return last; };
  for (;;) {
    const auto choice = choose(pools, sorted(taken), {}, hints);
    if (!choice) {
      CHECK(choice.error().code == cni_code::no_address);
      return taken;
    }
    last = choice->picks[0].address.address();
    taken.push_back(*last);
  }
}

}  // namespace

TEST_CASE("a subnet is handed out without network, broadcast and gateway") {
  const auto pools = pools_of(R"([{"uplink":"e","ranges":["10.0.0.0/29"],"gateway":"10.0.0.3"}])");
  CHECK(count_free(pools[0], Family::v4, {}, gateways_of(pools)) == 5);
  CHECK(drain(pools) ==
        std::vector<IpAddress>{ip("10.0.0.1"), ip("10.0.0.2"), ip("10.0.0.4"), ip("10.0.0.5"), ip("10.0.0.6")});
}

TEST_CASE("the ends of a range inside a larger subnet are ordinary addresses") {
  const auto pools = pools_of(R"([{"uplink":"e","ranges":["10.0.5.0/30"],"prefix":16}])");
  CHECK(drain(pools).size() == 4);
  CHECK(count_free(pools[0], Family::v4, {}, {}) == 4);
}

TEST_CASE("a /31, a /32 and a /127 have neither network nor broadcast address") {
  CHECK(drain(pools_of(R"([{"uplink":"e","ranges":["10.0.0.4/31"]}])")).size() == 2);
  CHECK(drain(pools_of(R"([{"uplink":"e","ranges":["10.0.0.4/32"]}])")).size() == 1);
  CHECK(drain(pools_of(R"([{"uplink":"e","ranges":["fd00::4/127"]}])")).size() == 2);
  CHECK(drain(pools_of(R"([{"uplink":"e","ranges":["fd00::4/128"]}])")).size() == 1);
}

TEST_CASE("the first address of an IPv6 subnet belongs to its routers") {
  CHECK(drain(pools_of(R"([{"uplink":"e","ranges":["fd00::/126"]}])")) ==
        std::vector<IpAddress>{ip("fd00::1"), ip("fd00::2"), ip("fd00::3")});
}

TEST_CASE("another pool's gateway is never handed out") {
  const auto pools = pools_of(R"([{"uplink":"e","ranges":["10.0.0.1-10.0.0.4"],"prefix":24},
                                  {"uplink":"f","ranges":["10.0.0.9-10.0.0.9"],"prefix":24,"gateway":"10.0.0.2"}])");
  const auto drained = drain(pools);
  CHECK(std::ranges::find(drained, ip("10.0.0.2")) == drained.end());
  CHECK(drained.size() == 4);
}

TEST_CASE("a pool's free addresses count what can really be handed out") {
  const auto pools = pools_of(R"([{"uplink":"e","ranges":["10.0.0.0/24","10.0.1.10-10.0.1.19"],"prefix":23}])");
  const auto taken = sorted({ip("10.0.0.0"), ip("10.0.0.7"), ip("10.0.1.19"), ip("10.9.9.9"), ip("fd00::1")});
  // 266 addresses, the network address among those taken.
  CHECK(count_free(pools[0], Family::v4, taken, {}) == 263);
  CHECK(count_free(pools[0], Family::v4, taken, {ip("10.0.0.7"), ip("10.0.0.8")}) == 262);
  CHECK(count_free(pools[0], Family::v6, taken, {}) == 0);
  const auto huge = pools_of(R"([{"uplink":"e","ranges":["fd00::/16","fc00::/16"]}])");
  CHECK(count_free(huge[0], Family::v6, {}, {}) == UINT64_MAX);
}

TEST_CASE("the pool with most left of its scarcest family is chosen") {
  const auto pools = pools_of(R"([{"uplink":"e","ranges":["10.1.0.10-10.1.0.12","fd00:1::/64"],"prefix":24},
                                  {"uplink":"f","ranges":["10.2.0.10-10.2.0.13","fd00:2::1-fd00:2::4"],"prefix":24}])");
  const auto choice = choose(pools, {}, {}, no_hints);
  REQUIRE(choice);
  CHECK(choice->pool->uplink == "f");
  REQUIRE(choice->picks.size() == 2);
  CHECK(choice->picks[0].address.text() == "10.2.0.10/24");
  CHECK(choice->picks[1].address.text() == "fd00:2::1/64");
  // Two of f's IPv6 addresses gone: its scarcest has two left, e's has three.
  CHECK(choose(pools, sorted({ip("fd00:2::1"), ip("fd00:2::2")}), {}, no_hints)->pool->uplink == "e");
}

TEST_CASE("an address follows the one handed out last and comes round") {
  const auto pools = pools_of(R"([{"uplink":"e","ranges":["10.0.0.10-10.0.0.12","10.0.0.20-10.0.0.21"],"prefix":24}])");
  const auto after = [&](const char* last, const std::vector<IpAddress>& taken) {
    return first_address(choose(pools, sorted(taken), {}, [&](const std::string& run) {
      CHECK(run == "10.0.0.10");
      return std::optional(ip(last));
    }));
  };
  CHECK(after("10.0.0.10", {}) == "10.0.0.11/24");
  CHECK(after("10.0.0.12", {}) == "10.0.0.20/24");
  CHECK(after("10.0.0.21", {}) == "10.0.0.10/24");
  CHECK(after("10.0.0.11", {ip("10.0.0.12"), ip("10.0.0.20"), ip("10.0.0.21"), ip("10.0.0.10")}) == "10.0.0.11/24");
  CHECK(after("10.0.0.11", {ip("10.0.0.12"), ip("10.0.0.20"), ip("10.0.0.21")}) == "10.0.0.10/24");
  CHECK(after("192.0.2.1", {}) == "10.0.0.10/24");
}

TEST_CASE("the last address of the address space has no successor") {
  const auto pools = pools_of(R"([{"uplink":"e","ranges":["fd00::/126"]}])");
  const auto choice = choose(pools, {}, {}, [](const std::string&) { return std::optional(ip("fd00::3")); });
  CHECK(first_address(choice) == "fd00::1/126");
}

TEST_CASE("requested addresses decide the pool, the other family comes from there") {
  const auto pools = pools_of(R"([{"uplink":"e","ranges":["10.1.0.0/24","fd00:1::/64"]},
                                  {"uplink":"f","ranges":["10.2.0.0/28","fd00:2::/64"]}])");
  const auto choice = choose(pools, {}, {ip("fd00:2::99")}, no_hints);
  REQUIRE(choice);
  CHECK(choice->pool->uplink == "f");
  CHECK(choice->picks[0].address.text() == "10.2.0.1/28");
  CHECK_FALSE(choice->picks[0].requested);
  CHECK(choice->picks[1].address.text() == "fd00:2::99/64");
  CHECK(choice->picks[1].requested);
}

TEST_CASE("a request that cannot be met names the address") {
  const auto pools = pools_of(R"([{"uplink":"e","ranges":["10.1.0.0/24"],"gateway":"10.1.0.1"},
                                  {"uplink":"f","ranges":["10.2.0.0/24","fd00:2::/64"]}])");
  for (const std::vector<IpAddress>& requested :
       {std::vector{ip("192.0.2.9")}, std::vector{ip("10.1.0.1")}, std::vector{ip("10.1.0.0")},
        std::vector{ip("10.1.0.255")}, std::vector{ip("fd00:2::")}, std::vector{ip("10.1.0.9"), ip("fd00:2::9")}}) {
    const auto choice = choose(pools, {}, requested, no_hints);
    REQUIRE_FALSE(choice);
    CHECK(choice.error().code == cni_code::address_refused);
    CHECK(choice.error().msg.find(requested[0].text()) != std::string::npos);
  }
}

TEST_CASE("exhaustion names what has run out") {
  const auto pools = pools_of(R"([{"uplink":"e","ranges":["10.1.0.5","fd00:1::/64"],"prefix":24}])");
  const auto choice = choose(pools, sorted({ip("10.1.0.5")}), {}, no_hints);
  REQUIRE_FALSE(choice);
  CHECK(choice.error().code == cni_code::no_address);
  CHECK(choice.error().msg == "no address is free: exhausted is IPv4 of uplink e");
}
