// SPDX-License-Identifier: Apache-2.0
// ADD and DEL of poduplink with its IPAM plugin, of Debian's ptp and bridge with host-local, and of the kernel alone,
// one at a time and fifty at once, with 0 to 5,000 attachments on the node. Everything that the plugins write lies on a
// tmpfs.
#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <tuple>

#include "loader/base/format.h"
#include "tests/bench/cni_node.h"
#include "tests/bench/must.h"
#include "tests/bench/sections.h"

namespace poduplink::bench {
namespace {

using harness::Lab;

constexpr unsigned at_once = 50;
// So long a new interface of a pod still asks for routers and reports its groups, thousands of them a processor's time.
constexpr std::chrono::seconds quiet_time{20};
// A 99th percentile is of the calls of so many rounds together.
constexpr unsigned group = 5;

// In the order in which tables show them.
constexpr std::array<std::string_view, 7> variants{
    "poduplink",        "poduplink, IPv4 and IPv6", "ptp", "bridge", "floor: request and programs",
    "kernel's request", "two programs' start"};

double median_of(const std::vector<double>& values) { return summary(values).median; }

double percentile99(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at((99 * values.size() + 99) / 100 - 1);
}

class Bench {
 public:
  Bench(const Request& request, Lab& lab) : request_(request), nodes_(poduplink_nodes(lab)) {
    nodes_.push_back(ptp_node(lab));
    nodes_.push_back(bridge_node(lab));
    nodes_.push_back(floor_node(lab));
    for (unsigned i = 0; i < at_once; ++i)
      containers_.push_back({formatted("c{}", i), must(lab.add_namespace(formatted("c{}", i)))});
  }

  void run(unsigned attachments) {
    request_.progress(formatted("cni: making {} attachments on each node", attachments));
    for (const auto& node : nodes_) {
      if (attachments + at_once <= node->most()) node->fill(attachments);
    }
    if (attachments > 0 && !request_.quick) std::this_thread::sleep_for(quiet_time);
    parameters_ = {{"attachments", std::to_string(attachments)}};
    const std::vector<Container> few(containers_.begin(), containers_.begin() + (request_.quick ? 3 : 20));
    take_turns(attachments, few, false, request_.rounds);
    take_turns(attachments, containers_, true, (request_.rounds + 2) / 3);
  }

  std::vector<Series> series() {
    std::vector<std::string> metrics;
    for (const Series& one : series_) {
      if (std::ranges::find(metrics, one.subject.metric) == metrics.end()) metrics.push_back(one.subject.metric);
    }
    std::ranges::sort(series_, {}, [&](const Series& one) {
      return std::tuple(std::ranges::find(metrics, one.subject.metric),
                        std::stoul(one.subject.parameters.at("attachments")),
                        std::ranges::find(variants, one.subject.variant));
    });
    return std::move(series_);
  }

 private:
  // The first round is thrown away; each begins with another node.
  void take_turns(unsigned attachments, const std::vector<Container>& containers, bool together, unsigned rounds) {
    std::map<std::string, Times> calls;
    for (unsigned round = 0; round <= rounds; ++round) {
      request_.progress(formatted("cni, {}, {} attachments: {}", together ? "50 at once" : "one at a time", attachments,
                                  round == 0 ? std::string("warming up") : formatted("round {} of {}", round, rounds)));
      for (std::size_t turn = 0; turn < nodes_.size(); ++turn) {
        CniNode& node = *nodes_.at((turn + round) % nodes_.size());
        if (attachments + at_once > node.most()) continue;
        for (const char* verb : {"ADD", "DEL"}) {
          const Times times = together ? node.run_at_once(verb, containers) : node.run(verb, containers);
          if (round > 0) note(verb, times, together, calls[verb], round);
        }
      }
    }
    for (const auto& [verb, rest] : calls) {
      for (const auto& [variant, times] : rest) {
        if (!times.empty()) add(metric(verb, together, "99th percentile"), variant, percentile99(times));
      }
    }
  }

  void note(const std::string& verb, const Times& times, bool together, Times& calls, unsigned round) {
    for (const auto& [variant, values] : times) {
      add(metric(verb, together, "median"), variant, median_of(values));
      if (together) add(metric(verb, together, "until the last is done"), variant, std::ranges::max(values));
      std::vector<double>& all = calls[variant];
      all.insert(all.end(), values.begin(), values.end());
      if (round % group != 0) continue;
      add(metric(verb, together, "99th percentile"), variant, percentile99(all));
      all.clear();
    }
  }

  static std::string metric(const std::string& verb, bool together, const std::string& what) {
    return formatted("{}, {}, {}", verb, together ? "50 at once" : "one at a time", what);
  }

  // Milliseconds.
  void add(const std::string& metric, const std::string& variant, double us) {
    for (Series& one : series_) {
      if (one.subject.metric != metric || one.subject.variant != variant || one.subject.parameters != parameters_)
        continue;
      one.samples.push_back(us / 1000);
      return;
    }
    Subject subject{
        .section = "cni", .metric = metric, .unit = "ms", .variant = variant, .parameters = parameters_, .limit = {}};
    series_.push_back({.subject = std::move(subject), .samples = {us / 1000}});
  }

  const Request& request_;
  std::vector<std::unique_ptr<CniNode>> nodes_;
  std::vector<Container> containers_;
  std::map<std::string, std::string> parameters_;
  std::vector<Series> series_;
};

}  // namespace

std::vector<Series> bench_cni(const Request& request) {
  auto lab = must(Lab::create({.name = "bench", .uplinks = 2}));
  std::vector<Series> series;
  std::string fault;
  try {
    must(lab->start_agent());
    Bench bench(request, *lab);
    for (const unsigned attachments :
         request.quick ? std::vector<unsigned>{0, 100} : std::vector<unsigned>{0, 1000, 5000})
      bench.run(attachments);
    series = bench.series();
  } catch (const std::exception& error) {
    fault = error.what();
  }
  // Not pod by pod: everything goes with the namespaces.
  must(lab->release());
  Lab::remove_by_force("bench");
  if (!fault.empty()) throw std::runtime_error(fault);
  return series;
}

}  // namespace poduplink::bench
