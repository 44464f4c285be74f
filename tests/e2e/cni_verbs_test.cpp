// SPDX-License-Identifier: Apache-2.0
// ADD, CHECK and DEL of the plugin as runtimes call them, and as they should not.
#include <catch2/matchers/catch_matchers_string.hpp>

#include <thread>

#include "loader/base/file.h"
#include "maps/attachment.h"
#include "maps/paths.h"
#include "maps/record.h"
#include "tests/e2e/stand_in.h"
#include "tests/harness/capture.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr const char* one_address =
    R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"}]})";

constexpr const char* dual =
    R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"},
        {"address":"fd00:1::9:7/64","gateway":"fd00:1::1"}]})";

IpAddress ip(const std::string& text) { return IpAddress::parse(text).value(); }

std::string inside(const Pod& pod, const std::vector<std::string>& argv) { return value_of(pod.space->run_ok(argv)); }

AttachmentId id_of(const Pod& pod, const std::string& network) {
  return {network, pod.container_id, pod.options.if_name};
}

Record record_of(StandIn& node, const Pod& pod, const std::string& network) {
  return value_of(load_record(node->run_dir(), id_of(pod, network))).value();
}

// What a runtime may do to a call.
struct Changed {
  std::optional<std::string> netns;
  std::optional<std::string> config;
  std::vector<std::string> more;  // environment
};

PluginAnswer call(StandIn& node, const std::string& verb, const Pod& pod, const Changed& change) {
  const harness::Invocation asked{.verb = verb,
                                  .container_id = pod.container_id,
                                  .netns = change.netns.value_or(pod.space->path()),
                                  .if_name = pod.options.if_name,
                                  .args = pod.options.args,
                                  .config = change.config.value_or(pod.config)};
  return value_of(node->invoke(asked, change.more));
}

// A pod that was added but is not in pods(): tests delete it themselves.
Pod added(StandIn& node, const std::string& name, const PodOptions& options) {
  Pod pod = value_of(node.make_pod(name, options));
  value_of(node->adopt(pod, value_of(node->call("ADD", pod))));
  return pod;
}

}  // namespace

