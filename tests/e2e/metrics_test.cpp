// SPDX-License-Identifier: Apache-2.0
// What the agent's metrics say is what packets, interfaces and repairs really did.
#include <csignal>
#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "tests/e2e/agent_probe.h"
#include "tests/e2e/scraper.h"
#include "tests/e2e/steps.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

// How much each series has grown; those that have not are left out.
Samples growth(const Samples& before, const Samples& now) {
  Samples grown;
  for (const auto& [series, value] : now) {
    const auto old = before.find(series);
    const double by = value - (old == before.end() ? 0 : old->second);
    if (by != 0) grown[series] = by;
  }
  return grown;
}

std::string verdict(const std::string& name, const std::string& outcome, const std::string& program = "pod_egress") {
  return formatted(R"(poduplink_verdicts_total{{program="{}",verdict="{}",outcome="{}"}})", program, name, outcome);
}

std::string of_uplink(const std::string& metric, const std::string& uplink, const std::string& more = {}) {
  return formatted("poduplink_{}{{uplink=\"{}\"{}}}", metric, uplink, more);
}

// Waits until a series has a value. False where it never had.
bool becomes(const Lab& lab, const std::string& series, double value) {
  return in_time([&] {
    const Samples samples = scrape(lab);
    const auto found = samples.find(series);
    return found != samples.end() && found->second == value;
  });
}

bool speaks_of(const Samples& samples, const std::string& label) {
  return std::ranges::any_of(samples, [&](const auto& one) { return one.first.find(label) != std::string::npos; });
}

}  // namespace

