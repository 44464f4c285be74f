// SPDX-License-Identifier: Apache-2.0
// The example IPAM results, from the stub IPAM to the map entry or to the error. Uplink 1 stands for up1 of the
// examples, uplink 2 for up2. After every refused ADD the IPAM plugin has seen exactly one ADD and one DEL, and
// nothing is left.
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "maps/attachment.h"
#include "tests/e2e/stand_in.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }

pdl_pod entry_of(StandIn& node, const std::string& address) {
  const Tables tables = value_of(node->tables());
  const auto entry = value_of(tables.pods.find(ip(address)));
  INFO("entry of " << address);
  REQUIRE(entry);
  return *entry;
}

void require_entry(StandIn& node, const std::string& address, const std::string& uplink, const std::string& gateway,
                   unsigned prefix_length) {
  const pdl_pod entry = entry_of(node, address);
  CHECK(static_cast<int>(entry.home) == value_of(node.link_index(uplink)));
  REQUIRE(pod_gateway(entry));
  CHECK(pod_gateway(entry)->text() == gateway);
  CHECK(entry.prefix_len == prefix_length);
  CHECK(entry.mtu == 1500);
  CHECK(entry.mode == PDL_MODE_FAST);
  CHECK(entry.flags == PDL_POD_ON_LINK);
  CHECK(entry.owner != 0);
}

// ADD, a look at it, CHECK, DEL.
template <typename Look>
void require_pod(StandIn& node, const std::string& result, const std::string& patch, const Look& look) {
  node.forget_calls();
  const Pod pod = value_of(node->add_pod("p", stub_pod(result, patch)));
  look(pod);
  value_of(node->check_pod("p"));
  value_of(node->del_pod("p"));
  CHECK(node.verbs() == "ADD CHECK DEL");
  REQUIRE_CLEAN(*node);
}

void require_refused(StandIn& node, const std::string& result, unsigned code, const std::string& text,
                     const std::string& patch = {}) {
  INFO(result);
  node.forget_calls();
  Pod pod = value_of(node.make_pod("p", stub_pod(result, patch)));
  // "OWN" stands for the name that the pod's own veth is going to have.
  if (const auto at = pod.config.find("OWN"); at != std::string::npos) {
    pod.config.replace(at, 3, host_veth_name(AttachmentId{"stub-ipam-eth1", pod.container_id, "eth0"}));
  }
  const PluginAnswer answer = value_of(node->call("ADD", pod));
  INFO(answer.text());
  CHECK(answer.faults.empty());
  CHECK(answer.process.status != 0);
  CHECK(answer.code == code);
  CHECK_THAT(answer.message, ContainsSubstring(text));
  CHECK(node.verbs() == "ADD DEL");
  CHECK(value_of(pod.space->run_ok({"ip", "-br", "link"})).find("eth0") == std::string::npos);
  CHECK(lines_of(node->leftovers()).empty());
  // The runtime's own DEL after it finds nothing to do.
  CHECK(value_of(node->call("DEL", pod)).ok());
  value_of(pod.space->remove());
  REQUIRE_CLEAN(*node);
}

}  // namespace

