// SPDX-License-Identifier: Apache-2.0
// What an operator sees: every fault of the node in the words of poduplinkctl, and the numbers as they are in the maps.
#include "tests/e2e/ctl.h"
#include <unistd.h>
#include "tests/e2e/agent_probe.h"

#include <csignal>

#include "loader/base/file.h"
#include "tests/e2e/steps.h"
#include "tests/harness/traffic.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

json row_with(const json& rows, const char* key, const std::string& value) {
  for (const json& row : rows) {
    if (row.at(key) == value) return row;
  }
  FAIL("no row with " << key << " " << value << " in " << rows.dump());
  return {};
}

bool any_contains(const json& texts, const std::string& part) {
  return std::ranges::any_of(texts,
                             [&](const json& text) { return text.get<std::string>().find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("status: no problems on a node where there are none") {
  auto lab = lab_with_agent({.uplinks = 2});
  value_of(lab->add_pod("a", {.uplink = 1}));
  const Outcome outcome = ctl(*lab, {"status"});
  INFO(outcome.text());
  CHECK(outcome.ok());
  CHECK_THAT(outcome.out, ContainsSubstring("no problems") && ContainsSubstring("ready") && ContainsSubstring("eth1") &&
                              ContainsSubstring("pods4"));
  CHECK_THAT(outcome.out, !ContainsSubstring("\x1b["));
  const json status = ctl_json(*lab, {"status"});
  CHECK(status.at("problems").empty());
  CHECK(status.at("agent").at("running") == true);
  CHECK(status.at("agent").at("pid") == lab->agent().pid());
  CHECK(status.at("attachments") == 1);
  CHECK(row_with(status.at("maps"), "map", "pods6").at("entries") == 1);
  CHECK_THAT(ctl(*lab, {"--color", "always", "status"}).out, ContainsSubstring("\x1b[32m"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("status: each fault of a node is a problem, by name, and exit code 1") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  const auto problem = [&](const std::string& part) {
    const Outcome outcome = ctl(*lab, {"status"});
    const json problems = ctl_json(*lab, {"status"}).at("problems");
    INFO(problems.dump());
    return outcome.status == 1 && outcome.out.starts_with("problem: ") && any_contains(problems, part);
  };
  CHECK(problem("no agent has run on this node"));
  CHECK(problem("current"));  // no datapath either
  value_of(lab->start_agent());
  CHECK(ctl(*lab, {"status"}).ok());

  value_of(lab->node().ip("link set eth2 down"));
  CHECK(eventually([&] { return problem("uplink eth2 is down"); }));
  value_of(lab->node().ip("link set eth2 up\naddress add fd00:2::10/64 dev eth2 nodad"));
  CHECK(eventually([&] { return ctl(*lab, {"status"}).ok(); }));

  value_of(lab->agent().kill_hard());
  CHECK(problem("the agent does not run"));
  // Nobody repairs now: a hook of ours that somebody takes away.
  if (bpf::have_tcx()) {
    const std::string link = formatted("if{}-ingress", link_index(lab->node(), "eth1"));
    value_of(remove_file(lab->pin_dir() + "/v1/links/" + link));
  } else {
    value_of(lab->node().run_ok({"tc", "filter", "del", "dev", "eth1", "ingress"}));
  }
  CHECK(eventually([&] { return problem("uplink_ingress is not attached to eth1"); }));
  value_of(lab->accept_changes({"eth2"}));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("doctor: nothing on a node that is well; else each finding with what it means and what to do") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pod pod = value_of(lab->add_pod("pod", {.uplink = 2}));
  const Pod lost = value_of(lab->add_pod("lost", {.uplink = 1}));
  const Outcome well = ctl(*lab, {"doctor"});
  INFO(well.text());
  CHECK(well.ok());
  CHECK(well.out == "nothing was found\n");

  const auto found = [&](const std::string& severity, const std::string& part) {
    const json findings = ctl_json(*lab, {"doctor"});
    INFO(findings.dump(1));
    const auto hits = std::ranges::count_if(findings, [&](const json& one) {
      return one.at("severity") == severity && one.at("finding").get<std::string>().find(part) != std::string::npos &&
             !one.at("means").get<std::string>().empty() && !one.at("todo").get<std::string>().empty();
    });
    CHECK(hits == 1);
    return hits == 1;
  };
  value_of(lab->node().run_ok({"sysctl", "-q", "-w", "net.ipv4.ip_forward=0"}));
  found("warning", "net/ipv4/ip_forward is 0");
  value_of(lab->node().run_ok({"sysctl", "-q", "-w", "net.ipv4.ip_forward=1"}));

  // The rest is what the agent would mend or follow.
  value_of(lab->agent().kill_hard());
  found("problem", "the agent does not run");
  value_of(lab->node().run_ok({"sysctl", "-q", "-w", "net.ipv4.conf.eth1.rp_filter=1"}));
  found("problem", "rp_filter of eth1 is strict");
  value_of(lab->node().run_ok({"sysctl", "-q", "-w", "net.ipv4.conf.eth1.rp_filter=0"}));
  value_of(lab->node().ip("link set " + pod.host_veth + " mtu 2000"));
  found("warning", "pods with MTU 2000 are homed on eth2, whose MTU is 1500");
  {
    Netlink netlink = value_of(Netlink::open_in(lab->node().fd()));
    value_of(ensure_clsact(netlink, link_index(lab->node(), "eth1")));
    const Fd foreign = load_foreign_program("guard");
    value_of(set_bpf_filter(netlink, {.link = link_index(lab->node(), "eth1"),
                                      .priority = 7,
                                      .handle = 1,
                                      .program_fd = foreign.get(),
                                      .name = "guard"}));
  }
  found("warning", "guard is attached to eth1 (ingress)");
  value_of(lab->node().run_ok({"tc", "filter", "del", "dev", "eth1", "ingress", "prio", "7"}));
  if (bpf::have_tcx()) value_of(lab->node().run_ok({"tc", "qdisc", "del", "dev", "eth1", "clsact"}));
  value_of(lab->node().run_ok({"tc", "filter", "del", "dev", pod.host_veth, "ingress"}));
  found("problem", pod.host_veth);
  value_of(lab->node().ip("link delete " + lost.host_veth));
  found("warning", "the entry of " + lost.v4->text() + " has no veth");
  found("warning", "container " + lost.container_id);
  value_of(make_directories(lab->pin_dir() + "/v99"));
  found("warning", "/v99 is left of another version");
  CHECK(::rmdir((lab->pin_dir() + "/v99").c_str()) == 0);
  CHECK(ctl(*lab, {"doctor"}).status == 1);

  value_of(lab->start_agent());
  for (const char* name : {"pod", "lost"}) value_of(lab->del_pod(name));
  CHECK(ctl(*lab, {"doctor"}).out == "nothing was found\n");
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("pods: every address with its pod, uplink, gateway, veth and owner, as the maps have them") {
  auto lab = lab_with_agent({.uplinks = 2});
  PodOptions options{.uplink = 2, .mode = "netfilter"};
  options.args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0";
  const Pod web = value_of(lab->add_pod("web", options));
  const Pod plain = value_of(lab->add_pod("plain", {.uplink = 1}));

  const json rows = ctl_json(*lab, {"pods"});
  REQUIRE(rows.size() == 4);
  for (const Family family : families) {
    const IpAddress address = address_of(web, family);
    const json row = row_with(rows, "address", address.text());
    const auto entry = value_of(value_of(lab->tables()).pods.find(address));
    REQUIRE(entry);
    CHECK(row.at("pod") == "shop/web-0");
    CHECK(row.at("uplink") == "eth2");
    CHECK(row.at("uplinkState") == "up");
    CHECK(row.at("gateway") == pod_gateway(*entry)->text());
    CHECK(row.at("mode") == "netfilter");
    CHECK(row.at("veth") == web.host_veth);
    CHECK(row.at("vethIndex") == entry->veth);
    CHECK(row.at("container") == web.container_id);
    CHECK(row.at("podMac") == web.mac.text());
    CHECK(row.at("mtu") == 1500);
    CHECK(row_with(rows, "address", address_of(plain, family).text()).at("pod").is_null());
  }
  CHECK(ctl_json(*lab, {"pods", "web-0"}).size() == 2);
  CHECK(ctl_json(*lab, {"pods", "eth1"}).size() == 2);
  CHECK(ctl_json(*lab, {"pods", plain.v4->text()}).size() == 1);
  const Outcome none = ctl(*lab, {"pods", "nobody"});
  CHECK(none.status == 1);
  CHECK_THAT(none.out, ContainsSubstring("no pod matches 'nobody'"));
  CHECK_THAT(ctl(*lab, {"pods"}).out, ContainsSubstring("shop/web-0"));

  // The uplink is taken away: its pods keep its name.
  value_of(lab->node().ip("link set eth2 down\nlink set eth2 name gone0\nlink set gone0 up"));
  CHECK(eventually(
      [&] { return row_with(ctl_json(*lab, {"pods"}), "address", web.v4->text()).at("uplink") == "gone0"; }));
  value_of(lab->node().ip("link set gone0 down\nlink set gone0 name eth2\nlink set eth2 up"));
  for (const char* name : {"web", "plain"}) value_of(lab->del_pod(name));
  value_of(lab->accept_changes({"eth2"}));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("uplinks: how each was chosen or why refused, its pods and its traffic, as totals and as rates") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  value_of(lab->start_agent(R"({"uplinks": [{"name": "eth1"}, {"name": "eth2"}]})"));
  const Pod pod = value_of(lab->add_pod("pod", {.uplink = 2}));
  const EchoServer server = value_of(EchoServer::start(lab->gateway(2), {Outside::echo(Family::v4)}));
  for (int i = 0; i < 5; ++i) value_of(exchange_udp(*pod.space, {.to = Outside::echo(Family::v4)}));
  const json rows = ctl_json(*lab, {"uplinks"});
  const json home = row_with(rows, "name", "eth2");
  CHECK(home.at("role") == "home");
  CHECK(home.at("how") == "configured");
  CHECK(home.at("pods") == 2);
  const pdl_uplink_stats stats = uplink_stats(*lab, 2);
  CHECK(home.at("outPackets") <= stats.out_packets);
  CHECK(home.at("outPackets") >= 5);
  CHECK(home.at("outRedirects") == 5);
  CHECK(home.at("inRedirects") == 5);
  CHECK(row_with(rows, "name", "eth1").at("outRedirects") == 0);

  // One document a line, each with the rates since the one before.
  const auto limited =
      value_of(run({.argv = {"timeout", "2.5", program_folder() + "/poduplinkctl", "--pin-dir", lab->pin_dir(),
                             "--run-dir", lab->run_dir(), "uplinks", "--watch", "0.5", "-o", "json"},
                    .netns_fd = lab->node().fd()}));
  INFO(limited.text());
  const json first = json::parse(limited.out.substr(0, limited.out.find('\n')), nullptr, false);
  REQUIRE_FALSE(first.is_discarded());
  CHECK(row_with(first, "name", "eth2").at("outPacketsPerSecond") == 0);
  CHECK(std::ranges::count(limited.out, '\n') >= 2);

  value_of(lab->node().ip("link set eth2 down"));
  CHECK(eventually([&] { return row_with(ctl_json(*lab, {"uplinks"}), "name", "eth2").at("state") == "down"; }));
  value_of(lab->del_pod("pod"));
  value_of(lab->accept_changes({"eth2"}));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("exempt, stats and events: what is in the maps, and each event once") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  value_of(lab->start_agent(services_config(*lab)));
  const json exempt = ctl_json(*lab, {"exempt"});
  REQUIRE_FALSE(exempt.empty());
  CHECK(exempt.at(0).at("item") == 0);
  const Pod pod = value_of(lab->add_pod("pod", {.uplink = 2}));
  const std::uint64_t before = ctl_json(*lab, {"stats", "--all"}).size();
  CHECK(before == PDL_VERDICT_COUNT);
  CHECK(ctl(*lab, {"events"}).out.empty());

  value_of(pod.space->ip("address add 10.9.9.9/32 dev eth0"));
  value_of(send_udp(
      *pod.space, {.to = Outside::echo(Family::v4), .from = IpAddress::parse("10.9.9.9").value(), .from_port = 5000}));
  CHECK(eventually([&] {
    const json stats = ctl_json(*lab, {"stats"});
    return std::ranges::any_of(
        stats, [](const json& row) { return row.at("verdict") == "spoofed" && row.at("packets") == 1; });
  }));
  const json event = ctl_json(*lab, {"events"});
  CHECK(event.at("verdict") == "spoofed");
  CHECK(event.at("interface") == pod.host_veth);
  CHECK(event.at("source") == "10.9.9.9");
  CHECK(event.at("sourcePort") == 5000);
  CHECK(event.at("destination") == outside4);
  CHECK(event.at("destinationPort") == echo_port);
  CHECK(event.at("protocol") == 17);
  CHECK(ctl(*lab, {"events"}).out.empty());

  Background follower =
      value_of(Background::start({.argv = {program_folder() + "/poduplinkctl", "--pin-dir", lab->pin_dir(), "--run-dir",
                                           lab->run_dir(), "events", "-f"},
                                  .netns_fd = lab->node().fd()},
                                 lab->folder() + "/events.log"));
  value_of(send_udp(
      *pod.space, {.to = Outside::echo(Family::v4), .from = IpAddress::parse("10.9.9.9").value(), .from_port = 5001}));
  CHECK(eventually([&] {
    return value_of(read_file(lab->folder() + "/events.log")).find("10.9.9.9:5001 > " + std::string(outside4)) !=
           std::string::npos;
  }));
  value_of(follower.signal(SIGTERM));
  CHECK(follower.wait(std::chrono::seconds(5)) == 128 + SIGTERM);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("wrong usage is exit code 2, what cannot be read is exit code 1 with its path") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  CHECK(ctl(*lab, {}).status == 2);
  CHECK(ctl(*lab, {"pods", "-o", "yaml"}).status == 2);
  CHECK(ctl(*lab, {"explain", "10.1.1.1"}).status == 2);
  CHECK(ctl(*lab, {"nonsense"}).status == 2);
  CHECK(ctl(*lab, {"--help"}).ok());
  CHECK(ctl(*lab, {"explain", "--help"}).ok());
  for (const char* command : {"pods", "uplinks", "exempt", "stats", "events", "flows"}) {
    INFO(command);
    const Outcome outcome = ctl(*lab, {command});
    CHECK(outcome.status == 1);
    CHECK(outcome.out.empty());
    CHECK_FALSE(outcome.err.empty());
  }
  CHECK_THAT(ctl(*lab, {"pods"}).err, ContainsSubstring(lab->pin_dir()));
  REQUIRE_CLOSED(*lab);
}
