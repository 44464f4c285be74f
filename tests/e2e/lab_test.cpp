// SPDX-License-Identifier: Apache-2.0
// The harness itself: what it builds is there, what it should find it finds, and it leaves nothing behind.
#include "loader/base/file.h"
#include "tests/harness/outside.h"
#include "tests/harness/require.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

bool mentions(const std::vector<std::string>& lines, const std::string& text) {
  return lines_of(lines).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("A lab has a node whose uplinks reach their gateways and the outside address") {
  auto lab = value_of(Lab::create({.uplinks = 3, .mtu = {{2, 1400}}}));
  for (const unsigned number : lab->uplink_numbers()) {
    const Uplink uplink = lab->uplink(number);
    value_of(ping(lab->node(), {.to = {uplink.gateway4()}}));
    value_of(ping(lab->node(), {.to = {uplink.gateway6()}}));
  }
  const std::string link = value_of(lab->node().run_ok({"ip", "link", "show", "eth2"}));
  REQUIRE(link.find("mtu 1400") != std::string::npos);
  REQUIRE(link.find("02:00:00:00:02:02") != std::string::npos);

  const Capture first = value_of(Capture::start(lab->gateway(1), "eth0"));
  const Capture second = value_of(Capture::start(lab->gateway(2), "eth0"));
  const IpAddress outside = *IpAddress::parse(outside4);
  const EchoServer server =
      value_of(EchoServer::start(lab->gateway(1), {{outside, 7}, {*IpAddress::parse(outside6), 7}}));
  REQUIRE(value_of(exchange_udp(lab->node(), {.to = {outside, 7}, .payload = "over UDP"})) == "over UDP");
  REQUIRE(value_of(exchange_tcp(lab->node(), {.to = {*IpAddress::parse(outside6), 7}, .payload = "TCP"})) == "TCP");
  REQUIRE(server.clients().front().address == lab->uplink(1).node4());
  REQUIRE(first.wait_for(both(received_from(lab->uplink(1).node4()), sent_to(outside))));
  REQUIRE(second.count(sent_to(outside)) == 0);
  REQUIRE(first.lost() == 0);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A lab's node can have its default route by a NIC that the agent is not told of") {
  auto lab = value_of(Lab::create({.uplinks = 2, .unlisted_default = true, .addressless = true}));
  REQUIRE(lab->uplink_numbers() == std::vector<unsigned>{0, 1, 2});
  REQUIRE(lab->default_agent_config() == R"({"uplinks": [{"name": "eth1"}, {"name": "eth2"}]})");
  value_of(ping(lab->node(), {.to = {*IpAddress::parse(outside4)}}));
  REQUIRE(value_of(lab->node().run_ok({"ip", "-4", "address", "show", "eth1"})).empty());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("What a test changes on the node is found") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  REQUIRE_CLEAN(*lab);
  value_of(
      lab->node().ip("link set eth2 mtu 1300\nrule add from 10.2.1.1 table 7\nlink add pdl0 type veth peer name pdl1\n"
                     "route add 203.0.113.0/24 via 10.2.0.1\nneighbour add proxy fd00:2::9 dev eth2\n"
                     "link set eth1 txqueuelen 7\naddress add 10.2.0.11/16 dev eth2\n"
                     "neighbour add 10.2.0.99 lladdr 02:00:00:00:00:99 dev eth2 nud permanent"));
  value_of(lab->node().sysctl({"net.ipv4.conf.eth2.rp_filter=1", "net.ipv4.neigh.eth2.gc_stale_time=7"}));
  value_of(lab->node().run_ok({"tc", "qdisc", "add", "dev", "eth2", "clsact"}));
  value_of(write_file_atomically(lab->ipam_dir("host-local") + "-10.2.2.1", "x"));
  const auto found = lab->leftovers();
  CHECK(mentions(found, "changed: link eth2"));
  CHECK(mentions(found, "left behind: rule"));
  CHECK(mentions(found, "left behind: link pdl0"));
  CHECK(mentions(found, "left behind: route"));
  CHECK(mentions(found, "left behind: proxy"));
  CHECK(mentions(found, "changed: link eth1"));
  CHECK(mentions(found, "left behind: address 10.2.0.11/16 on eth2"));
  CHECK(mentions(found, "left behind: neighbour"));
  CHECK(mentions(found, "left behind: group ff02::1:ff00:9 on eth2"));
  CHECK(mentions(found, "left behind: qdisc clsact on eth2"));
  CHECK(mentions(found, "changed: sysctl ipv4/conf/eth2/rp_filter"));
  CHECK(mentions(found, "changed: sysctl ipv4/neigh/eth2/gc_stale_time"));
  // What is accepted is no more.
  value_of(lab->accept_changes({"eth2"}));
  CHECK_FALSE(mentions(lab->leftovers(), "eth2"));
  CHECK(mentions(lab->leftovers(), "changed: link eth1"));
  CHECK(mentions(found, "reservation"));
  REQUIRE_FALSE(lab->close().empty());
}

TEST_CASE("A pod that leaves by a foreign uplink is found") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod pod = value_of(lab->add_pod("pod", {.uplink = 2}));
  value_of(disable_offloads(*pod.space, "eth0"));
  value_of(send_udp(*pod.space, {.to = Outside::echo(Family::v4)}));
  REQUIRE(outside.at(2).wait_for(received_from(pod.v4.value())));
  CHECK(outside.faults_from(pod.v4.value(), lab->uplink(2)).empty());
  CHECK(mentions(outside.faults_from(pod.v4.value(), lab->uplink(1)), "left by eth2, its home is eth1"));
  CHECK(mentions(outside.faults_from(pod.v6.value(), lab->uplink(2)), "no packet"));

  // An entry with the wrong home; nobody is there to repair it.
  value_of(lab->agent().kill_hard());
  const Tables tables = value_of(lab->tables());
  pdl_pod entry = value_of(tables.pods.find(pod.v4.value())).value();
  entry.home = value_of(tables.nodes.find(lab->uplink(1).node4())).value().ifindex;
  value_of(tables.pods.put(pod.v4.value(), entry));
  value_of(send_udp(*pod.space, {.to = Outside::echo(Family::v4)}));
  // The next hop is the one of eth2, which nobody has behind eth1: what is seen there is the question for it.
  REQUIRE(outside.at(1).wait_for([&](const Frame& frame) {
    return frame.packet.is_arp() && frame.packet.destination == lab->uplink(2).gateway4();
  }));
  CHECK(mentions(lab->leftovers(), "left behind: pod entry " + pod.v4->text()));
  CHECK(mentions(lab->leftovers(), "left behind: record"));
  CHECK(mentions(lab->leftovers(), "left behind: link " + pod.host_veth));
  CHECK(mentions(lab->leftovers(), "reservation"));
  value_of(lab->del_pod("pod"));
  REQUIRE_CLEAN(*lab);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("The reader of plugin answers finds what breaks the specification") {
  Invocation asked{.verb = "ADD", .container_id = "c", .netns = "/run/netns/p", .config = R"({"cniVersion":"1.0.0"})"};
  const std::string good = R"({"cniVersion":"1.0.0","interfaces":[{"name":"pdl1","mac":"02:70:6f:64:75:70"},)"
                           R"({"name":"eth0","mac":"02:00:00:00:00:09","sandbox":"/run/netns/p"}],)"
                           R"("ips":[{"address":"10.2.1.1/16","gateway":"10.2.0.1","interface":1}]})";
  const auto faults = [&](std::string text, int status) {
    Outcome outcome;
    outcome.status = status;
    outcome.out = std::move(text);
    return read_answer(asked, std::move(outcome)).faults;
  };
  REQUIRE(faults(good, 0).empty());
  const auto changed = [&](const std::string& patch) { return faults(value_of(merged(good, patch)), 0); };
  CHECK(mentions(changed(R"({"cniVersion":"1.1.0"})"), "cniVersion"));
  CHECK(mentions(changed(R"({"ips":[{"address":"10.2.1.1/16","interface":0}]})"), "interface 0"));
  CHECK(mentions(changed(R"({"ips":[{"address":"10.2.1.1/16","interface":1,"version":"4"}]})"), "version"));
  CHECK(mentions(changed(R"({"ips":null})"), "no addresses"));
  CHECK(
      mentions(changed(R"({"interfaces":[{"name":"eth0","mac":"02:00:00:00:00:09","sandbox":"/other"}]})"), "sandbox"));
  CHECK(mentions(changed(R"({"code":7,"msg":"x"})"), "exit code 0"));
  CHECK(mentions(faults(good + good, 0), "not one JSON"));
  CHECK(mentions(faults("", 1), "not one JSON"));
  CHECK(mentions(faults(R"({"cniVersion":"1.0.0","code":"7","msg":"x"})", 1), "code"));
  CHECK(faults(R"({"cniVersion":"1.0.0","code":7,"msg":"x"})", 1).empty());
  asked.verb = "DEL";
  CHECK(mentions(faults(good, 0), "output of a successful DEL"));
  CHECK(faults("", 0).empty());
}