TEST_CASE("Counters move by exactly what pods and gateways send") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod pod = add_pod(*lab, "a", {.uplink = 2, .v6 = false});
  talk(*pod.space, Outside::echo(Family::v4));  // neighbours are known now
  value_of(pod.space->ip("address add 203.0.113.1/32 dev eth0"));
  const VerdictsSince verdicts(*lab);
  const Samples before = scrape(*lab);
  for (int i = 0; i < 20; ++i) value_of(exchange_udp(*pod.space, {.to = Outside::echo(Family::v4)}));
  for (int i = 0; i < 3; ++i)
    value_of(
        send_udp(*pod.space, {.to = Outside::echo(Family::v4), .from = value_of(IpAddress::parse("203.0.113.1"))}));
  const Samples grown = growth(before, scrape(*lab));
  INFO(verdicts.text());
  constexpr double frame = 14 + 20 + 8 + 9;
  const Samples expected{
      {verdict("redirected", "sent"), 20},
      {verdict("in_redirected", "sent", "uplink_ingress"), 20},
      {verdict("spoofed", "dropped"), 3},
      {of_uplink("uplink_transmit_packets_total", "eth2"), 20},
      {of_uplink("uplink_transmit_bytes_total", "eth2"), 20 * frame},
      {of_uplink("uplink_receive_packets_total", "eth2"), 20},
      {of_uplink("uplink_receive_bytes_total", "eth2"), 20 * frame},
      {of_uplink("uplink_redirects_total", "eth2", ",path=\"out\""), 20},
      {of_uplink("uplink_redirects_total", "eth2", ",path=\"in\""), 20},
  };
  for (const auto& [series, by] : expected) {
    INFO(series);
    CHECK((grown.contains(series) ? grown.at(series) : 0) == by);
  }
  for (const auto& [series, by] : grown) {
    INFO(series << " " << by);
    CHECK_FALSE(series.contains("uplink=\"eth1\""));
  }
  // They are the maps', so they survive the agent.
  value_of(lab->agent().kill_hard());
  value_of(lab->start_agent());
  CHECK(scrape(*lab).at(verdict("spoofed", "dropped")) >= before.at(verdict("spoofed", "dropped")) + 3);
  value_of(lab->del_pod("a"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Uplinks, attachments, maps and build are shown as they are, and what is gone or renamed leaves nothing") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  value_of(lab->start_agent(value_of(merged(lab->default_agent_config(), R"({"exempt": ["10.96.0.0/12"]})"))));
  value_of(lab->add_pod("both", {.uplink = 2}));
  value_of(lab->add_pod("v4", {.uplink = 2, .v6 = false}));
  Samples samples = scrape(*lab);
  CHECK(samples.at(of_uplink("uplink_up", "eth1", ",role=\"home\"")) == 1);
  CHECK(samples.at(of_uplink("attachments", "eth1")) == 0);
  CHECK(samples.at(of_uplink("attachments", "eth2")) == 2);
  CHECK(samples.at("poduplink_map_entries{map=\"pods4\"}") == 2);
  CHECK(samples.at("poduplink_map_entries{map=\"pods6\"}") == 1);
  CHECK(samples.at("poduplink_map_entries{map=\"uplinks\"}") == 2);
  CHECK(samples.at("poduplink_map_entries{map=\"exempt4\"}") == 1);
  CHECK(samples.at("poduplink_map_max_entries{map=\"pods4\"}") == PDL_MAX_PODS);
  CHECK(samples.at("poduplink_map_max_entries{map=\"exempt6\"}") == PDL_MAX_EXEMPT);
  CHECK(samples.at(formatted("poduplink_build_info{{version=\"{}\",abi=\"1\"}}",
                             agent_state(*lab).at("version").get<std::string>())) == 1);
  CHECK(samples.at("poduplink_agent_ready") == 1);
  CHECK(samples.at("poduplink_reconciliations_total{result=\"done\"}") >= 1);
  CHECK(samples.at("poduplink_last_reconciliation_timestamp_seconds") > samples.at("process_start_time_seconds"));

  value_of(lab->gateway(2).ip("link set eth0 down"));
  CHECK(becomes(*lab, of_uplink("uplink_up", "eth2", ",role=\"home\""), 0));
  value_of(lab->gateway(2).ip("link set eth0 up"));
  CHECK(becomes(*lab, of_uplink("uplink_up", "eth2", ",role=\"home\""), 1));

  // A home that is renamed, and a transit interface that comes and goes.
  value_of(lab->node().ip("link set eth2 down\nlink set eth2 name wan.2\nlink set wan.2 up"));
  CHECK(becomes(*lab, of_uplink("attachments", "wan.2"), 2));
  CHECK_FALSE(speaks_of(scrape(*lab), "\"eth2\""));
  value_of(
      lab->node().ip("link add pass type veth peer name far\nlink set far up\nlink set pass up\n"
                     "route add 192.0.2.0/24 dev pass"));
  CHECK(becomes(*lab, of_uplink("uplink_up", "pass", ",role=\"transit\""), 1));
  CHECK(becomes(*lab, of_uplink("uplink_transmit_packets_total", "pass"), 0));
  value_of(lab->node().ip("link delete pass"));
  CHECK(in_time([&] { return !speaks_of(scrape(*lab), "\"pass\""); }));

  // A home that is gone is still an uplink that is missing; it has no traffic to show.
  value_of(lab->node().ip("link set wan.2 down\nlink set wan.2 name eth2\nlink set eth2 up"));
  CHECK(becomes(*lab, of_uplink("uplink_up", "eth2", ",role=\"home\""), 1));
  value_of(lab->del_pod("both"));
  value_of(lab->del_pod("v4"));
  CHECK(becomes(*lab, of_uplink("attachments", "eth2"), 0));
  value_of(lab->node().ip("link delete eth2"));
  CHECK(becomes(*lab, of_uplink("uplink_up", "eth2", ",role=\"home\""), 0));
  samples = scrape(*lab);
  CHECK_FALSE(samples.contains(of_uplink("uplink_transmit_packets_total", "eth2")));
  CHECK(samples.contains(of_uplink("uplink_transmit_packets_total", "eth1")));
  CHECK(samples.at("poduplink_agent_ready") == 1);
  value_of(lab->accept_changes({"eth2"}));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Each repair is counted once by its kind, and nothing is a repair that is none") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  value_of(lab->start_agent(value_of(merged(lab->default_agent_config(), R"({"exempt": ["10.96.0.0/12"]})"))));
  const Pod pod = value_of(lab->add_pod("a", {.uplink = 2, .v6 = false, .mode = "fast"}));
  const auto repaired = [](const std::string& kind) {
    return formatted("poduplink_repairs_total{{kind=\"{}\"}}", kind);
  };
  const std::vector<std::string> counted{"pod_entry_made", "pod_entry_erased", "map_entry",      "pin",
                                         "uplink_program", "pod_program",      "proxy_neighbour"};
  Samples samples = scrape(*lab);
  for (const std::string& kind : counted) {
    INFO(kind);
    CHECK(samples.at(repaired(kind)) == 0);
  }
  const Tables tables = value_of(lab->tables());
  const auto repairs = [&](const std::string& kind, double count) {
    INFO(kind);
    CHECK(becomes(*lab, repaired(kind), count));
    samples[repaired(kind)] = count;
  };
  value_of(tables.pods.erase(*pod.v4));
  repairs("pod_entry_made", 1);
  value_of(tables.exempt.erase(value_of(Prefix::parse("10.96.0.0/12"))));
  repairs("map_entry", 1);
  pdl_pod foreign{};
  foreign.owner = 7;
  value_of(tables.pods.put(value_of(IpAddress::parse("10.2.99.99")), foreign));
  repairs("pod_entry_erased", 1);
  value_of(remove_file(tables.folder + "/verdicts"));
  repairs("pin", 1);
  value_of(remove_file(link_pin(tables.folder, formatted("if{}-ingress", index_of(*lab, "eth2")))));
  if (bpf::have_tcx()) repairs("uplink_program", 1);
  value_of(lab->node().run_ok({"tc", "filter", "del", "dev", pod.host_veth, "ingress"}));
  repairs("pod_program", 1);
  const Samples last = scrape(*lab);
  for (const std::string& kind : counted) {
    INFO(kind);
    CHECK(last.at(repaired(kind)) == samples.at(repaired(kind)));
  }
  value_of(lab->del_pod("a"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("readyz, agent.json and poduplink_agent_ready say the same, with the reasons; reloads are counted") {
  auto lab = lab_with_agent({.uplinks = 1});
  const std::string path = lab->folder() + "/agent.json";
  const std::string good = value_of(read_file(path));
  CHECK(value_of(http_get(lab->node(), "/healthz")).status == 200);
  CHECK(value_of(http_get(lab->node(), "/healthz")).body == "ok\n");
  CHECK(value_of(http_get(lab->node(), "/readyz")).status == 200);
  const std::string done = "poduplink_config_reloads_total{result=\"done\"}";
  const std::string failed = "poduplink_config_reloads_total{result=\"failed\"}";
  CHECK(scrape(*lab).at(done) == 0);

  value_of(write_file_atomically(path, R"({"uplinks": [{"name": "eth9"}]})"));
  value_of(lab->agent().kill(SIGHUP));
  REQUIRE(in_time([&] { return value_of(http_get(lab->node(), "/readyz")).status == 503; }));
  CHECK(becomes(*lab, "poduplink_agent_ready", 0));
  std::string reasons;
  const nlohmann::json state = agent_state(*lab);
  for (const auto& reason : state.at("reasons")) reasons += reason.get<std::string>() + "\n";
  CHECK_THAT(reasons, ContainsSubstring("eth9"));
  CHECK(value_of(http_get(lab->node(), "/readyz")).body == reasons);
  CHECK(value_of(http_get(lab->node(), "/healthz")).status == 200);  // a restart would help nobody
  CHECK(scrape(*lab).at(of_uplink("uplink_up", "eth9", ",role=\"home\"")) == 0);
  CHECK(scrape(*lab).at(done) == 1);

  value_of(write_file_atomically(path, R"({"uplinks": )"));
  value_of(lab->agent().kill(SIGHUP));
  CHECK(becomes(*lab, failed, 1));
  CHECK(becomes(*lab, "poduplink_config_in_force", 0));
  CHECK(scrape(*lab).at("poduplink_agent_warnings") >= 1);
  value_of(write_file_atomically(path, good));
  value_of(lab->agent().kill(SIGHUP));
  CHECK(becomes(*lab, "poduplink_agent_ready", 1));
  CHECK(becomes(*lab, "poduplink_config_in_force", 1));
  CHECK(scrape(*lab).at(done) == 2);
  CHECK(value_of(http_get(lab->node(), "/readyz")).body == "ready\n");
  REQUIRE_CLOSED(*lab);
}
