// SPDX-License-Identifier: Apache-2.0
#include <net/if.h>
#include <net/if_arp.h>
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <cstring>

#include "cni/gateway.h"
#include "cni/uplink.h"

namespace poduplink {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr const char* host_veth = "pdl0123456789ab";

MacAddress mac(const std::string& text) { return MacAddress::parse(text).value(); }
IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }
Prefix prefix(const std::string& text) { return Prefix::parse(text).value(); }

Link link(int index, const std::string& name, const std::string& mac_text) {
  Link made;
  made.index = index;
  made.name = name;
  made.mac = mac(mac_text);
  made.hardware_type = ARPHRD_ETHER;
  made.mtu = 1500;
  made.flags = IFF_UP | IFF_RUNNING;
  return made;
}

Link loopback() {
  Link made = link(1, "lo", "00:00:00:00:00:00");
  made.hardware_type = ARPHRD_LOOPBACK;
  made.flags |= IFF_LOOPBACK;
  return made;
}

void manage(HostView& view, const Link& one, unsigned char flags = 0) {
  pdl_uplink entry{};
  std::strncpy(entry.name, one.name.c_str(), sizeof(entry.name) - 1);
  entry.mtu = one.mtu;
  entry.role = PDL_ROLE_HOME;
  entry.state = PDL_STATE_UP;
  entry.flags = flags;
  view.uplinks[static_cast<std::uint32_t>(one.index)] = entry;
}

// The host that the example results speak of.
HostView host() {
  HostView view;
  view.links = {loopback(), link(2, "up1", "02:00:5e:10:00:02"), link(3, "up2", "02:00:5e:10:00:03"),
                link(4, "eth9", "02:00:5e:10:00:09")};
  manage(view, view.links[1]);
  manage(view, view.links[2]);
  view.addresses = {{2, prefix("10.60.2.250/24"), 0, 0}, {3, prefix("10.60.3.250/24"), 0, 0}};
  return view;
}

// What one address of an example comes to.
struct Outcome {
  std::string uplink;
  std::string gateway;
};

// Runs the rules over a result; an error's text instead of the outcomes.
std::expected<std::vector<Outcome>, std::string> resolve(const std::string& result_text, bool on_link = false,
                                                         const std::string& configured = {},
                                                         const HostView& view = host()) {
  const auto result = parse_add_result_text(result_text, "1.1.0");
  if (!result) return std::unexpected(result.error().msg);
  std::optional<UplinkName> fallback;
  if (!configured.empty()) fallback = parse_uplink_key(configured).value();
  const auto wanted = wanted_addresses(*result, fallback);
  if (!wanted) return std::unexpected(wanted.error().msg);
  std::vector<Outcome> outcomes;
  for (const auto& address : *wanted) {
    std::optional<Uplink> uplink;
    if (address.uplink) {
      auto found = find_uplink(*address.uplink, view, host_veth);
      if (!found) return std::unexpected(found.error().message);
      uplink = *found;
    } else {
      auto found = uplink_by_subnet(address.address.address(), view);
      if (!found) return std::unexpected(found.error().message);
      uplink = *found;
    }
    if (!uplink) {
      outcomes.push_back({"none", ""});
      continue;
    }
    const auto gateway = choose_gateway(address, *uplink, view, on_link);
    if (!gateway) return std::unexpected(gateway.error().msg);
    outcomes.push_back({uplink->link.name, gateway->address.text()});
  }
  return outcomes;
}

void require_one(const std::string& text, const std::string& uplink, const std::string& gateway) {
  const auto got = resolve(text);
  INFO((got ? std::string() : got.error()));
  REQUIRE(got);
  REQUIRE(got->size() == 1);
  CHECK(got->front().uplink == uplink);
  CHECK(got->front().gateway == gateway);
}

void require_error(const std::expected<std::vector<Outcome>, std::string>& got, const std::string& text) {
  REQUIRE_FALSE(got);
  CHECK_THAT(got.error(), ContainsSubstring(text));
}

TEST_CASE("I8: example 1: an uplink named by MAC alone is found") {
  require_one(R"({"interfaces":[{"name":"","mac":"02:00:5e:10:00:02"}],
                  "ips":[{"address":"10.60.2.17/24","gateway":"10.60.2.1"}]})",
              "up1", "10.60.2.1");
}

TEST_CASE("I8: example 2: an uplink named by name is found, and an absent one can be waited for") {
  require_one(R"({"interfaces":[{"name":"up1"}],"ips":[{"address":"10.60.2.18/24","gateway":"10.60.2.1"}]})", "up1",
              "10.60.2.1");
  require_error(resolve(R"({"interfaces":[{"name":"up7"}],"ips":[{"address":"10.60.2.18/24","gateway":"10.60.2.1"}]})"),
                "uplink up7 not found");
  CHECK(find_uplink({"up7", {}, "a test"}, host(), host_veth).error().code == ENODEV);
}

