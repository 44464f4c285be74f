// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/demo.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/harness/isolate.h"
#include "tests/harness/lab.h"
#include "tests/harness/outside.h"
#include "tests/harness/traffic.h"

namespace poduplink::harness {
namespace {

using Json = nlohmann::ordered_json;

constexpr unsigned datagrams = 3;  // a family
constexpr unsigned pings = 2;
constexpr unsigned expected = datagrams + pings;
constexpr auto patience = std::chrono::milliseconds(1500);

void progress(const std::string& line) { std::cerr << "demo: " << line << "\n"; }

void print(const std::string& line) { std::cout << line << "\n"; }

const char* ipam_title(Ipam kind) {
  if (kind == Ipam::poduplink) return "poduplink-ipam";
  return kind == Ipam::host_local ? "host-local" : "MAC-only stub";
}

// One address of one pod: what it sent and what was seen of it.
struct Row {
  std::string pod;
  std::string ipam;
  IpAddress address;
  unsigned uplink = 0;
  unsigned answered = 0;
  std::map<unsigned, std::size_t> seen;  // packets by gateway
  std::vector<std::string> faults;

  [[nodiscard]] bool ok() const { return faults.empty(); }
};

struct Report {
  std::vector<Row> rows;
  std::string rules4;
  std::string rules6;
  bool rules_ok = false;
  Json pods4 = Json::array();  // entries of the map dump
  std::size_t entries_after = 0;
  std::vector<std::string> leftovers;
  std::vector<std::string> unload_problems;

  [[nodiscard]] bool passed() const {
    bool good = rules_ok && entries_after == 0 && leftovers.empty() && unload_problems.empty() && !rows.empty();
    for (const Row& row : rows) good = good && row.ok();
    return good;
  }
};

class Demo {
 public:
  // Errors: a step could not be taken at all.
  Result<Report> run() {
    progress("building a node, three uplinks and their gateways");
    PDL_TRY_ASSIGN(lab_, Lab::create({.name = "demo"}));
    PDL_TRY_ASSIGN(outside_, Outside::watch(*lab_));
    progress("starting the agent");
    PDL_TRY(lab_->start_agent());
    PDL_TRY(add_pods());
    PDL_TRY(send_everything());
    progress("counting at the gateways");
    count();
    PDL_TRY(look_at_node());
    progress("deleting the pods");
    while (!lab_->pods().empty()) {
      const std::string name = lab_->pods().begin()->first;
      PDL_TRY(lab_->del_pod(name));
    }
    PDL_TRY(look_again());
    progress("unloading the datapath, taking everything down");
    outside_ = {};
    report_.unload_problems = lab_->close();
    return std::move(report_);
  }

 private:
  Result<> add_pods() {
    for (const auto& [kind, letter] : {std::pair{Ipam::poduplink, 'a'}, {Ipam::host_local, 'b'}, {Ipam::stub, 'c'}}) {
      progress(formatted("adding three pods with {}", ipam_title(kind)));
      for (const unsigned number : lab_->uplink_numbers()) {
        const PodOptions options{.ipam = kind, .uplink = number};
        PDL_TRY_ASSIGN(const Pod pod, lab_->add_pod(formatted("pod-{}{}", letter, number), options));
        // So that the checksums that the gateways see are real ones.
        PDL_TRY(disable_offloads(*pod.space, "eth0"));
        if (!pod.v4 || !pod.v6) return fail("pod {} is not dual-stack", pod.name);
        for (const IpAddress& address : {*pod.v4, *pod.v6})
          report_.rows.push_back({pod.name, ipam_title(kind), address, number, 0, {}, {}});
      }
    }
    return {};
  }

  Result<> send_everything() {
    progress(formatted("each pod sends {} UDP datagrams and {} pings to {} and to {}", datagrams, pings, outside4,
                       outside6));
    for (Row& row : report_.rows) {
      const Namespace& space = *lab_->pod(row.pod).space;
      const Datagram datagram{.to = Outside::echo(row.address.family()), .from = row.address};
      for (unsigned i = 0; i < datagrams; ++i) row.answered += exchange_udp(space, datagram, patience) ? 1U : 0U;
      for (unsigned i = 0; i < pings; ++i) row.answered += ping(space, datagram, patience) ? 1U : 0U;
    }
    return {};
  }

  void count() {
    // Answers have come, so the packets have; this is for those that went where nobody answered.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    for (Row& row : report_.rows) {
      row.seen = outside_.count_from(row.address);
      row.faults = outside_.faults_from(row.address, lab_->uplink(row.uplink));
      if (row.seen[row.uplink] != expected)
        row.faults.push_back(formatted("{} of {} packets came to gw{}", row.seen[row.uplink], expected, row.uplink));
      if (row.answered != expected) row.faults.push_back(formatted("{} of {} were answered", row.answered, expected));
    }
  }

  Result<> look_at_node() {
    PDL_TRY_ASSIGN(report_.rules4, lab_->node().run_ok({"ip", "-4", "rule"}));
    PDL_TRY_ASSIGN(report_.rules6, lab_->node().run_ok({"ip", "-6", "rule"}));
    report_.rules_ok =
        report_.rules4 ==
            "0:\tfrom all lookup local\n32766:\tfrom all lookup main\n32767:\tfrom all lookup default\n" &&
        report_.rules6 == "0:\tfrom all lookup local\n32766:\tfrom all lookup main\n";
    PDL_TRY_ASSIGN(report_.pods4, dump("pods4"));
    return {};
  }