TEST_CASE("I2 I5 I8 I9 I10 C43 D103: the example IPAM results that name an uplink lead to it") {
  StandIn node;
  const auto v4 = [&](const std::string& address, const std::string& uplink, const std::string& gateway) {
    return [&node, address, uplink, gateway](const Pod&) { require_entry(node, address, uplink, gateway, 16); };
  };
  SECTION("1: by MAC alone") {
    require_pod(node, R"({"cniVersion":"1.0.0","interfaces":[{"name":"","mac":"02:00:00:00:01:02"}],
                          "ips":[{"address":"10.1.9.17/16","gateway":"10.1.0.1"}]})",
                "", v4("10.1.9.17", "eth1", "10.1.0.1"));
  }
  SECTION("2: by name alone") {
    require_pod(node, R"({"cniVersion":"1.0.0","interfaces":[{"name":"eth1"}],
                          "ips":[{"address":"10.1.9.18/16","gateway":"10.1.0.1"}]})",
                "", v4("10.1.9.18", "eth1", "10.1.0.1"));
  }
  SECTION("3: behind an entry with a sandbox") {
    require_pod(node, R"({"cniVersion":"1.0.0","interfaces":[
                            {"name":"eth0","mac":"0a:00:00:00:00:09","sandbox":"/run/netns/p1"},
                            {"name":"eth2","mac":"02:00:00:00:02:02"}],
                          "ips":[{"address":"10.2.9.9/16","gateway":"10.2.0.1","interface":1}]})",
                "", v4("10.2.9.9", "eth2", "10.2.0.1"));
  }
  SECTION("5: each family by its own") {
    require_pod(node, R"({"cniVersion":"1.1.0","interfaces":[{"name":"eth1","mac":"02:00:00:00:01:02"},
                            {"name":"eth2","mac":"02:00:00:00:02:02"}],
                          "ips":[{"address":"10.1.9.20/16","gateway":"10.1.0.1","interface":0},
                                 {"address":"fd00:2::9:20/64","gateway":"fe80::1","interface":1}]})",
                "", [&](const Pod&) {
                  require_entry(node, "10.1.9.20", "eth1", "10.1.0.1", 16);
                  require_entry(node, "fd00:2::9:20", "eth2", "fe80::1", 64);
                });
  }
  SECTION("8: with onLinkGateway a gateway outside the subnet") {
    require_pod(node, R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.22/16","gateway":"10.9.0.1"}]})",
                R"({"onLinkGateway":true})", v4("10.1.9.22", "eth1", "10.9.0.1"));
  }
  SECTION("9: with onLinkGateway a /32 and a link-local gateway") {
    require_pod(node, R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.22/32","gateway":"169.254.1.1"}]})",
                R"({"onLinkGateway":true})",
                [&](const Pod&) { require_entry(node, "10.1.9.22", "eth1", "169.254.1.1", 32); });
  }
  SECTION("12: two addresses of one family have two entries") {
    require_pod(node, R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.22/16","gateway":"10.1.0.1"},
                                                                {"address":"10.1.9.23/16","gateway":"10.1.0.2"}]})",
                "", [&](const Pod& pod) {
                  require_entry(node, "10.1.9.22", "eth1", "10.1.0.1", 16);
                  require_entry(node, "10.1.9.23", "eth1", "10.1.0.2", 16);
                  CHECK(pod.result.ips.size() == 2);
                });
  }
  SECTION("13: without requireUplink a plain pod, with no entry and no program") {
    require_pod(node, R"({"interfaces":[],"ips":[{"address":"10.77.0.5/24","gateway":"10.77.0.1"}]})",
                R"({"requireUplink":false,"mtu":1400})", [&](const Pod& pod) {
                  const Tables tables = value_of(node->tables());
                  CHECK_FALSE(value_of(tables.pods.find(ip("10.77.0.5"))));
                  const std::string shown =
                      value_of(node->node().run_ok({"tc", "qdisc", "show", "dev", pod.host_veth}));
                  CHECK(shown.find("clsact") == std::string::npos);
                  // It reaches the node, by the same gateway as all pods.
                  value_of(pod.space->run_ok({"ping", "-c1", "-W2", "10.1.0.10"}));
                });
  }
  SECTION("13: the uplink in whose subnet the address lies") {
    require_pod(node, R"({"ips":[{"address":"10.3.9.5/16","gateway":"10.3.0.1"}]})", "",
                v4("10.3.9.5", "eth3", "10.3.0.1"));
  }
  SECTION("13: the configured uplink") {
    require_pod(node, R"({"ips":[{"address":"10.3.9.5/16","gateway":"10.3.0.1"}]})",
                R"({"uplink":"02:00:00:00:02:02"})", v4("10.3.9.5", "eth2", "10.3.0.1"));
  }
  SECTION("15: the interface of the default route") {
    pdl_uplink first = value_of(node.uplink_entry("eth1"));
    first.flags |= PDL_UPLINK_PRIMARY;
    value_of(node.set_uplink("eth1", first));
    require_pod(node, R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.5/16","gateway":"10.1.0.1"}]})", "",
                v4("10.1.9.5", "eth1", "10.1.0.1"));
  }
}

