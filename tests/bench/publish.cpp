// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/publish.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string_view>

#include "loader/base/format.h"
#include "tests/bench/plot.h"
#include "tests/bench/targets.h"

namespace poduplink::bench {
namespace {

using Parameters = std::map<std::string, std::string>;

constexpr std::string_view opening = "<!-- bench: ";
constexpr std::string_view mark_end = " -->";
constexpr std::string_view closing = "<!-- /bench -->";

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(text, at)) parts.push_back(trimmed(std::string_view(part)));
  return parts;
}

// What one mark asks for.
struct Wanted {
  std::string section;
  std::string metric;
  Parameters parameters;
  std::vector<std::string> peers;
};

Result<Wanted> wanted_of(std::string_view mark) {
  const std::vector<std::string> parts = split(mark, '|');
  if (parts.size() < 2) return fail("mark 'bench: {}' names no metric", mark);
  Wanted wanted{.section = parts[0], .metric = parts[1]};
  if (parts.size() > 2 && !parts[2].empty()) {
    for (const std::string& pair : split(parts[2], ',')) {
      const std::size_t equals = pair.find('=');
      if (equals == std::string::npos) return fail("mark 'bench: {}': '{}' is no KEY=VALUE", mark, pair);
      wanted.parameters.emplace(pair.substr(0, equals), pair.substr(equals + 1));
    }
  }
  if (parts.size() > 3) wanted.peers = split(parts[3], ',');
  return wanted;
}

bool has(const Parameters& all, const Parameters& some) {
  return std::ranges::all_of(some, [&](const auto& one) {
    const auto found = all.find(one.first);
    return found != all.end() && found->second == one.second;
  });
}

std::vector<const Series*> chosen(const Report& report, const std::string& section, const std::string& metric,
                                  const Parameters& parameters) {
  std::vector<const Series*> found;
  for (const Series& series : report.series) {
    if (series.subject.section == section && series.subject.metric == metric &&
        has(series.subject.parameters, parameters))
      found.push_back(&series);
  }
  return found;
}

