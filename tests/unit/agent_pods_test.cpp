// SPDX-License-Identifier: Apache-2.0
// What a pod's entry says of its gateway, as the kernel's neighbour table changes.
#include <linux/neighbour.h>

#include <catch2/catch_test_macros.hpp>

#include "loader/pods.h"
#include "loader/warnings.h"
#include "maps/tables.h"
#include "tests/unit/agent_world.h"

using namespace poduplink;
using namespace poduplink::test;

namespace {

constexpr int uplink = 3;

struct Node {
  Node() {
    world.link(uplink, "eth1");
    world.address(uplink, "10.1.0.10/16").address(uplink, "fd00:1::10/64");
    auto config = parse_config(R"({"uplinks": [{"name": "eth1"}]})");
    REQUIRE(config);
    desired = make_desired(*config, world.snapshot, {});
  }

  void neighbour(const std::string& address, int state, int link = uplink) {
    Neighbour one;
    one.link = link;
    one.address = ip(address);
    one.state = static_cast<std::uint16_t>(state);
    if ((state & (NUD_INCOMPLETE | NUD_FAILED)) == 0) one.mac = mac(0x77);
    world.snapshot.neighbours.insert_or_assign({link, one.address}, one);
  }

  pdl_pod entry(const std::string& gateway = "10.1.0.1") {
    Record record;
    record.id = {.network = "net", .container_id = "c", .if_name = "eth0"};
    record.state = RecordState::ready;
    RecordAddress address;
    address.address = prefix(gateway.contains(':') ? "fd00:1::5/64" : "10.1.0.5/16");
    address.gateway = ip(gateway);
    address.uplink_name = "eth1";
    address.uplink_mac = mac(uplink);
    const auto made = entry_of(record, address, desired, world.snapshot, present ? &*present : nullptr);
    REQUIRE(made);
    present = made;
    return *made;
  }

  World world;
  Desired desired;
  std::optional<pdl_pod> present;
};

bool silent(const pdl_pod& pod) { return (pod.flags & PDL_POD_GATEWAY_SILENT) != 0; }

}  // namespace

TEST_CASE("a gateway is silent from the moment the kernel gave up asking until it answers") {
  for (const char* gateway : {"10.1.0.1", "fe80::1"}) {
    INFO(gateway);
    Node node;
    CHECK_FALSE(silent(node.entry(gateway)));
    node.neighbour(gateway, NUD_INCOMPLETE);
    CHECK_FALSE(silent(node.entry(gateway)));
    node.neighbour(gateway, NUD_FAILED);
    CHECK(silent(node.entry(gateway)));
    CHECK((node.entry(gateway).flags & PDL_POD_ON_LINK) != 0);
    // Asked for again, or forgotten: nothing new.
    node.neighbour(gateway, NUD_INCOMPLETE);
    CHECK(silent(node.entry(gateway)));
    node.world.snapshot.neighbours.clear();
    CHECK(silent(node.entry(gateway)));
    for (const int state : {NUD_REACHABLE, NUD_STALE, NUD_DELAY, NUD_PROBE, NUD_PERMANENT, NUD_NOARP}) {
      INFO(state);
      node.neighbour(gateway, NUD_FAILED);
      REQUIRE(silent(node.entry(gateway)));
      CHECK(to_mac(node.entry(gateway).gateway_mac).is_zero());
      node.neighbour(gateway, state);
      CHECK_FALSE(silent(node.entry(gateway)));
      CHECK(to_mac(node.entry(gateway).gateway_mac) == mac(0x77));
    }
  }
}

TEST_CASE("silence of a gateway concerns its own address and uplink alone") {
  Node node;
  node.neighbour("10.1.0.2", NUD_FAILED);
  node.neighbour("10.1.0.1", NUD_FAILED, uplink + 1);
  CHECK_FALSE(silent(node.entry()));
  node.neighbour("10.1.0.1", NUD_FAILED);
  CHECK(silent(node.entry()));
  // The entry of another gateway, or of another home, has nothing to inherit.
  node.world.snapshot.neighbours.clear();
  CHECK_FALSE(silent(node.entry("10.1.0.9")));
  node.neighbour("10.1.0.9", NUD_FAILED);
  REQUIRE(silent(node.entry("10.1.0.9")));
  node.world.snapshot.neighbours.clear();
  node.present->home = uplink + 1;
  CHECK_FALSE(silent(node.entry("10.1.0.9")));
}

TEST_CASE("the warning names gateway and uplink") {
  const Node node;
  CHECK(gateway_warnings({}, node.desired).empty());
  const auto warnings = gateway_warnings({{uplink, ip("10.1.0.1")}, {99, ip("fe80::1")}}, node.desired);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0] == "gateway 10.1.0.1 does not answer on eth1: what pods send by it is lost");
  CHECK(warnings[1] == "gateway fe80::1 does not answer on 99: what pods send by it is lost");
}
