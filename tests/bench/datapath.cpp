// SPDX-License-Identifier: Apache-2.0
// Pods' traffic, by every way it is done: first with no connection tracking on the nodes, then with it.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "tests/bench/datapath_way.h"
#include "tests/bench/must.h"
#include "tests/bench/sections.h"
#include "tests/bench/traffic.h"

namespace poduplink::bench {
namespace {

// How much of it all is measured.
struct Extent {
  Sizes entries;       // pods of poduplink in fast mode
  Sizes rules;         // pods of policy routing
  unsigned most_pods;  // with packets out every number of pods is measured, with the rest those up to this one
  std::chrono::milliseconds sample;
};

Extent extent_of(const Request& request) {
  if (request.quick)
    return {.entries = {1, 110}, .rules = {1, 110}, .most_pods = 1, .sample = std::chrono::milliseconds(25)};
  return {.entries = {1, 110, 1000, 5000, 20000},
          .rules = {1, 110, 1000, 5000},
          .most_pods = 110,
          .sample = std::chrono::milliseconds(200)};
}

std::vector<Way> make_ways(const Request& request, const Extent& extent) {
  std::vector<std::function<Way()>> makers{host_way,
                                           [&] { return poduplink_way(PDL_MODE_FAST, extent.entries); },
                                           [] { return poduplink_way(PDL_MODE_NETFILTER, {1, 110}); },
                                           redirect_way,
                                           ptp_way,
                                           macvlan_way};
  for (const unsigned pods : extent.rules) makers.emplace_back([pods] { return policy_way(pods); });
  std::vector<Way> ways;
  for (const auto& make : makers) {
    ways.push_back(make());
    request.progress("datapath: a node for " + ways.back().variant);
  }
  return ways;
}

// ---- samples -----------------------------------------------------------------------------------

// Of a second of the core. None is lost on the way: the sender itself does all the work of each before it sends the
// next.
double packets(const Path& path, const Drain& drain, std::chrono::milliseconds duration) {
  constexpr double fewest = 0.99;  // arrivals for a number that means something
  const Flood flood(path);
  static_cast<void>(flood.send_for(duration / 10));  // caches
  const std::uint64_t before = drain.arrived();
  const Sent sent = flood.send_for(duration);
  const auto arrived = static_cast<double>(drain.arrived() - before);
  if (arrived < fewest * static_cast<double>(sent.packets))
    throw std::runtime_error(formatted("from {} to {}: {:.0f} of {} packets arrived", path.source.text(),
                                       path.destination.text(), arrived, sent.packets));
  return arrived / sent.seconds;
}

// One measurement that is two samples, for two candidates of which each is asked once a round: who comes first has it
// made, for both.
class SharedRoundTrips {
 public:
  explicit SharedRoundTrips(std::function<RoundTrips()> measure) : measure_(std::move(measure)) {}

  double median() { return take(median_is_taken_).median; }
  double p99() { return take(p99_is_taken_).p99; }

 private:
  const RoundTrips& take(bool& is_taken) {
    if (is_taken) {
      last_ = measure_();
      median_is_taken_ = p99_is_taken_ = false;
    }
    is_taken = true;
    return last_;
  }

  std::function<RoundTrips()> measure_;
  RoundTrips last_;
  bool median_is_taken_ = true;
  bool p99_is_taken_ = true;
};

// ---- the section -------------------------------------------------------------------------------

// What is measured: a way with a number of pods (0: it has none), in one family.
struct Target {
  Way* way;
  unsigned pods;
  Family family;

  [[nodiscard]] Path out() const { return way->out(family); }
  void prepare() const {
    if (way->set_pods) way->set_pods(pods);
  }
};

struct Metric {
  const char* name;
  const char* unit;
  bool more_is_better;
};

class Bench {
 public:
  explicit Bench(const Request& request)
      : request_(request), extent_(extent_of(request)), ways_(make_ways(request, extent_)) {}