  Result<> look_again() {
    for (const char* map : {"pods4", "pods6"}) {
      PDL_TRY_ASSIGN(const Json entries, dump(map));
      report_.entries_after += entries.size();
    }
    report_.leftovers = lab_->leftovers();
    return {};
  }

  // Entries as bpftool reads them by the map's BTF.
  Result<Json> dump(const std::string& map) const {
    const std::string pin = lab_->pin_dir() + "/current/" + map;
    PDL_TRY_ASSIGN(const std::string text, lab_->node().run_ok({"bpftool", "-j", "map", "dump", "pinned", pin}));
    const Json list = Json::parse(text, nullptr, false);
    if (!list.is_array()) return fail("bpftool map dump of {}: {}", pin, text);
    std::vector<Json> entries;
    for (const Json& entry : list) entries.push_back(entry.contains("formatted") ? entry["formatted"] : entry);
    // A hash map has an order of its own.
    std::ranges::sort(entries, [](const Json& a, const Json& b) { return a["key"] < b["key"]; });
    return Json(entries);
  }

  std::unique_ptr<Lab> lab_;
  Outside outside_;
  Report report_;
};

void print_table(const Report& report) {
  std::string gateways;
  for (const auto& [number, packets] : report.rows.front().seen)
    gateways += formatted("{:>5}", formatted("gw{}", number));
  print(formatted("{:<8} {:<15} {:<12} {:<6} {}  VERDICT", "POD", "IPAM", "ADDRESS", "UPLINK", gateways));
  std::string last;
  for (const Row& row : report.rows) {
    std::string packets;
    for (const auto& [number, seen] : row.seen) packets += formatted("{:>5}", seen);
    const bool same = row.pod == last;
    last = row.pod;
    std::string verdict = row.ok() ? "ok" : "WRONG:";
    for (const std::string& fault : row.faults) verdict += " " + fault + ";";
    print(formatted("{:<8} {:<15} {:<12} {:<6} {}  {}", same ? "" : row.pod, same ? "" : row.ipam, row.address.text(),
                    formatted("eth{}", row.uplink), packets, verdict));
  }
  print(formatted(
      "\nPackets by each gateway; each address sent {}. ok: all of them by its own uplink's gateway and none by\n"
      "another, TTL or hop limit {}, from the uplink's MAC to the gateway's, checksums right, all answered.",
      expected, forwarded_ttl));
}

void print_report(const Report& report) {
  print("");
  print_table(report);
  print(formatted("\n$ ip -4 rule; ip -6 rule{}\n{}{}", report.rules_ok ? "" : "   WRONG: more than the defaults",
                  report.rules4, report.rules6));
  print("$ bpftool map dump pinned PIN_DIR/v1/pods4   (one entry a line)");
  for (const Json& entry : report.pods4) print(entry["key"].dump() + " -> " + entry["value"].dump());
  print(formatted("\nAfter deleting the pods: {} entries in pods4 and pods6{}", report.entries_after,
                  report.entries_after == 0 ? ", the maps are empty" : "   WRONG"));
  for (const std::string& line : report.leftovers) print("WRONG: " + line);
  for (const std::string& line : report.unload_problems) print("WRONG: " + line);
  if (report.unload_problems.empty())
    print("After unloading: no pin, no program, no namespace left, the node as it was");
  print(report.passed() ? "\nEvery pod left by its own uplink, without one ip rule." : "\nFAILED");
}

Json to_json(const Report& report) {
  Json pods = Json::array();
  for (const Row& row : report.rows) {
    Json seen = Json::object();
    for (const auto& [number, packets] : row.seen) seen[formatted("gw{}", number)] = packets;
    pods.push_back({{"pod", row.pod},
                    {"ipam", row.ipam},
                    {"address", row.address.text()},
                    {"uplink", formatted("eth{}", row.uplink)},
                    {"sent", expected},
                    {"answered", row.answered},
                    {"packets", seen},
                    {"verdict", row.ok() ? "ok" : "wrong"},
                    {"faults", row.faults}});
  }
  return {{"passed", report.passed()},
          {"pods", pods},
          {"ipRules", {{"onlyDefaults", report.rules_ok}, {"ipv4", report.rules4}, {"ipv6", report.rules6}}},
          {"pods4", report.pods4},
          {"afterDelete", {{"podEntries", report.entries_after}, {"leftovers", report.leftovers}}},
          {"afterUnload", {{"leftovers", report.unload_problems}}}};
}

}  // namespace

int run_demo(bool json) {
  isolate(true);
  const auto report = Demo().run();
  if (!report) {
    progress("error: " + report.error().message);
    if (json) print(Json{{"passed", false}, {"error", report.error().message}}.dump(2));
    return 1;
  }
  if (json) {
    print(to_json(*report).dump(2));
  } else {
    print_report(*report);
  }
  const auto processes = other_processes();
  if (!processes || !processes->empty()) {
    progress("processes left: " + processes.value_or("unknown"));
    return 1;
  }
  return report->passed() ? 0 : 1;
}

}  // namespace poduplink::harness