TEST_CASE("I11: example 3: an entry with a sandbox is passed over, with and without an index") {
  const std::string head = R"({"interfaces":[{"name":"eth0","mac":"0a:00:00:00:00:09","sandbox":"/run/netns/p1"},
      {"name":"up2","mac":"02:00:5e:10:00:03"}],"ips":[{"address":"10.60.3.9/24","gateway":"10.60.3.1")";
  require_one(head + R"(,"interface":1}]})", "up2", "10.60.3.1");
  require_one(head + R"(,"interface":-1}]})", "up2", "10.60.3.1");
  require_one(head + R"(}]})", "up2", "10.60.3.1");
}

TEST_CASE("I9: example 4: name and MAC that disagree are an error at once") {
  const UplinkName wanted{"up1", mac("02:00:5e:10:00:03"), "a test"};
  const auto found = find_uplink(wanted, host(), host_veth);
  REQUIRE_FALSE(found);
  CHECK(found.error().code == 0);
  require_error(resolve(R"({"interfaces":[{"name":"up1","mac":"02:00:5e:10:00:03"}],
                            "ips":[{"address":"10.60.2.19/24","gateway":"10.60.2.1"}]})"),
                "has MAC 02:00:5e:10:00:02");
}

TEST_CASE("I9: example 5: the families of one pod leave by different uplinks") {
  const auto got = resolve(R"({"cniVersion":"1.1.0","interfaces":[{"name":"up1","mac":"02:00:5e:10:00:02"},
      {"name":"up2","mac":"02:00:5e:10:00:03"}],"ips":[
      {"address":"10.60.2.20/24","gateway":"10.60.2.1","interface":0},
      {"address":"fd60:3::20/64","gateway":"fe80::1","interface":1}]})");
  REQUIRE(got);
  REQUIRE(got->size() == 2);
  CHECK((*got)[0].uplink == "up1");
  CHECK((*got)[1].uplink == "up2");
  CHECK((*got)[1].gateway == "fe80::1");
}

TEST_CASE("I9: example 6: two host entries without an index are an error") {
  require_error(resolve(R"({"interfaces":[{"name":"up1"},{"name":"up2"}],
                            "ips":[{"address":"10.60.2.20/24","gateway":"10.60.2.1"}]})"),
                "interfaces[0] and interfaces[1] are both on the host");
}

TEST_CASE("I3 D13 D15 C41: example 7: no gateway is an error on a configured uplink") {
  const std::string text = R"({"interfaces":[{"name":"up1"}],"ips":[{"address":"10.60.2.21/24"}]})";
  require_error(resolve(text), "has no gateway");

  HostView view = host();
  const auto octets = ip("10.60.2.9");
  std::ranges::copy(octets.octets(), view.uplinks.at(2).gateway4);
  const auto configured = resolve(text, false, {}, view);
  REQUIRE(configured);
  CHECK(configured->front().gateway == "10.60.2.9");
}

TEST_CASE("I4: example 8: a gateway outside the subnet needs onLinkGateway") {
  const std::string text = R"({"interfaces":[{"name":"up1"}],
                               "ips":[{"address":"10.60.2.22/24","gateway":"10.60.9.1"}]})";
  require_error(resolve(text), "onLinkGateway");
  const auto allowed = resolve(text, true);
  REQUIRE(allowed);
  CHECK(allowed->front().gateway == "10.60.9.1");
}

TEST_CASE("I5: example 9: a /32 with a link-local gateway needs onLinkGateway") {
  const std::string text = R"({"interfaces":[{"name":"up1"}],
                               "ips":[{"address":"10.60.2.22/32","gateway":"169.254.1.1"}]})";
  require_error(resolve(text), "onLinkGateway");
  CHECK(resolve(text, true));
}

TEST_CASE("I8: example 10: a MAC that is none is an error") {
  for (const char* bad : {"02:00:zz", "00:00:00:00:00:00", "01:00:5e:10:00:02", "02:00:5e:10:00:02:07:08"}) {
    require_error(resolve(formatted(R"({{"interfaces":[{{"name":"up1","mac":"{}"}}],
                                         "ips":[{{"address":"10.60.2.17/24","gateway":"10.60.2.1"}}]}})",
                                    bad)),
                  "is not the MAC of an interface");
  }
}