TEST_CASE("D1 D2 E1 N1 C49: every version of the specification has its ADD, CHECK and DEL") {
  StandIn node;
  for (const std::string version : {"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}) {
    INFO(version);
    PodOptions options = stub_pod("", "", version);
    options.uplink = 2;
    const Pod pod = value_of(node->add_pod("one", options));
    if (!version.starts_with("0.3")) {
      value_of(node->check_pod("one"));
    } else {
      CHECK(value_of(node->call("CHECK", pod)).code == 1);
    }
    value_of(node->del_pod("one"));
    REQUIRE_CLEAN(*node);
  }
}

TEST_CASE(
    "J1 J8 J10 E3 E4 E5 E6 E9 I6 I15 P3 A11 A12 C40 C42 C52 C56 D50: ADD makes what its result says, and the pod can "
    "use it at once") {
  StandIn node({.lab = {.mtu = {{2, 1400}}}});
  PodOptions options = stub_pod(R"({"interfaces":[{"name":"eth2"}],
      "ips":[{"address":"10.2.9.7/16","gateway":"10.2.0.1"},{"address":"fd00:2::9:7/64","gateway":"fd00:2::1"}],
      "routes":[{"dst":"0.0.0.0/0","mtu":1300},{"dst":"192.0.2.0/24","gw":"10.2.0.9","priority":7},
                {"dst":"192.0.2.0/24","gw":"10.2.0.9","priority":7},{"dst":"2001:db8::/32","table":77}],
      "dns":{"nameservers":["10.2.0.53"],"search":["ipam.test"]}})",
                                R"({"runtimeConfig":{"mac":"02:aa:bb:cc:dd:ee"}})", "1.1.0");
  options.args = "IgnoreUnknown=1;K8S_POD_NAME=web-1;K8S_POD_NAMESPACE=shop;MAC=02:11:11:11:11:11";
  Pod pod = value_of(node.make_pod("p", options));
  // As in a container of a runtime: IPv6 off, duplicate address detection on.
  value_of(pod.space->sysctl({"net.ipv6.conf.default.disable_ipv6=1", "net.ipv6.conf.default.accept_dad=1"}));
  const Capture far = value_of(Capture::start(node->gateway(2), "eth0"));
  const PluginAnswer answer = value_of(node->call("ADD", pod));
  value_of(node->adopt(pod, answer));
  node->keep_pod(pod);

  CHECK(pod.mac.text() == "02:aa:bb:cc:dd:ee");
  const std::string json = answer.process.out;
  CHECK_THAT(json, ContainsSubstring(R"("address":"10.2.9.7/32","gateway":"169.254.1.1","interface":1)"));
  CHECK_THAT(json, ContainsSubstring(R"("address":"fd00:2::9:7/128","gateway":"fe80::1","interface":1)"));
  CHECK_THAT(json, ContainsSubstring(R"({"dst":"0.0.0.0/0","gw":"169.254.1.1","mtu":1300})"));
  CHECK_THAT(json, ContainsSubstring(R"({"dst":"192.0.2.0/24","gw":"169.254.1.1","priority":7})"));
  CHECK_THAT(json, ContainsSubstring(R"({"dst":"::/0","gw":"fe80::1"})"));
  CHECK_THAT(json, ContainsSubstring(R"("nameservers":["10.2.0.53"])"));

  const std::string addresses = inside(pod, {"ip", "address", "show", "dev", "eth0"});
  CHECK(addresses.find("tentative") == std::string::npos);
  CHECK_THAT(addresses, ContainsSubstring("inet 10.2.9.7/32") && ContainsSubstring("inet6 fd00:2::9:7/128"));
  const std::string routes = inside(pod, {"ip", "route"}) + inside(pod, {"ip", "-6", "route", "show", "table", "all"});
  CHECK_THAT(routes, ContainsSubstring("default via 169.254.1.1 dev eth0") && ContainsSubstring("mtu 1300"));
  CHECK_THAT(routes, ContainsSubstring("169.254.1.1 dev eth0 proto static scope link"));
  CHECK_THAT(routes, ContainsSubstring("192.0.2.0/24 via 169.254.1.1 dev eth0 proto static metric 7"));
  CHECK_THAT(routes, ContainsSubstring("2001:db8::/32 via fe80::1 dev eth0 table 77"));
  CHECK_THAT(routes, ContainsSubstring("default via fe80::1 dev eth0"));
  const std::string neighbours = inside(pod, {"ip", "neigh"});
  CHECK_THAT(neighbours, ContainsSubstring("169.254.1.1 dev eth0 lladdr 02:70:6f:64:75:70 PERMANENT"));
  CHECK_THAT(neighbours, ContainsSubstring("fe80::1 dev eth0 lladdr 02:70:6f:64:75:70 PERMANENT"));

  const std::string on_host = value_of(node->node().run_ok({"ip", "route"})) +
                              value_of(node->node().run_ok({"ip", "-6", "route"})) +
                              value_of(node->node().run_ok({"ip", "neigh", "show", "proxy"}));
  CHECK_THAT(on_host, ContainsSubstring("10.2.9.7 dev " + pod.host_veth) &&
                          ContainsSubstring("fd00:2::9:7 dev " + pod.host_veth) &&
                          ContainsSubstring("fd00:2::9:7 dev eth2 proxy"));
  const std::string accept_ra = "net.ipv6.conf." + pod.host_veth + ".accept_ra";
  CHECK(value_of(node->node().run_ok({"sysctl", "-n", accept_ra})) == "0\n");

  const Record record = record_of(node, pod, "stub-ipam-eth1");
  CHECK(record.state == RecordState::ready);
  CHECK(record.labels == std::map<std::string, std::string>{{"K8S_POD_NAME", "web-1"}, {"K8S_POD_NAMESPACE", "shop"}});
  CHECK(record.mtu == 1400);
  const Tables tables = value_of(node->tables());
  const auto entry = value_of(tables.pods.find(ip("10.2.9.7"))).value();
  CHECK(to_mac(entry.pod_mac) == pod.mac);
  CHECK(entry.mtu == 1400);
  CHECK(entry.owner == attachment_hash(record.id));

  // The neighbours on the uplink's network heard of both addresses, from the uplink's MAC.
  const auto about = [&](const char* address, std::uint16_t arp, std::uint8_t icmp) {
    return [=, mac = node->uplink(2).mac()](const Frame& frame) {
      return frame.packet.source_mac == mac && frame.packet.source == ip(address) &&
             frame.packet.arp_operation == arp && frame.packet.icmp_type == icmp && frame.packet.payload_checksum_ok;
    };
  };
  CHECK(far.wait_for(about("10.2.9.7", 1, 0)));
  CHECK(far.wait_for(about("10.2.9.7", 2, 0)));
  CHECK(far.wait_for(about("fd00:2::9:7", 0, 136)));

  value_of(node->check_pod("p"));
  value_of(node->del_pod("p"));
}

