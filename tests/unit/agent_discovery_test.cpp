// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "loader/discovery.h"
#include "tests/unit/agent_world.h"

using namespace poduplink;
using namespace poduplink::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<int> links_of(const Discovery& discovery) {
  std::vector<int> links;
  links.reserve(discovery.chosen.size());
  for (const ChosenUplink& one : discovery.chosen) links.push_back(one.link);
  return links;
}

std::string refusal(const Discovery& discovery, int link) {
  const auto found = std::ranges::find(discovery.refused, link, &RefusedLink::link);
  return found == discovery.refused.end() ? "" : found->reason;
}

}  // namespace

TEST_CASE("uplinks are discovered in passes: own default route, the primary's subnet, inferred gateway") {
  World world;
  world.link(2, "enp1");
  world.link(3, "enp2");
  world.link(4, "enp3");
  world.link(5, "enp4");
  world.address(2, "10.9.0.4/24");
  world.address(3, "10.1.0.5/24").address(4, "10.1.0.4/24").address(5, "10.5.0.9/24");
  world.route("0.0.0.0/0", {{4, "10.1.0.1"}}).route("::/0", {{5, "fe80::1"}}, 1024);
  const Discovery discovery = discover_uplinks(world.snapshot);
  CHECK(discovery.primary == 4);
  CHECK(links_of(discovery) == std::vector{4, 5, 3, 2});
  CHECK(discovery.chosen[0].how == "own default route by 10.1.0.1");
  CHECK(discovery.chosen[1].how == "own default route by fe80::1");
  CHECK(discovery.chosen[2].how == "same subnet 10.1.0.0/24 as the primary");
  CHECK(discovery.chosen[3].how == "gateway inferred as 10.9.0.1");
}

TEST_CASE("the primary is behind the default route with the lowest metric, of the main table alone") {
  World world;
  world.link(2, "a");
  world.link(3, "b");
  world.route("0.0.0.0/0", {{2, "10.1.0.1"}}, 200).route("0.0.0.0/0", {{3, "10.2.0.1"}}, 100);
  world.route("0.0.0.0/0", {{2, "10.1.0.1"}}, 0);
  world.snapshot.routes.back().table = 100;
  CHECK(primary_link(world.snapshot.routes) == 3);
  CHECK(default_gateway(world.snapshot, 2, Family::v4) == ip("10.1.0.1"));
  CHECK_FALSE(default_gateway(world.snapshot, 2, Family::v6));
}

TEST_CASE("what is no uplink is refused with its reason, whatever its name") {
  World world;
  world.link(2, "docker0", "bridge");
  world.link(3, "eth0", "veth");
  world.link(4, "eth1").master = 2;
  world.link(5, "eth2").flags = 0;
  world.link(6, "eth3");
  Link& tunnel = world.link(7, "wg0", "wireguard");
  tunnel.hardware_type = ARPHRD_NONE;
  tunnel.mac.reset();
  world.link(8, "pdl0123456789ab", "veth");
  world.link(9, "eth4").mac.reset();
  world.link(10, "l2tpeth0").has_device = false;
  world.address(10, "10.10.0.9/24");
  for (int link = 2; link < 6; ++link) world.address(link, "10." + std::to_string(link) + ".0.9/24");
  world.address(6, "10.6.0.1/24");  // its own address is network + 1
  const Discovery discovery = discover_uplinks(world.snapshot);
  CHECK(discovery.chosen.empty());
  CHECK_FALSE(discovery.primary);
  CHECK_THAT(refusal(discovery, 2), ContainsSubstring("kind bridge"));
  CHECK_THAT(refusal(discovery, 3), ContainsSubstring("kind veth"));
  CHECK(refusal(discovery, 4) == "belongs to docker0");
  CHECK(refusal(discovery, 5) == "is down");
  CHECK_THAT(refusal(discovery, 6), ContainsSubstring("no address to infer"));
  CHECK_THAT(refusal(discovery, 7), ContainsSubstring("no Ethernet"));
  CHECK_THAT(refusal(discovery, 9), ContainsSubstring("no "));
  CHECK_THAT(refusal(discovery, 10), ContainsSubstring("without a device"));
  CHECK(refusal(discovery, 8).empty());
  CHECK(refusal(discovery, 1).empty());
}

TEST_CASE("a bond stands for its enslaved links") {
  World world;
  world.link(2, "eth0").master = 4;
  world.link(3, "eth1").master = 4;
  world.link(4, "bond0", "bond");
  world.address(4, "10.1.0.4/24").route("0.0.0.0/0", {{4, "10.1.0.1"}});
  CHECK(links_of(discover_uplinks(world.snapshot)) == std::vector{4});
}

TEST_CASE(
    "D71: the gateway that is inferred is the primary's in its subnet, else the first address that is nobody's here") {
  World world;
  world.link(2, "a");
  world.link(3, "b");
  world.address(2, "10.1.0.5/24").route("0.0.0.0/0", {{2, "10.1.0.254"}}).address(3, "10.3.0.1/24");
  const auto inferred = [&](const char* subnet) {
    const auto gateway = inferred_gateway(world.snapshot, prefix(subnet));
    return gateway ? gateway->text() : "none";
  };
  CHECK(inferred("10.1.0.9/24") == "10.1.0.254");
  CHECK(inferred("10.1.0.9/25") == "10.1.0.1");
  CHECK(inferred("10.0.0.130/25") == "10.0.0.129");
  CHECK(inferred("10.129.2.111/23") == "10.129.2.1");
  for (const char* refused : {"10.3.0.9/24", "10.4.0.9/31", "10.4.0.9/32", "0.0.0.9/0", "fd00::9/64"}) {
    CAPTURE(refused);
    CHECK(inferred(refused) == "none");
  }
}

TEST_CASE("no gateway is inferred for /31 and /32") {
  World world;
  world.link(2, "a");
  world.link(3, "b");
  world.address(2, "10.1.0.3/31").address(3, "10.1.0.9/32");
  CHECK(discover_uplinks(world.snapshot).chosen.empty());
}