TEST_CASE("I9: example 11: an index that points nowhere or into a sandbox is an error") {
  const std::string tail = R"(],"ips":[{"address":"10.60.2.17/24","gateway":"10.60.2.1","interface":)";
  require_error(resolve(R"({"interfaces":[{"name":"up1"})" + tail + "7}]}"), "interfaces[7]");
  require_error(resolve(R"({"interfaces":[{"name":"up1"})" + tail + "-2}]}"), "interfaces[-2]");
  require_error(resolve(R"({"interfaces":[{"name":"eth0","sandbox":"/run/netns/x"},{"name":"up1"})" + tail + "0}]}"),
                "is in sandbox /run/netns/x");
}

TEST_CASE("I2: example 12: two addresses of one family are both kept") {
  const auto got = resolve(R"({"interfaces":[{"name":"up1"}],"ips":[{"address":"10.60.2.17/24","gateway":"10.60.2.1"},
                               {"address":"10.60.2.18/24","gateway":"10.60.2.1"}]})");
  REQUIRE(got);
  CHECK(got->size() == 2);
  require_error(resolve(R"({"interfaces":[{"name":"up1"}],"ips":[{"address":"10.60.2.17/24","gateway":"10.60.2.1"},
                            {"address":"10.60.2.17/24","gateway":"10.60.2.1"}]})"),
                "is twice in the IPAM result");
}

TEST_CASE("I10: example 13: without entries the configured uplink is next, then the subnet, then none") {
  const std::string known = R"({"interfaces":[],"ips":[{"address":"10.60.3.17/24","gateway":"10.60.3.1"}]})";
  CHECK(resolve(known, true, "up1")->front().uplink == "up1");
  CHECK(resolve(known, true, "02:00:5e:10:00:02")->front().uplink == "up1");
  CHECK(resolve(known)->front().uplink == "up2");
  const std::string unknown = R"({"interfaces":[],"ips":[{"address":"10.77.0.5/24","gateway":"10.77.0.1"}]})";
  CHECK(resolve(unknown)->front().uplink == "none");
}

TEST_CASE("example 14: an IPv4 address written as IPv6 is an error") {
  require_error(resolve(R"({"interfaces":[{"name":"up1"}],"ips":[{"address":"::ffff:10.60.2.5/120",
                            "gateway":"fe80::1"}]})"),
                "IPv4 address written as IPv6");
}

TEST_CASE("example 15: the uplink may be the one of the default route") {
  HostView view = host();
  view.uplinks.at(2).flags = PDL_UPLINK_DISCOVERED | PDL_UPLINK_PRIMARY;
  const auto got = resolve(R"({"interfaces":[{"name":"up1"}],
                               "ips":[{"address":"10.60.2.17/24","gateway":"10.60.2.1"}]})",
                           false, {}, view);
  REQUIRE(got);
  CHECK(got->front().uplink == "up1");
}

TEST_CASE("D65: example 16: loopback and the pod's own veth are refused by name, without waiting") {
  const auto lo = find_uplink({"lo", {}, "a test"}, host(), host_veth);
  REQUIRE_FALSE(lo);
  CHECK(lo.error().code == 0);
  CHECK_THAT(lo.error().message, ContainsSubstring("lo cannot be an uplink"));
  const auto own = find_uplink({host_veth, {}, "a test"}, host(), host_veth);
  REQUIRE_FALSE(own);
  CHECK(own.error().code == 0);
  CHECK_THAT(own.error().message, ContainsSubstring("own veth"));
  const auto by_mac = find_uplink({{}, mac("02:70:6f:64:75:70"), "a test"}, host(), host_veth);
  REQUIRE_FALSE(by_mac);
  CHECK(by_mac.error().code == 0);
}

TEST_CASE("example 17: another pod's veth is refused although it has no sandbox") {
  HostView view = host();
  view.links.push_back(link(9, "pdlaaaaaaaaaaaa", "02:70:6f:64:75:70"));
  const auto got = find_uplink({"pdlaaaaaaaaaaaa", {}, "a test"}, view, host_veth);
  REQUIRE_FALSE(got);
  CHECK(got.error().code == 0);
  CHECK_THAT(got.error().message, ContainsSubstring("host side of a pod's veth"));
}

TEST_CASE("I12: names that no interface can have are errors without a look at the host") {
  for (const char* bad : {"a/b", "0123456789abcdef", "a b", ".."}) {
    require_error(
        resolve(formatted(R"({{"interfaces":[{{"name":"{}"}}],"ips":[{{"address":"10.60.2.17/24"}}]}})", bad)),
        "cannot be the name of an interface");
  }
  require_error(resolve(R"({"interfaces":[{}],"ips":[{"address":"10.60.2.17/24"}]})"), "neither name nor MAC");
  CHECK_FALSE(parse_uplink_key("a/b"));
  CHECK_FALSE(parse_uplink_key("ff:ff:ff:ff:ff:ff"));
  CHECK_FALSE(parse_uplink_key(""));
}

