// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/targets.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "loader/base/format.h"

namespace poduplink::bench {
namespace {

using Parameters = std::map<std::string, std::string>;

constexpr const char* floor_variant = "floor: request and programs";

const Series* find(const Report& report, const Subject& ours, const std::string& variant,
                   const Parameters& parameters) {
  const auto found = std::ranges::find_if(report.series, [&](const Series& series) {
    return series.subject.section == ours.section && series.subject.metric == ours.metric &&
           series.subject.variant == variant && series.subject.parameters == parameters;
  });
  return found == report.series.end() ? nullptr : &*found;
}

Parameters with(Parameters parameters, const std::string& name, const std::string& value) {
  parameters[name] = value;
  return parameters;
}

// Of pods' traffic; `conntrack` "yes" or "no".
void add_datapath(std::vector<Target>& all, const std::string& conntrack) {
  const std::string tracked = conntrack == "yes" ? "conntrack" : "no conntrack";
  const Parameters v4{{"family", "IPv4"}, {"conntrack", conntrack}};
  const auto ours = [&](const char* metric, const char* pods) {
    return Subject{
        .section = "datapath", .metric = metric, .variant = "poduplink", .parameters = with(v4, "pods", pods)};
  };
  const char* const out = "64-byte packets out";
  const char* const trip = "TCP round trip, median";
  const auto title = [&](const std::string& text) { return formatted("{} ({})", text, tracked); };
  all.push_back({title("64-byte packets out, by the host itself"), ours(out, "1"), "host", v4, 0.80, true});
  for (const auto& [pods, bound] :
       std::array<std::pair<const char*, double>, 3>{{{"1", 1.4}, {"110", 3}, {"1000", 15}}})
    all.push_back({title(formatted("64-byte packets out, by policy routing, pods: {}", pods)), ours(out, pods),
                   "policy routing", with(v4, "pods", pods), bound, true});
  all.push_back({title("64-byte packets out, 20,000 pods by 1"), ours(out, "20000"), "poduplink", with(v4, "pods", "1"),
                 0.95, true});
  all.push_back({title("TCP round trip, by policy routing, pods: 1"), ours(trip, "1"), "policy routing",
                 with(v4, "pods", "1"), 0.80, false});
  all.push_back({title("TCP round trip, by the host itself"), ours(trip, "1"), "host", v4, 1.15, false});
  for (const char* metric : {out, "64-byte packets in", "new TCP connections", "TCP stream", trip}) {
    Subject v6 = ours(metric, "1");
    v6.parameters["family"] = "IPv6";
    const bool is_least = std::string_view(metric) != trip;
    all.push_back({title(formatted("{}, IPv6 by IPv4", metric)), v6, "poduplink", with(v4, "pods", "1"),
                   is_least ? 0.90 : 1.10, is_least});
  }
}

void add_programs(std::vector<Target>& all) {
  for (const char* program : {"pod_egress", "uplink_ingress"}) {
    for (const char* way : {"IPv4 UDP", "IPv4 TCP", "IPv6 UDP", "IPv6 TCP"}) {
      all.push_back({.text = formatted("{}, {}: ns more than an empty program", program, way),
                     .ours = {.section = "programs",
                              .metric = "a packet, more than an empty program",
                              .variant = "poduplink",
                              .parameters = {{"program", program}, {"way", way}}},
                     .peer_variant = {},
                     .peer_parameters = {},
                     .bound = 200,
                     .is_least = false});
    }
  }
}

void add_cni(std::vector<Target>& all) {
  const auto ours = [](const char* metric, const char* attachments) {
    return Subject{
        .section = "cni", .metric = metric, .variant = "poduplink", .parameters = {{"attachments", attachments}}};
  };
  const char* const add = "ADD, one at a time, median";
  const char* const del = "DEL, one at a time, median";
  for (const char* attachments : {"0", "5000"}) {
    const Parameters same{{"attachments", attachments}};
    const auto title = [&](const char* text) { return formatted("{}, attachments: {}", text, attachments); };
    all.push_back({title("ADD by ptp"), ours(add, attachments), "ptp", same, 0.30, false});
    all.push_back({title("ADD by request and programs"), ours(add, attachments), floor_variant, same, 1.5, false});
    all.push_back({title("DEL by request and programs"), ours(del, attachments), floor_variant, same, 1.15, false});
  }
  all.push_back(
      {"ADD, 5,000 attachments by none", ours(add, "5000"), "poduplink", {{"attachments", "0"}}, 1.20, false});
}

std::string bound_text(const Target& target) {
  return formatted("{} {}", target.is_least ? "at least" : "at most", number_text(target.bound));
}

std::string measured_text(const Verdict& verdict) {
  const Summary& of = verdict.measured;
  return formatted("{} ({} … {})", number_text(of.median), number_text(of.low), number_text(of.high));
}

}  // namespace

std::vector<Target> targets() {
  std::vector<Target> all;
  for (const char* conntrack : {"no", "yes"}) add_datapath(all, conntrack);
  add_programs(all);
  add_cni(all);
  return all;
}

bool Verdict::is_met() const {
  return target.is_least ? measured.median >= target.bound : measured.median <= target.bound;
}

std::vector<Verdict> verdicts(const Report& report) {
  std::vector<Verdict> found;
  for (const Target& target : targets()) {
    const Series* ours = find(report, target.ours, target.ours.variant, target.ours.parameters);
    if (ours == nullptr) continue;
    if (target.peer_variant.empty()) {
      found.push_back({target, summary(ours->samples)});
    } else if (const Series* peer = find(report, target.ours, target.peer_variant, target.peer_parameters)) {
      found.push_back({target, ratio(*ours, *peer)});
    }
  }
  return found;
}

std::string targets_table(const Report& report) {
  std::string table = "| | wanted | measured | |\n| --- | --- | --- | --- |\n";
  for (const Verdict& verdict : verdicts(report)) {
    table += formatted("| {} | {} | {} | {} |\n", verdict.target.text, bound_text(verdict.target),
                       measured_text(verdict), verdict.is_met() ? "met" : "**missed**");
  }
  return table;
}

std::string targets_text(const Report& report) {
  std::string text;
  for (const Verdict& verdict : verdicts(report)) {
    text += formatted("  {:<64} {:<14} {:<22} {}\n", verdict.target.text, bound_text(verdict.target),
                      measured_text(verdict), verdict.is_met() ? "met" : "MISSED");
  }
  return text.empty() ? text : "targets\n" + text;
}

}  // namespace poduplink::bench
