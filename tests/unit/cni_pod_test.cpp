// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "cni/announce.h"
#include "cni/pod_link.h"
#include "cni/resolve.h"
#include "cni/undo.h"

namespace poduplink {
namespace {

IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }
Prefix prefix(const std::string& text) { return Prefix::parse(text).value(); }

// "dst via gw" for each, with what else is set.
std::vector<std::string> texts(const std::vector<ResultRoute>& routes) {
  std::vector<std::string> list;
  for (const ResultRoute& route : routes) {
    std::string text = route.dst.text();
    if (route.gw) text += " via " + route.gw->text();
    if (route.priority) text += formatted(" metric {}", *route.priority);
    if (route.table) text += formatted(" table {}", *route.table);
    if (route.mtu) text += formatted(" mtu {}", *route.mtu);
    list.push_back(text);
  }
  return list;
}

ResultRoute route(const std::string& dst, const std::string& gw = {}) {
  ResultRoute made;
  made.dst = prefix(dst);
  if (!gw.empty()) made.gw = ip(gw);
  return made;
}

using Texts = std::vector<std::string>;

TEST_CASE("I6: a pod has the routes of its families") {
  CHECK(texts(container_routes({ip("10.1.0.5")}, {})) == Texts{"169.254.1.1/32", "0.0.0.0/0 via 169.254.1.1"});
  CHECK(texts(container_routes({ip("fd00::5"), ip("fd00::6")}, {})) == Texts{"fe80::1/128", "::/0 via fe80::1"});
  CHECK(texts(container_routes({ip("fd00::5"), ip("10.1.0.5")}, {})) ==
        Texts{"169.254.1.1/32", "fe80::1/128", "0.0.0.0/0 via 169.254.1.1", "::/0 via fe80::1"});
}

TEST_CASE("I6 C42: routes of the IPAM result go by the link gateway, each once") {
  ResultRoute fallback = route("0.0.0.0/0", "10.1.0.1");
  fallback.mtu = 1300;
  ResultRoute in_table = route("0.0.0.0/0");
  in_table.table = 77;
  const auto routes = container_routes(
      {ip("10.1.0.5")}, {fallback, in_table, route("192.0.2.9/24", "10.1.0.9"), route("192.0.2.0/24"), route("::/0")});
  CHECK(texts(routes) == Texts{"169.254.1.1/32", "0.0.0.0/0 via 169.254.1.1 mtu 1300",
                               "0.0.0.0/0 via 169.254.1.1 table 77", "192.0.2.0/24 via 169.254.1.1"});
  // A default in another table is none of the pod's own.
  CHECK(texts(container_routes({ip("10.1.0.5")}, {in_table})).back() == "0.0.0.0/0 via 169.254.1.1");
}

TEST_CASE("a random MAC is locally administered, unicast and another each time") {
  const MacAddress one = random_mac().value();
  CHECK((one.octets()[0] & 3U) == 2U);
  CHECK(one != random_mac().value());
}

TEST_CASE("the announcements of an IPv4 address are an ARP request and a reply about itself") {
  const MacAddress mac = MacAddress::parse("02:00:00:00:02:02").value();
  const auto frames = announcement_frames(ip("10.2.0.5"), mac);
  REQUIRE(frames.size() == 2);
  const std::vector<std::uint8_t> request = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 2,  2, 8, 6,
                                             0,    1,    8,    0,    6,    4,    0, 1, 2, 0, 0,  0, 2, 2,
                                             10,   2,    0,    5,    0,    0,    0, 0, 0, 0, 10, 2, 0, 5};
  CHECK(frames[0] == request);
  CHECK(frames[1][21] == 2);
}

TEST_CASE("the announcement of an IPv6 address is a neighbour advertisement to all nodes") {
  const MacAddress mac = MacAddress::parse("02:00:00:00:02:02").value();
  const auto frames = announcement_frames(ip("fd00:2::5"), mac);
  REQUIRE(frames.size() == 1);
  const auto& frame = frames.front();
  REQUIRE(frame.size() == 14 + 40 + 32);
  CHECK(frame[0] == 0x33);
  CHECK(frame[14 + 7] == 255);  // hop limit
  CHECK(frame[54] == 136);
  CHECK(frame[58] == 0x20);  // override, neither router nor solicited
  CHECK(frame[14 + 40 + 24] == 2);
  // Over pseudo header and message the sum is all ones.
  std::uint32_t sum = 32 + 58;
  for (std::size_t i = 14 + 8; i < frame.size(); i += 2)
    sum += static_cast<std::uint32_t>(frame[i] << 8U | frame[i + 1]);
  while (sum > 0xffff) sum = (sum & 0xffffU) + (sum >> 16U);
  CHECK(sum == 0xffff);
}

TEST_CASE("J9: the pod's MTU is the least of its uplinks unless a lower one is asked for") {
  const auto on = [](unsigned mtu) {
    PodAddress address{prefix("10.1.0.5/16"), SteeredBy{}};
    address.steer->uplink.link.mtu = mtu;
    return address;
  };
  CHECK(pod_mtu({on(9000), on(1500)}, 0) == 1500);
  CHECK(pod_mtu({on(9000), on(1500)}, 1400) == 1400);
  CHECK(pod_mtu({on(1500)}, 9000) == 1500);
  CHECK(pod_mtu({PodAddress{prefix("10.1.0.5/16"), {}}}, 0) == 0);
  CHECK(pod_mtu({PodAddress{prefix("10.1.0.5/16"), {}}}, 1300) == 1300);
}

TEST_CASE("J12: undoing goes backwards, once, and not at all where all went well") {
  std::string order;
  {
    Undo undo;
    undo.add([&] { order += "1"; });
    undo.add([&] { order += "2"; });
  }
  CHECK(order == "21");
  {
    Undo undo;
    undo.add([&] { order += "3"; });
    undo.keep();
  }
  CHECK(order == "21");
}

}  // namespace
}  // namespace poduplink