TEST_CASE("addresses that no pod can have are errors") {
  for (const char* bad : {"10.60.2.0/24", "10.60.2.255/24", "127.0.0.5/8", "224.0.0.5/24", "0.0.0.0/24",
                          "169.254.7.7/16", "fe80::5/64", "ff02::5/64", "::1/128", "fd60:3::/64", "10.1.2.3/0"}) {
    INFO(bad);
    CHECK_FALSE(resolve(formatted(R"({{"interfaces":[{{"name":"up1"}}],"ips":[{{"address":"{}","gateway":"{}"}}]}})",
                                  bad, std::strchr(bad, ':') != nullptr ? "fe80::9" : "10.60.2.1"),
                        true));
  }
  require_error(resolve(R"({"interfaces":[{"name":"up1"}]})"), "has no address");
  CHECK(resolve(R"({"interfaces":[{"name":"up1"}],"ips":[{"address":"10.60.2.0/31","gateway":"10.60.2.1"}]})"));
}

TEST_CASE("I12: an alternative name finds the link") {
  HostView view = host();
  view.links[1].alternative_names = {"enp0s1", "wan"};
  const auto got = find_uplink({"wan", {}, "a test"}, view, host_veth);
  REQUIRE(got);
  CHECK(got->link.name == "up1");
}

TEST_CASE("I13: an uplink that the agent does not manage can be waited for") {
  CHECK(find_uplink({"eth9", {}, "a test"}, host(), host_veth).error().code == EAGAIN);
  HostView view = host();
  manage(view, view.links[3]);
  view.uplinks.at(4).role = PDL_ROLE_TRANSIT;
  CHECK(find_uplink({"eth9", {}, "a test"}, view, host_veth).error().code == EAGAIN);
}

TEST_CASE("I14: of several links with one MAC the one that stands alone is meant") {
  const UplinkName wanted{{}, mac("02:00:5e:10:00:02"), "a test"};
  HostView view = host();

  SECTION("a bond's member bears the bond's MAC") {
    Link member = link(20, "member", "02:00:5e:10:00:02");
    member.master = 2;
    view.links.insert(view.links.begin(), member);
    CHECK(find_uplink(wanted, view, host_veth)->link.name == "up1");
  }
  SECTION("a VLAN bears its parent's MAC") {
    Link vlan = link(20, "up1.7", "02:00:5e:10:00:02");
    vlan.kind = "vlan";
    vlan.parent = 2;
    view.links.insert(view.links.begin(), vlan);
    CHECK(find_uplink(wanted, view, host_veth)->link.name == "up1");
  }
  SECTION("two that know nothing of each other are named") {
    view.links.push_back(link(20, "twin", "02:00:5e:10:00:02"));
    const auto got = find_uplink(wanted, view, host_veth);
    REQUIRE_FALSE(got);
    CHECK(got.error().code == 0);
    CHECK_THAT(got.error().message, ContainsSubstring("up1, twin"));
  }
}

TEST_CASE("a link without an Ethernet MAC is refused by name") {
  HostView view = host();
  Link tunnel = link(20, "wg0", "02:00:5e:10:00:22");
  tunnel.mac.reset();
  tunnel.hardware_type = ARPHRD_NONE;
  view.links.push_back(tunnel);
  const auto got = find_uplink({"wg0", {}, "a test"}, view, host_veth);
  REQUIRE_FALSE(got);
  CHECK(got.error().code == 0);
  CHECK_THAT(got.error().message, ContainsSubstring("wg0 cannot be an uplink: it has no MAC"));
}

TEST_CASE("the subnet with the longest prefix decides, and equal ones are an error that names both") {
  HostView view = host();
  view.addresses.push_back({3, prefix("10.60.2.129/25"), 0, 0});
  CHECK(uplink_by_subnet(ip("10.60.2.200"), view)->value().link.name == "up2");
  CHECK(uplink_by_subnet(ip("10.60.2.20"), view)->value().link.name == "up1");
  view.addresses.push_back({3, prefix("10.60.2.8/24"), 0, 0});
  const auto got = uplink_by_subnet(ip("10.60.2.20"), view);
  REQUIRE_FALSE(got);
  CHECK_THAT(got.error().message, ContainsSubstring("both up1 and up2"));
  // An address of an interface that is no home does not count.
  view.addresses.push_back({4, prefix("10.99.0.1/16"), 0, 0});
  CHECK_FALSE(uplink_by_subnet(ip("10.99.0.7"), view)->has_value());
}