// The rest of the parameters, those that differ between the lines.
std::vector<std::string> columns_of(const std::vector<const Series*>& series, const Parameters& given) {
  std::set<std::string> names;
  for (const Series* one : series) {
    for (const auto& [name, value] : one->subject.parameters) {
      if (!given.contains(name)) names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

// Large ones in groups of three: 12,345.
std::string digits(double value) {
  std::string text = number_text(value);
  if (value < 1000) return text;
  for (std::size_t place = text.size(); place > 3; place -= 3) text.insert(place - 3, ",");
  return text;
}

// Nothing where several could be meant.
const Series* peer_of(const Series& series, const std::vector<const Series*>& all, const std::string& name) {
  const Series* found = nullptr;
  for (const Series* one : all) {
    if (one->subject.variant != name || one == &series || !are_comparable(one->subject, series.subject)) continue;
    if (found != nullptr) return nullptr;
    found = one;
  }
  return found;
}

std::string line_of(const Series& series, const std::vector<std::string>& columns, const Wanted& wanted,
                    const std::vector<const Series*>& all) {
  const Summary of = summary(series.samples);
  std::string line = formatted("| {} |", series.subject.variant);
  for (const std::string& column : columns) {
    const auto found = series.subject.parameters.find(column);
    line += formatted(" {} |", found == series.subject.parameters.end() ? "" : found->second);
  }
  line +=
      formatted(" {} | {} … {} | {:.1f} % |", digits(of.median), digits(of.low), digits(of.high), 100 * of.spread());
  for (const std::string& name : wanted.peers) {
    const Series* peer = peer_of(series, all, name);
    line += formatted(" {} |", peer == nullptr ? "" : ratio_text(ratio(series, *peer)));
  }
  return line + "\n";
}

Result<std::string> table_of(const Report& report, std::string_view mark) {
  if (mark == "machine") {
    std::string table = "| | |\n| --- | --- |\n";
    for (const auto& [name, value] : report.machine) table += formatted("| {} | {} |\n", name, value);
    return table;
  }
  if (mark == "targets") return targets_table(report);
  PDL_TRY_ASSIGN(const Wanted wanted, wanted_of(mark));
  const std::vector<const Series*> series = chosen(report, wanted.section, wanted.metric, wanted.parameters);
  if (series.empty()) return fail("mark 'bench: {}': the report has no such series", mark);
  const std::vector<std::string> columns = columns_of(series, wanted.parameters);
  std::string head = "| |";
  std::string rule = "| --- |";
  const auto add_column = [&](const std::string& title, const char* alignment) {
    head += formatted(" {} |", title);
    rule += formatted(" {} |", alignment);
  };
  for (const std::string& column : columns) add_column(column, "---");
  add_column("median, " + series.front()->subject.unit, "---:");
  add_column("quartiles", "---:");
  add_column("spread", "---:");
  for (const std::string& peer : wanted.peers) add_column("by " + peer, "---:");
  std::string table = head + "\n" + rule + "\n";
  for (const Series* one : series) table += line_of(*one, columns, wanted, series);
  return table;
}

// ---- plots -------------------------------------------------------------------------------------

std::optional<double> number_of(const Subject& subject, const std::string& parameter) {
  const auto found = subject.parameters.find(parameter);
  if (found == subject.parameters.end()) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

// A line a variant, by one parameter. A variant without it is a level line: its number means nothing to it.
std::vector<Line> lines_by(const std::vector<const Series*>& series, const std::string& parameter) {
  std::vector<Line> lines;
  Range xs;
  for (const Series* one : series) {
    if (const auto x = number_of(one->subject, parameter)) xs.take(*x);
  }
  for (const Series* one : series) {
    const auto x = number_of(one->subject, parameter);
    auto line = std::ranges::find(lines, one->subject.variant, &Line::name);
    if (line == lines.end()) line = lines.insert(lines.end(), Line{.name = one->subject.variant, .points = {}});
    const Summary y = summary(one->samples);
    if (x) {
      line->points.push_back({.x = *x, .y = y});
    } else {
      line->points = {{.x = xs.least, .y = y}, {.x = xs.most, .y = y}};
    }
  }
  return lines;
}

std::vector<Bar> bars_of(const std::vector<const Series*>& series, const std::string& parameter) {
  std::vector<Bar> bars;
  for (const Series* one : series) {
    const auto found = one->subject.parameters.find(parameter);
    const bool names_it = found != one->subject.parameters.end();
    bars.push_back({.name = names_it ? formatted("{}, {} {}", one->subject.variant, found->second, parameter)
                                     : one->subject.variant,
                    .value = summary(one->samples)});
  }
  return bars;
}

}  // namespace

Result<std::string> with_tables(const std::string& markdown, const Report& report) {
  std::string made;
  std::size_t place = 0;
  for (;;) {
    const std::size_t start = markdown.find(opening, place);
    if (start == std::string::npos) return made + markdown.substr(place);
    const std::size_t line_end = markdown.find('\n', start);
    const std::size_t end = markdown.find(closing, start);
    const std::string line = markdown.substr(start, line_end - start);
    if (line_end == std::string::npos || end == std::string::npos || !line.ends_with(mark_end) ||
        markdown.substr(start + 1, end - start).contains(opening))
      return fail("mark '{}' is not closed by '{}'", line, closing);
    const std::string mark = line.substr(opening.size(), line.size() - opening.size() - mark_end.size());
    PDL_TRY_ASSIGN(const std::string table, table_of(report, mark));
    made += markdown.substr(place, line_end + 1 - place) + "\n" + table + "\n" + std::string(closing);
    place = end + closing.size();
  }
}

std::vector<Plot> plots(const Report& report) {
  std::vector<Plot> made;
  const auto add_lines = [&](const char* file, const char* title, const char* section, const char* metric,
                             const Parameters& given, const char* by, const char* x_title) {
    const auto series = chosen(report, section, metric, given);
    if (!series.empty()) made.push_back({.file = file, .svg = line_plot(title, x_title, lines_by(series, by))});
  };
  const auto add_bars = [&](const char* file, const char* title, const char* section, const char* metric,
                            const Parameters& given, const char* by) {
    const auto series = chosen(report, section, metric, given);
    if (!series.empty()) made.push_back({.file = file, .svg = bar_plot(title, bars_of(series, by))});
  };
  const Parameters v4{{"family", "IPv4"}, {"conntrack", "yes"}};
  add_lines("packets-by-pods.svg", "64-byte packets a second out of a pod, one core (IPv4, conntrack)", "datapath",
            "64-byte packets out", v4, "pods", "pods on the node");
  add_bars("packets-in.svg", "64-byte packets a second into a pod, one core (IPv4, conntrack)", "datapath",
           "64-byte packets in", v4, "pods");
  add_bars("round-trip.svg", "TCP round trip, µs, median (IPv4, conntrack)", "datapath", "TCP round trip, median", v4,
           "pods");
  add_bars("connections.svg", "new TCP connections a second, one core (IPv4, conntrack)", "datapath",
           "new TCP connections", v4, "pods");
  add_lines("add-by-attachments.svg", "ADD, ms, one at a time", "cni", "ADD, one at a time, median", {}, "attachments",
            "attachments on the node");
  add_bars("programs.svg", "pod_egress: ns a packet, more than an empty program (full node)", "programs",
           "a packet, more than an empty program", {{"program", "pod_egress"}}, "way");
  return made;
}

}  // namespace poduplink::bench