  std::vector<Series> run() {
    for (const bool tracked : {false, true}) {
      tracked_ = tracked;
      if (tracked) std::ranges::for_each(ways_, track_connections);
      for (const Way& way : ways_) check(way, tracked);
      measure();
    }
    // Nothing is taken down: all ends with the namespaces of this process.
    for (const Way& way : ways_) must(way.lab->release());
    return std::move(all_);
  }

 private:
  using Sample = std::function<double(const Target&)>;

  void measure() {
    const auto sample = extent_.sample;
    constexpr unsigned all = ~0U;
    in_turns_of({"64-byte packets out", "packets/s", true}, all,
                [=](const Target& of) { return packets(of.out(), *of.way->outside_drain, sample); });
    in_turns_of({"64-byte packets in", "packets/s", true}, extent_.most_pods,
                [=](const Target& of) { return packets(of.out().back(), *of.way->pod_drain, sample); });
    in_turns_of({"TCP stream", "Mbit/s", true}, extent_.most_pods,
                [=](const Target& of) { return stream(of.out(), sample); });
    in_turns_of({"new TCP connections", "connections/s", true}, extent_.most_pods,
                [=](const Target& of) { return connections(of.out(), sample); });
    measure_round_trips();
  }

  // One metric of every target.
  void in_turns_of(const Metric& metric, unsigned most_pods, const Sample& sample) {
    std::vector<Candidate> candidates;
    for (const Target& target : targets(most_pods)) {
      candidates.push_back({.subject = subject(metric, target), .sample = [target, sample] {
                              target.prepare();
                              return sample(target);
                            }});
    }
    run_in_turns(metric.name, candidates);
  }

  void measure_round_trips() {
    std::vector<Candidate> medians;
    std::vector<Candidate> p99s;
    for (const Target& target : targets(extent_.most_pods)) {
      const auto shared = std::make_shared<SharedRoundTrips>([target, sample = extent_.sample] {
        target.prepare();
        return round_trips(target.out(), sample);
      });
      medians.push_back({.subject = subject({"TCP round trip, median", "µs", false}, target),
                         .sample = [shared] { return shared->median(); }});
      p99s.push_back({.subject = subject({"TCP round trip, 99th percentile", "µs", false}, target),
                      .sample = [shared] { return shared->p99(); }});
    }
    std::ranges::move(p99s, std::back_inserter(medians));
    run_in_turns("TCP round trips", medians);
  }

  std::vector<Target> targets(unsigned most_pods) {
    std::vector<Target> found;
    for (const Family family : {Family::v4, Family::v6}) {
      for (Way& way : ways_) {
        for (const unsigned pods : way.sizes.empty() ? Sizes{0} : way.sizes) {
          if (pods <= most_pods) found.push_back({&way, pods, family});
        }
      }
    }
    return found;
  }

  [[nodiscard]] Subject subject(const Metric& metric, const Target& target) const {
    Subject made{.section = "datapath",
                 .metric = metric.name,
                 .unit = metric.unit,
                 .more_is_better = metric.more_is_better,
                 .variant = target.way->variant,
                 .parameters = {{"family", target.family == Family::v4 ? "IPv4" : "IPv6"},
                                {"conntrack", tracked_ ? "yes" : "no"}}};
    if (target.pods > 0) made.parameters.emplace("pods", std::to_string(target.pods));
    return made;
  }

  void run_in_turns(const char* what, const std::vector<Candidate>& candidates) {
    const std::string title = formatted("datapath, {}, {}", tracked_ ? "conntrack" : "no conntrack", what);
    std::ranges::move(in_turns(request_, title, candidates), std::back_inserter(all_));
  }

  const Request& request_;
  Extent extent_;
  std::vector<Way> ways_;
  bool tracked_ = false;
  std::vector<Series> all_;
};

}  // namespace

std::vector<Series> bench_datapath(const Request& request) { return Bench(request).run(); }

}  // namespace poduplink::bench