TEST_CASE("B12 O10: names of the runtime win over those of the configuration, and those over the IPAM plugin's") {
  StandIn node;
  const std::string with_dns =
      R"({"interfaces":[{"name":"eth1"}],"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"}],
          "dns":{"nameservers":["1.1.1.1"],"search":["ipam"]}})";
  const auto result = [&](const std::string& patch) {
    const std::string json = value_of(node->add_pod("p", stub_pod(with_dns, patch))).result.json;
    value_of(node->del_pod("p"));
    return json;
  };
  CHECK_THAT(result(R"({"dns":{"nameservers":["2.2.2.2"]}})"),
             ContainsSubstring(R"("dns":{"nameservers":["2.2.2.2"]})"));
  CHECK_THAT(result(R"({"dns":{"nameservers":["2.2.2.2"]},"runtimeConfig":{"DNS":{"Servers":["3.3.3.3"]}}})"),
             ContainsSubstring(R"("dns":{"nameservers":["3.3.3.3"]})"));
  CHECK_THAT(result(R"({"dns":{}})"), ContainsSubstring(R"("search":["ipam"])"));
}

TEST_CASE("J2 H12 C22 C31: a second ADD is refused before the IPAM plugin is asked, and leaves the first alone") {
  StandIn node;
  const Pod pod = value_of(node->add_pod("p", stub_pod(one_address)));
  node.forget_calls();
  const PluginAnswer retried = call(node, "ADD", pod, {});
  CHECK(retried.code == 106);
  CHECK_THAT(retried.message, ContainsSubstring("CNI_IFNAME") && ContainsSubstring("eth0"));
  // Its interface is gone, but the attachment is known.
  value_of(pod.space->ip("link set eth0 down\nlink set eth0 name moved"));
  const PluginAnswer renamed = call(node, "ADD", pod, {});
  CHECK(renamed.code == 106);
  CHECK_THAT(renamed.message, ContainsSubstring("DEL has to come first"));
  value_of(pod.space->ip("link set moved name eth0"));
  value_of(pod.space->ip("link set eth0 up"));
  CHECK(node.verbs().empty());
  value_of(node->del_pod("p"));
}

