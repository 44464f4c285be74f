// SPDX-License-Identifier: Apache-2.0
// Behind scripts/bench: measures sections, writes the report, makes tables and plots of a report.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>

#include <CLI/CLI.hpp>

#include "loader/base/file.h"
#include "loader/base/format.h"
#include "loader/base/version.h"
#include "tests/bench/must.h"
#include "tests/bench/publish.h"
#include "tests/bench/report.h"
#include "tests/bench/sections.h"
#include "tests/bench/settle.h"
#include "tests/bench/targets.h"
#include "tests/harness/isolate.h"

namespace poduplink::bench {
namespace {

struct Section {
  const char* name;
  const char* help;
  std::vector<Series> (*run)(const Request& request);
};

constexpr std::array sections{
    Section{"datapath", "pods' traffic: poduplink, the host itself, policy routing, ptp, macvlan", bench_datapath},
    Section{"programs", "nanoseconds of each program's ways, by test runs", bench_programs},
    Section{"cni", "ADD and DEL: poduplink, ptp, bridge, and the kernel's own work", bench_cni},
    Section{"agent", "start, reconciliation and memory with 0 to 5,000 attachments", bench_agent},
};

// For --help: the names, or a line a section.
std::vector<std::string> section_names() {
  std::vector<std::string> names;
  names.reserve(sections.size() + 1);
  for (const Section& section : sections) names.emplace_back(section.name);
  names.emplace_back("all");
  return names;
}

std::string section_help() {
  std::string text;
  for (const Section& section : sections) text += formatted("{}: {}\n", section.name, section.help);
  return text + "all: everything (the default)";
}

void write_whole(const std::string& path, const std::string& text) {
  if (const auto done = write_file_atomically(path, text); !done) throw std::runtime_error(done.error().message);
}

// A section that fails takes nothing of the others with it: the rest is measured, and `keep` gets what there is after
// each. The second is false where one failed.
std::pair<Report, bool> measure(std::span<const Section* const> chosen, const Request& request, const auto& keep) {
  std::pair<Report, bool> result{{.machine = this_machine(), .series = {}}, true};
  for (const Section* section : chosen) {
    try {
      std::vector<Series> series = section->run(request);
      wait_for_gone_namespaces();
      result.first.series.insert(result.first.series.end(), std::make_move_iterator(series.begin()),
                                 std::make_move_iterator(series.end()));
      keep(result.first);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "bench: %s: %s\n", section->name, error.what());
      result.second = false;
    }
  }
  return result;
}

// Tables into DIR/benchmarks.md, plots beside each other under DIR/benchmarks.
void publish(const std::string& folder, const Report& report) {
  const std::string page = folder + "/benchmarks.md";
  write_whole(page, must(with_tables(must(read_file(page)), report)));
  for (const Plot& plot : plots(report)) write_whole(folder + "/benchmarks/" + plot.file, plot.svg);
}

struct Arguments {
  std::vector<std::string> sections;
  std::string json;
  std::string report;
  std::string docs;
  Request request;
};

void add_options(CLI::App& app, Arguments& arguments) {
  app.set_version_flag("--version", build_version());
  app.add_option("section", arguments.sections, section_help())
      ->check(CLI::IsMember(section_names()))
      ->type_name("SECTION");
  app.add_option("--json", arguments.json, "write the report to FILE")->type_name("FILE");
  app.add_option("--report", arguments.report, "measure nothing: read the report from FILE")->type_name("FILE");
  app.add_option("--docs", arguments.docs, "make tables and plots of DIR/benchmarks.md anew")->type_name("DIR");
  app.add_option("--rounds", arguments.request.rounds, "rounds in which each variant is measured once (default: 15)")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  app.add_flag("--quick", arguments.request.quick,
               "fewer variants and short samples: shows that it works, not how fast");
}

std::vector<const Section*> chosen(const std::vector<std::string>& names) {
  std::vector<const Section*> all;
  for (const Section& section : sections) {
    const auto is_named = [&](const std::string& name) { return name == "all" || name == section.name; };
    if (names.empty() || std::ranges::any_of(names, is_named)) all.push_back(&section);
  }
  return all;
}

void keep(const Arguments& arguments, const Report& report) {
  if (!arguments.json.empty()) write_whole(arguments.json, to_json(report));
}

void finish(const Arguments& arguments, const Report& report) {
  std::fputs((to_text(report) + "\n" + targets_text(report)).c_str(), stdout);
  keep(arguments, report);
  if (!arguments.docs.empty()) publish(arguments.docs, report);
}

int run(Arguments& arguments) {
  if (!arguments.report.empty()) {
    finish(arguments, must(from_json(must(read_file(arguments.report)))));
    return 0;
  }
  arguments.request.progress = [](const std::string& text) { std::fprintf(stderr, "bench: %s\n", text.c_str()); };
  const std::vector<const Section*> which = chosen(arguments.sections);
  // From here on everything happens in namespaces of its own, with an empty /run.
  harness::isolate(true);
  const auto [report, is_whole] =
      measure(which, arguments.request, [&](const Report& so_far) { keep(arguments, so_far); });
  if (!is_whole) {
    // Documents are made of whole reports.
    arguments.docs.clear();
  }
  finish(arguments, report);
  return is_whole ? 0 : 1;
}

}  // namespace
}  // namespace poduplink::bench

int main(int argc, char** argv) {
  CLI::App app("Measures poduplink beside the other ways to do the same, on this machine.", "poduplink-bench");
  poduplink::bench::Arguments arguments;
  poduplink::bench::add_options(app, arguments);
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return poduplink::bench::run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 1;
  }
}