TEST_CASE("I1 I3 I4 I9 I11 I12 H9 J13 D13: the example IPAM results that are at fault are refused and undone") {
  StandIn node;
  constexpr unsigned uplink = 103;
  constexpr unsigned result = 104;
  const auto named = [](const std::string& interfaces, const std::string& ips) {
    return R"({"cniVersion":"1.0.0","interfaces":[)" + interfaces + R"(],"ips":[)" + ips + "]}";
  };
  const std::string good_ip = R"({"address":"10.1.9.19/16","gateway":"10.1.0.1"})";
  SECTION("2: an unknown name, after a bounded wait") {
    require_refused(node, named(R"({"name":"up9"})", good_ip), uplink, "uplink up9 not found");
  }
  SECTION("4: name and MAC disagree") {
    require_refused(node, named(R"({"name":"eth1","mac":"02:00:00:00:02:02"})", good_ip), uplink,
                    "has MAC 02:00:00:00:01:02");
  }
  SECTION("6: two host entries and no index") {
    require_refused(node, named(R"({"name":"eth1"},{"name":"eth2"})", good_ip), uplink, "both on the host");
  }
  SECTION("7: no gateway") {
    require_refused(node, named(R"({"name":"eth1"})", R"({"address":"10.1.9.21/16"})"), result, "has no gateway");
  }
  SECTION("8: a gateway outside the subnet") {
    require_refused(node, named(R"({"name":"eth1"})", R"({"address":"10.1.9.22/16","gateway":"10.9.0.1"})"), result,
                    "onLinkGateway");
  }
  SECTION("9: a /32 with a link-local gateway") {
    require_refused(node, named(R"({"name":"eth1"})", R"({"address":"10.1.9.22/32","gateway":"169.254.1.1"})"), result,
                    "onLinkGateway");
  }
  SECTION("10: a MAC that is none") {
    require_refused(node, named(R"({"name":"eth1","mac":"02:00:zz"})", good_ip), uplink, "02:00:zz");
  }
  SECTION("11: indexes that name no host entry") {
    require_refused(node,
                    named(R"({"name":"eth1"})", R"({"address":"10.1.9.19/16","gateway":"10.1.0.1","interface":7})"),
                    uplink, "interfaces[7]");
    require_refused(node,
                    named(R"({"name":"eth1","sandbox":"/run/netns/x"})",
                          R"({"address":"10.1.9.19/16","gateway":"10.1.0.1","interface":0})"),
                    uplink, "sandbox");
  }
  SECTION("12: the same address twice") {
    require_refused(node, named(R"({"name":"eth1"})", good_ip + "," + good_ip), result, "twice");
  }
  SECTION("13: no uplink where one is required, or for one family only") {
    const std::string unknown = R"({"address":"10.77.0.5/24","gateway":"10.77.0.1"})";
    require_refused(node, named("", unknown), uplink, "has no uplink");
    require_refused(node, named("", unknown + R"(,{"address":"10.3.9.5/16","gateway":"10.3.0.1"})"), uplink,
                    "another address of the pod has one", R"({"requireUplink":false})");
  }
  SECTION("14: an IPv4 address written as IPv6") {
    require_refused(node, named(R"({"name":"eth1"})", R"({"address":"::ffff:10.60.2.5/120","gateway":"fe80::1"})"),
                    result, "IPv4 address written as IPv6");
  }
  SECTION("16: loopback and the pod's own veth") {
    require_refused(node, named(R"({"name":"lo"})", good_ip), uplink, "lo cannot be an uplink");
    require_refused(node, named(R"({"name":"OWN"})", good_ip), uplink, "the pod's own veth");
    require_refused(node, named(R"({"mac":"02:70:6f:64:75:70"})", good_ip), uplink, "host side of every pod's veth");
  }
  SECTION("17: another plugin's result is no place to look for uplinks") {
    node.forget_calls();
    const Pod pod = value_of(
        node.make_pod("p", stub_pod(named(R"({"name":"eth1"})", good_ip), R"({"prevResult":{"cniVersion":"1.0.0",
               "interfaces":[{"name":"veth7"},{"name":"eth0","sandbox":"/run/netns/x"}],"ips":[]}})")));
    const PluginAnswer answer = value_of(node->call("ADD", pod));
    CHECK(answer.code == 7);
    CHECK_THAT(answer.message, ContainsSubstring("prevResult"));
    CHECK(node.verbs().empty());
    value_of(pod.space->remove());
  }
  SECTION("texts that are no result") {
    require_refused(node, R"({"ips":[{"address":"10.1.9.19","gateway":"10.1.0.1"}]})", result, "ips[0].address");
    require_refused(node, R"({"cniVersion":"9.9.9","ips":[]})", 1, "9.9.9");
    require_refused(node, "null", result, "has no address");
    require_refused(node, "{}", result, "has no address");
    require_refused(node, "[]", result, "is not an object");
  }
  SECTION("an address that the node itself has") {
    require_refused(node, named(R"({"name":"eth1"})", R"({"address":"10.1.0.10/16","gateway":"10.1.0.1"})"), result,
                    "this node's own");
  }
}