TEST_CASE("D71: the inferred gateway is the subnet's first address, whatever the prefix length") {
  CHECK(first_of_subnet(prefix("10.0.0.130/25")) == ip("10.0.0.129"));
  CHECK(first_of_subnet(prefix("10.0.0.210/28")) == ip("10.0.0.209"));
  CHECK(first_of_subnet(prefix("192.168.1.4/24")) == ip("192.168.1.1"));
  CHECK(first_of_subnet(prefix("10.129.2.111/23")) == ip("10.129.2.1"));
  CHECK_FALSE(first_of_subnet(prefix("10.0.0.2/31")));
  CHECK_FALSE(first_of_subnet(prefix("10.0.0.2/32")));
  CHECK_FALSE(first_of_subnet(prefix("192.168.1.1/24")));
  CHECK_FALSE(first_of_subnet(prefix("fd00::5/64")));
}

TEST_CASE("D71: a gateway is inferred on discovered uplinks only") {
  HostView view = host();
  WantedAddress wanted{prefix("10.60.3.17/24"), {}, {}};
  const auto choose = [&](const std::string& name) {
    return choose_gateway(wanted, *find_uplink({name, {}, "a test"}, view, host_veth), view, false);
  };
  CHECK_FALSE(choose("up2"));

  view.uplinks.at(3).flags = PDL_UPLINK_DISCOVERED;
  SECTION("from the subnet") {
    const auto got = choose("up2");
    REQUIRE(got);
    CHECK(got->address == ip("10.60.3.1"));
    CHECK(got->inferred);
  }
  SECTION("from the primary, where both have the same subnet") {
    view.uplinks.at(2).flags = PDL_UPLINK_DISCOVERED | PDL_UPLINK_PRIMARY;
    const auto gateway = ip("10.60.3.77");
    std::ranges::copy(gateway.octets(), view.uplinks.at(2).gateway4);
    CHECK(choose("up2")->address == ip("10.60.3.1"));
    view.addresses.push_back({2, prefix("10.60.3.4/24"), 0, 0});
    CHECK(choose("up2")->address == gateway);
  }
  SECTION("its own default route comes first") {
    const auto gateway = ip("10.60.3.55");
    std::ranges::copy(gateway.octets(), view.uplinks.at(3).gateway4);
    const auto got = choose("up2");
    REQUIRE(got);
    CHECK(got->address == gateway);
    CHECK_FALSE(got->inferred);
  }
  SECTION("never for IPv6, /31 and /32") {
    for (const char* text : {"fd60:3::17/64", "10.60.3.17/31", "10.60.3.17/32"}) {
      wanted.address = prefix(text);
      CHECK_FALSE(choose("up2"));
    }
  }
  SECTION("never the pod's own") {
    wanted.address = prefix("10.60.3.1/24");
    CHECK_FALSE(choose("up2"));
  }
}

TEST_CASE("I4 D71: a gateway that cannot be the next hop is refused") {
  const HostView view = host();
  const Uplink uplink = *find_uplink({"up1", {}, "a test"}, view, host_veth);
  const auto allowed = [&](const std::string& address, const std::string& gateway) {
    return choose_gateway({prefix(address), ip(gateway), {}}, uplink, view, true).has_value();
  };
  CHECK(allowed("10.60.2.17/24", "10.60.2.1"));
  CHECK(allowed("10.60.2.17/24", "fe80::1"));
  CHECK(allowed("fd60:2::17/64", "fd60:2::1"));
  CHECK_FALSE(allowed("10.60.2.17/24", "10.60.2.17"));
  CHECK_FALSE(allowed("10.60.2.17/24", "10.60.2.0"));
  CHECK_FALSE(allowed("10.60.2.17/24", "10.60.2.255"));
  CHECK_FALSE(allowed("10.60.2.17/24", "10.60.2.250"));  // the node's
  CHECK_FALSE(allowed("10.60.2.17/24", "10.60.3.250"));  // the node's on another uplink
  CHECK_FALSE(allowed("10.60.2.17/24", "224.0.0.1"));
  CHECK_FALSE(allowed("10.60.2.17/24", "0.0.0.0"));
  CHECK_FALSE(allowed("10.60.2.17/24", "::ffff:10.60.2.1"));
  CHECK_FALSE(allowed("fd60:2::17/64", "10.60.2.1"));
  CHECK_FALSE(allowed("fd60:2::17/64", "fd60:2::17"));
}

}  // namespace
}  // namespace poduplink