TEST_CASE("K1 K2 K3 K9 G11 C1 C2 C4 D42 D53: DEL works whatever is missing, always asks the IPAM plugin, and twice") {
  StandIn node;
  const Pod pod = added(node, "p", stub_pod(dual));
  node.forget_calls();
  Changed change;
  const AttachmentId id = id_of(pod, "stub-ipam-eth1");
  const std::string record = record_path(node->run_dir(), attachment_hash(id));
  SECTION("nothing") {}
  SECTION("CNI_NETNS is empty") { change.netns = ""; }
  SECTION("CNI_NETNS is a file that is not there") { change.netns = "/run/netns/nobody"; }
  SECTION("CNI_NETNS is a plain file") {
    change.netns = node->folder() + "/plain";
    value_of(write_file_atomically(*change.netns, ""));
  }
  SECTION("CNI_NETNS is a mount namespace") { change.netns = "/proc/self/ns/mnt"; }
  SECTION("the record is gone") { value_of(remove_file(record)); }
  SECTION("the record is cut short") { value_of(write_file_atomically(record, "{\"netw")); }
  SECTION("the record is empty") { value_of(write_file_atomically(record, "")); }
  SECTION("the veth is gone") { value_of(node->node().ip("link delete " + pod.host_veth)); }
  SECTION("prevResult is garbage") { change.config = value_of(merged(pod.config, R"({"prevResult":{"ips":7}})")); }
  SECTION("prevResult is empty") { change.config = value_of(merged(pod.config, R"({"prevResult":{}})")); }
  SECTION("the plugin's own keys are broken") {
    change.config = value_of(merged(pod.config, R"({"mtu":"big","mode":3,"uplink":[],"ipamTimeout":"long"})"));
  }
  const PluginAnswer answer = call(node, "DEL", pod, change);
  INFO(answer.text());
  CHECK(answer.ok());
  CHECK(node.verbs() == "DEL");
  CHECK(node.calls().front().input == change.config.value_or(pod.config));
  REQUIRE_CLEAN(*node);
  CHECK(call(node, "DEL", pod, change).ok());
  CHECK(node.verbs() == "DEL DEL");
}

TEST_CASE("K1 K12 C12 C14 D47: DEL works after the maps, or all that the agent pinned, are gone") {
  StandIn node;
  const Pod pod = added(node, "p", stub_pod(one_address, R"({"mode":"netfilter"})"));
  SECTION("one map") { value_of(remove_file(map_pin(version_dir(node->pin_dir(), PDL_ABI_VERSION), "pods6"))); }
  SECTION("everything") { value_of(node.unpin()); }
  node.forget_calls();
  const PluginAnswer answer = call(node, "DEL", pod, {});
  INFO(answer.text());
  CHECK(answer.ok());
  CHECK(node.verbs() == "DEL");
  CHECK(value_of(load_records(node->run_dir())).empty());
  CHECK_FALSE(node->node().run_ok({"ip", "link", "show", pod.host_veth}));
  value_of(pod.space->remove());
  value_of(node.unpin());
  value_of(node.pin());
}

TEST_CASE("K5 K6 K11 C8 C11: DEL of what was never added is quick and touches nothing of others") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(one_address)));
  SECTION("nothing there") { CHECK(call(node, "DEL", pod, {}).ok()); }
  SECTION("CNI_NETNS and CNI_IFNAME are the node's own") {
    Pod foreign = pod;
    foreign.options.if_name = "eth1";
    CHECK(call(node, "DEL", foreign, {.netns = node->node().path()}).ok());
    value_of(node->node().run_ok({"ip", "link", "show", "eth1"}));
  }
  SECTION("an interface that has our name but is not ours") {
    const std::string name = host_veth_name(id_of(pod, "stub-ipam-eth1"));
    value_of(node->node().ip("link add " + name + " type veth peer name other0"));
    CHECK(call(node, "DEL", pod, {}).ok());
    value_of(node->node().ip("link delete " + name));
  }
  SECTION("no ipam key") {
    CHECK(call(node, "DEL", pod, {.config = value_of(merged(pod.config, R"({"ipam":null})"))}).ok());
    CHECK(node.verbs().empty());
  }
  SECTION("an IPAM plugin that is not there is an error, since its address would leak") {
    const PluginAnswer answer =
        call(node, "DEL", pod, {.config = value_of(merged(pod.config, R"({"ipam":{"type":"no-such-ipam"}})"))});
    CHECK(answer.code == 100);
    CHECK_THAT(answer.message, ContainsSubstring("no-such-ipam"));
  }
}

