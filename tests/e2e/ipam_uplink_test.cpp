// SPDX-License-Identifier: Apache-2.0
// How poduplink-ipam names the uplink of a pool, with real interfaces.
#include <fcntl.h>

#include <array>
#include <cstdint>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "loader/base/address.h"
#include "loader/base/fd.h"
#include "loader/net/link.h"
#include "loader/net/netlink.h"
#include "tests/harness/process.h"
#include "tests/harness/temporary_folder.h"

using namespace poduplink;
using nlohmann::json;

namespace {

constexpr std::array<std::uint8_t, 6> first_mac = {0x02, 0, 0, 0, 0, 0x11};
constexpr std::array<std::uint8_t, 6> second_mac = {0x02, 0, 0, 0, 0, 0x22};

// Adds a veth whose two ends are in this namespace.
void add_links(const char* name, const char* peer, std::array<std::uint8_t, 6> mac,
               std::array<std::uint8_t, 6> peer_mac) {
  auto netlink = Netlink::open();
  REQUIRE(netlink);
  const auto here = open_file("/proc/self/ns/net", O_RDONLY);
  REQUIRE(here);
  VethRequest request;
  request.host_name = name;
  request.host_mac = MacAddress(mac);
  request.peer_name = peer;
  request.peer_mac = MacAddress(peer_mac);
  request.peer_netns_fd = here->get();
  REQUIRE(create_veth(*netlink, request));
}

// The interfaces of the result of an ADD from a pool of this uplink.
json interfaces_for(const std::string& uplink) {
  const tests::TemporaryFolder folder;
  harness::Command command;
  command.argv = {PODUPLINK_IPAM};
  command.clean_environment = true;
  command.environment = {"CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS=/none", "CNI_IFNAME=eth0"};
  const json pool = {{"uplink", uplink}, {"ranges", {"10.0.0.0/24"}}};
  const json ipam = {{"type", "poduplink-ipam"}, {"dataDir", folder.path()}, {"pools", json::array({pool})}};
  command.input = json{{"cniVersion", "1.0.0"}, {"name", "net"}, {"ipam", ipam}}.dump();
  const auto outcome = harness::run(command);
  REQUIRE(outcome);
  INFO(outcome->text());
  REQUIRE(outcome->ok());
  return json::parse(outcome->out)["interfaces"];
}

json only(const std::string& name, const std::string& mac) {
  json interface = {{"name", name}};
  if (!mac.empty()) interface["mac"] = mac;
  return json::array({interface});
}

}  // namespace

TEST_CASE("the uplink is reported with the name and MAC that the kernel has") {
  add_links("up1", "up2", first_mac, second_mac);
  CHECK(interfaces_for("up1") == only("up1", "02:00:00:00:00:11"));
  CHECK(interfaces_for("02:00:00:00:00:22") == only("up2", "02:00:00:00:00:22"));
  CHECK(interfaces_for("02-00-00-00-00-22") == only("up2", "02:00:00:00:00:22"));
  // Not there yet.
  CHECK(interfaces_for("up9") == only("up9", ""));
  CHECK(interfaces_for("02:00:00:00:00:33") == only("", "02:00:00:00:00:33"));
  // Borne by two: which of them is meant is the main plugin's to say.
  add_links("up3", "up4", second_mac, first_mac);
  CHECK(interfaces_for("02:00:00:00:00:22") == only("", "02:00:00:00:00:22"));
}
