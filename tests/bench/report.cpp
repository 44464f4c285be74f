// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/report.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "loader/base/format.h"
#include "loader/base/version.h"

namespace poduplink::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int format_number = 1;

// The value of "key   : value" in a file of /proc; empty where there is none.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::string text(sizeof("2026-01-31"), '\0');
  text.resize(std::strftime(text.data(), text.size(), "%F", &parts));
  return text;
}

Json json_of(const Series& series) {
  const Subject& subject = series.subject;
  Json json{{"section", subject.section}, {"metric", subject.metric},
            {"unit", subject.unit},       {"moreIsBetter", subject.more_is_better},
            {"variant", subject.variant}, {"parameters", subject.parameters},
            {"samples", series.samples}};
  if (subject.limit) json["limit"] = *subject.limit;
  return json;
}

Series series_of(const Json& json) {
  Series series;
  json.at("section").get_to(series.subject.section);
  json.at("metric").get_to(series.subject.metric);
  json.at("unit").get_to(series.subject.unit);
  json.at("moreIsBetter").get_to(series.subject.more_is_better);
  json.at("variant").get_to(series.subject.variant);
  json.at("parameters").get_to(series.subject.parameters);
  json.at("samples").get_to(series.samples);
  if (json.contains("limit")) series.subject.limit = json.at("limit").get<double>();
  return series;
}

bool is_one_table(const Subject& one, const Subject& other) {
  return one.section == other.section && one.metric == other.metric;
}

std::string parameters_text(const Subject& subject) {
  std::string text;
  for (const auto& [name, value] : subject.parameters)
    text += formatted("{}{} {}", text.empty() ? "" : ", ", name, value);
  return text;
}

// The peer by its variant, and by those parameters that the series has not.
std::string peer_label(const Subject& peer, const Subject& subject) {
  Subject rest{.variant = peer.variant};
  for (const auto& parameter : peer.parameters) {
    if (!subject.parameters.contains(parameter.first)) rest.parameters.insert(parameter);
  }
  return label(rest);
}

// "1.43 policy routing, – (0.7…2.1) ptp": this series by each other variant of the same parameters.
std::string ratios_text(const Series& series, const std::vector<Series>& all) {
  std::vector<std::string> texts;
  for (const Series& peer : all) {
    if (is_one_table(series.subject, peer.subject) && series.subject.variant != peer.subject.variant &&
        are_comparable(series.subject, peer.subject)) {
      texts.push_back(formatted("{} {}", ratio_text(ratio(series, peer)), peer_label(peer.subject, series.subject)));
    }
  }
  return joined(texts, ", ");
}

std::string limit_text(const Subject& subject, double median) {
  if (!subject.limit) return {};
  const bool within = subject.more_is_better ? median >= *subject.limit : median <= *subject.limit;
  return formatted("limit {}: {}", number_text(*subject.limit), within ? "within" : "MISSED");
}

std::string line_of(const Series& series, const std::vector<Series>& all) {
  const Summary of = summary(series.samples);
  return formatted("  {:<44} {:>10} {:>10} … {:<10} ±{:>4.1f} %  {}{}\n", label(series.subject), number_text(of.median),
                   number_text(of.low), number_text(of.high), 100 * of.spread(), ratios_text(series, all),
                   limit_text(series.subject, of.median));
}

}  // namespace

std::map<std::string, std::string> this_machine() {
  utsname kernel{};
  ::uname(&kernel);
  const long processors = ::sysconf(_SC_NPROCESSORS_ONLN);
  const auto octets = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return {{"processor", proc_value("/proc/cpuinfo", "model name")},
          {"processors", std::to_string(processors)},
          {"memory", formatted("{:.0f} GiB", octets / (1 << 30))},
          {"kernel", kernel.release},
          {"poduplink", build_version()},
          {"date", today()}};
}

bool are_comparable(const Subject& one, const Subject& other) {
  return std::ranges::all_of(one.parameters, [&](const auto& parameter) {
    const auto found = other.parameters.find(parameter.first);
    return found == other.parameters.end() || found->second == parameter.second;
  });
}

std::string label(const Subject& subject) {
  const std::string parameters = parameters_text(subject);
  return parameters.empty() ? subject.variant : formatted("{} ({})", subject.variant, parameters);
}

std::string number_text(double value) {
  if (value >= 100) return formatted("{:.0f}", value);
  return value >= 10 ? formatted("{:.1f}", value) : formatted("{:.2f}", value);
}

std::string to_json(const Report& report) {
  Json series = Json::array();
  for (const Series& one : report.series) series.push_back(json_of(one));
  const Json document{{"format", format_number}, {"machine", report.machine}, {"series", std::move(series)}};
  return document.dump(1) + "\n";
}

Result<Report> from_json(const std::string& text) {
  try {
    const Json document = Json::parse(text);
    if (const int format = document.at("format").get<int>(); format != format_number)
      return fail("format {} is not known; this program reads format {}", format, format_number);
    Report report;
    document.at("machine").get_to(report.machine);
    for (const Json& one : document.at("series")) report.series.push_back(series_of(one));
    return report;
  } catch (const nlohmann::json::exception& error) {
    return fail("not a report of benchmarks: {}", one_line(error.what()));
  }
}

std::string to_text(const Report& report) {
  std::string text;
  for (const auto& [name, value] : report.machine) text += formatted("{}: {}\n", name, value);
  const Subject* last = nullptr;
  for (const Series& series : report.series) {
    const Subject& subject = series.subject;
    if (last == nullptr || !is_one_table(*last, subject)) {
      text += formatted("\n{}: {}, {} ({} is better)\n", subject.section, subject.metric, subject.unit,
                        subject.more_is_better ? "more" : "less");
      text += formatted("  {:<44} {:>10} {:>10}   {:<10} {:>7}  {}\n", "variant", "median", "quartile", "quartile",
                        "spread", "ratio to");
    }
    text += line_of(series, report.series);
    last = &subject;
  }
  return text;
}

}  // namespace poduplink::bench