TEST_CASE("I7 D43: an address held by a living pod is refused, one of a pod that is gone is taken over") {
  StandIn node;
  const Pod first = added(node, "first", stub_pod(one_address));
  const Pod second = value_of(node.make_pod("second", stub_pod(one_address)));
  const PluginAnswer refused = call(node, "ADD", second, {});
  CHECK(refused.code == 106);
  CHECK_THAT(refused.message, ContainsSubstring("10.1.9.7") && ContainsSubstring(first.container_id));
  CHECK(call(node, "DEL", second, {}).ok());
  // The first one is as it was.
  const Tables tables = value_of(node->tables());
  CHECK(value_of(tables.pods.find(ip("10.1.9.7")))->owner == attachment_hash(id_of(first, "stub-ipam-eth1")));
  CHECK(value_of(node->call("CHECK", first)).ok());

  // The first pod's namespace, and with it its veth, go without a DEL.
  value_of(node->node().ip("link delete " + first.host_veth));
  Pod heir = value_of(node.make_pod("heir", stub_pod(one_address)));
  value_of(node->adopt(heir, value_of(node->call("ADD", heir))));
  const auto owner = attachment_hash(id_of(heir, "stub-ipam-eth1"));
  CHECK(value_of(tables.pods.find(ip("10.1.9.7")))->owner == owner);
  CHECK(record_of(node, first, "stub-ipam-eth1").addresses.empty());

  // Its late DEL leaves the heir alone.
  CHECK(call(node, "DEL", first, {}).ok());
  CHECK(value_of(tables.pods.find(ip("10.1.9.7")))->owner == owner);
  CHECK(value_of(node->call("CHECK", heir)).ok());
  CHECK(call(node, "DEL", heir, {}).ok());
}

TEST_CASE("D51: a plain pod ends what an earlier pod with its address left") {
  StandIn node;
  const std::string result = R"({"ips":[{"address":"10.77.0.5/24","gateway":"10.77.0.1"}]})";
  const Pod steered = added(node, "steered", stub_pod(result, R"({"uplink":"eth2","onLinkGateway":true})"));
  value_of(node->node().ip("link delete " + steered.host_veth));
  const Pod plain = added(node, "plain", stub_pod(result, R"({"requireUplink":false})"));
  const Tables tables = value_of(node->tables());
  CHECK_FALSE(value_of(tables.pods.find(ip("10.77.0.5"))));
  CHECK(call(node, "DEL", steered, {}).ok());
  CHECK(value_of(node->call("CHECK", plain)).ok());
  CHECK(call(node, "DEL", plain, {}).ok());
}

TEST_CASE("J15: one container can have two interfaces, and lose one") {
  StandIn node;
  const Pod first = added(node, "p", stub_pod(one_address));
  Pod second = first;
  second.options.if_name = "net1";
  second.config = node->pod_config(stub_pod(
      R"({"interfaces":[{"name":"eth2"}],"ips":[{"address":"10.2.9.7/16","gateway":"10.2.0.1"},
                                                {"address":"fd00:2::9:7/64","gateway":"fd00:2::1"}]})"));
  second.result = {};
  second.v4.reset();
  value_of(node->adopt(second, value_of(node->call("ADD", second))));
  CHECK(value_of(node->call("CHECK", first)).ok());
  CHECK(value_of(node->call("CHECK", second)).ok());
  const std::string routes = inside(first, {"ip", "route"});
  CHECK_THAT(routes, ContainsSubstring("default via 169.254.1.1 dev eth0 proto static onlink"));
  CHECK_THAT(routes, ContainsSubstring("default via 169.254.1.1 dev net1 proto static metric 20"));
  CHECK(call(node, "DEL", first, {}).ok());
  CHECK(value_of(node->call("CHECK", second)).ok());
  CHECK(call(node, "DEL", second, {}).ok());
}

TEST_CASE("J4 J5: namespaces that are no container's are refused without a side effect") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(one_address)));
  std::string netns;
  SECTION("absent") { netns = "/run/netns/nobody"; }
  SECTION("a plain file") {
    netns = node->folder() + "/plain";
    value_of(write_file_atomically(netns, ""));
  }
  SECTION("a folder") { netns = "/run/netns"; }
  SECTION("a mount namespace") { netns = "/proc/self/ns/mnt"; }
  SECTION("the plugin's own") { netns = node->node().path(); }
  const PluginAnswer answer = call(node, "ADD", pod, {.netns = netns});
  INFO(answer.text());
  CHECK(answer.code == 4);
  CHECK_THAT(answer.message, ContainsSubstring("CNI_NETNS"));
  CHECK(node.verbs().empty());
}

TEST_CASE("B6 B10 B14 B15 C36 O2 O6 O7: configuration errors name key and value, before the IPAM plugin is asked") {
  StandIn node;
  const Pod pod = value_of(node.make_pod("p", stub_pod(one_address)));
  struct Case {
    std::string patch;
    unsigned code;
    std::string text;
  };
  const std::vector<Case> cases = {
      {R"({"mtu":"9000"})", 7, R"('mtu': "9000")"},
      {R"({"mtu":-1})", 7, "'mtu': -1"},
      {R"({"mtu":65536})", 7, "'mtu': 65536"},
      {R"({"mtu":67})", 7, "'mtu': 67"},
      {R"({"mode":"turbo"})", 7, R"('mode': "turbo")"},
      {R"({"requireUplink":"yes"})", 7, "'requireUplink'"},
      {R"({"onLinkGateway":1})", 7, "'onLinkGateway'"},
      {R"({"uplink":"a/b"})", 7, R"('uplink': "a/b")"},
      {R"({"uplink":5})", 7, "'uplink'"},
      {R"({"ipamTimeout":0})", 7, "'ipamTimeout': 0"},
      {R"({"pinDir":"relative"})", 7, R"('pinDir': "relative")"},
      {R"({"runDir":3})", 7, "'runDir'"},
      {R"({"ipMasq":true})", 2, "'ipMasq': true"},
      {R"({"external":{"ifName":"eth0"}})", 7, R"('external.ifName': "eth0")"},
      {R"({"external":{"ifName":"ext0","clusterCIDRs":["10.244.0.0/16"]}})", 7, "no 'prevResult'"},
      {R"({"uplinkTimeout":601})", 7, "'uplinkTimeout': 601"},
      {R"({"runtimeConfig":{"mac":"01:00:5e:00:00:01"}})", 7, "'runtimeConfig.mac'"},
      {R"({"runtimeConfig":{"mac":"02:70:6f:64:75:70"}})", 7, "'runtimeConfig.mac'"},
      {R"({"runtimeConfig":{"bandwidth":{"IngressRate":1000,"IngressBurst":34359738359}}})", 2, "bandwidth"},
      {R"({"runtimeConfig":{"bandwidth":{"ingressRate":"fast"}}})", 7, "ingressRate"},
      {R"({"ipam":null})", 7, "'ipam'"},
      {R"({"ipam":{"type":null}})", 7, "'ipam.type'"},
      {R"({"ipam":{"type":"../stub-ipam"}})", 7, "'ipam.type'"},
      {R"({"ipam":{"type":"no-such-ipam"}})", 100, "no-such-ipam"},
  };
  for (const Case& one : cases) {
    const PluginAnswer answer = call(node, "ADD", pod, {.config = value_of(merged(pod.config, one.patch))});
    INFO(one.patch << "\n" << answer.text());
    CHECK(answer.faults.empty());
    CHECK(answer.code == one.code);
    CHECK_THAT(answer.message, ContainsSubstring(one.text));
  }
  CHECK(node.verbs().empty());
  // Not a reason to fail: keys of others, and what is wrong in `args`.
  const std::string patch = R"({"bridge":"cni0","args":{"cni":{"mac":7}},"ipMasq":false,"mtu":0,
      "runtimeConfig":{"bandwidth":{"ingressRate":0},"aliases":{"n":["a"]}}})";
  CHECK(call(node, "ADD", pod, {.config = value_of(merged(pod.config, patch))}).ok());
  CHECK(call(node, "DEL", pod, {}).ok());
}

TEST_CASE("J9 C59: the pod's MTU is the least of its uplinks, or less where the key says so") {
  StandIn node({.lab = {.mtu = {{1, 1400}, {2, 1450}}}});
  const std::string both = R"({"interfaces":[{"name":"eth1"},{"name":"eth2"}],
      "ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1","interface":0},
             {"address":"fd00:2::9:7/64","gateway":"fd00:2::1","interface":1}]})";
  const auto mtu = [&](const std::string& patch) {
    const Pod pod = value_of(node.make_pod("p", stub_pod(both, patch)));
    const PluginAnswer answer = call(node, "ADD", pod, {});
    const std::string text = answer.ok() ? inside(pod, {"ip", "link", "show", "eth0"}) : answer.message;
    CHECK(call(node, "DEL", pod, {}).ok());
    value_of(pod.space->remove());
    return text;
  };
  CHECK_THAT(mtu(""), ContainsSubstring("mtu 1400"));
  CHECK_THAT(mtu(R"({"mtu":1300})"), ContainsSubstring("mtu 1300"));
  CHECK_THAT(mtu(R"({"mtu":9001})"), ContainsSubstring("mtu 1400"));
  CHECK_THAT(mtu(R"({"mtu":0})"), ContainsSubstring("mtu 1400"));
  CHECK_THAT(mtu(R"({"mtu":65535})"), ContainsSubstring("mtu 1400"));
  for (const char* value : {"1279", "67", "65536", "-1", "1400.5", "\"1400\""})
    CHECK_THAT(mtu(formatted(R"({{"mtu":{}}})", value)), ContainsSubstring(formatted("'mtu': {}", value)));
  const std::string only_v4 = R"({"ipam":{"result":{"ips":[{"address":"10.1.9.7/16","gateway":"10.1.0.1"}],)"
                              R"("interfaces":[{"name":"eth1"}]}},"mtu":68})";
  CHECK_THAT(mtu(only_v4), ContainsSubstring("mtu 68"));
}

TEST_CASE("D60 C62: an uplink that comes a moment later is waited for") {
  StandIn node;
  // Not managed, as a NIC is that was attached just now.
  const int index = value_of(node.link_index("eth2"));
  const pdl_uplink entry = value_of(node.uplink_entry("eth2"));
  value_of(value_of(node->tables()).uplinks.erase(static_cast<std::uint32_t>(index)));
  const Pod pod = value_of(node.make_pod(
      "p", stub_pod(R"({"interfaces":[{"name":"eth2"}],"ips":[{"address":"10.2.9.7/16","gateway":"10.2.0.1"}]})")));
  PluginAnswer answer;
  SECTION("and found") {
    std::thread adder([&] { answer = call(node, "ADD", pod, {}); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    value_of(node.set_uplink("eth2", entry));
    adder.join();
    INFO(answer.text());
    CHECK(answer.ok());
    CHECK(answer.process.duration > std::chrono::milliseconds(1400));
    CHECK(answer.process.duration < std::chrono::milliseconds(4000));
  }
  SECTION("but not for ever") {
    answer = call(node, "ADD", pod, {});
    CHECK(answer.code == 103);
    CHECK_THAT(answer.message, ContainsSubstring("eth2 is not managed by the agent"));
    CHECK(answer.process.duration < std::chrono::seconds(13));
    CHECK(node.verbs() == "ADD DEL");
  }
  CHECK(call(node, "DEL", pod, {}).ok());
}
