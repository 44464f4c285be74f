// SPDX-License-Identifier: Apache-2.0
// What a node costs the agent, empty and full: start, reconciliation, memory, idling, and what it answers. Where the
// project promises a limit for 5,000 attachments, the series bears it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <ranges>
#include <stdexcept>

#include "loader/base/file.h"
#include "loader/base/format.h"
#include "tests/bench/full_node.h"
#include "tests/bench/must.h"
#include "tests/bench/sections.h"
#include "tests/harness/http.h"

namespace poduplink::bench {
namespace {

using namespace poduplink::harness;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr unsigned uplinks = 2;
constexpr std::chrono::seconds patience{120};  // a busy machine is measured too
constexpr unsigned full = 5000;

// Limits on a full node.
constexpr double start_limit_ms = 2000;
constexpr double memory_limit_mib = 40;
constexpr double idle_limit_percent = 0.5;
// The agent promises to repair within 5 s and looks every 3 s.
constexpr double repair_limit_ms = 2000;
// The agent does nothing else while it works on a scrape; how long the scraper waits is the machine's load too.
constexpr double scrape_work_limit_ms = 20;
constexpr double scrape_wait_limit_ms = 100;
constexpr double command_limit_ms = 100;

double milliseconds_since(Clock::time_point begin) { return Milliseconds(Clock::now() - begin).count(); }

double number_behind(const std::string& text, const std::string& key) {
  const std::size_t place = text.find(key);
  if (place == std::string::npos) throw std::runtime_error(key + " is missing in " + text);
  return std::stod(text.substr(place + key.size()));
}

// Of the process now; key as in /proc/PID/status.
double memory_mib(pid_t pid, const std::string& key) {
  return number_behind(must(read_file(formatted("/proc/{}/status", pid))), key + ":") / 1024;
}

// Time on a processor, in the kernel too, of all threads.
double busy_ms(pid_t pid) {
  double all = 0;
  for (const std::string& task : must(list_directory(formatted("/proc/{}/task", pid))))
    all += std::stod(must(read_file(formatted("/proc/{}/task/{}/schedstat", pid, task)))) / 1e6;
  return all;
}

// One lab at one size. What is measured has no peer, so nothing is done in turns.
class Bench {
 public:
  Bench(const Request& request, Lab& lab, unsigned attachments, pdl_mode mode)
      : request_(request), lab_(lab), attachments_(attachments), mode_(mode) {}

  std::vector<Series> run() {
    for (unsigned round = 0; round < request_.rounds; ++round) {
      request_.progress(
          formatted("agent with {} attachments: round {} of {}", attachments_, round + 1, request_.rounds));
      start();
      repair();
      scrape();
      for (const char* command : {"pods", "pods --output=json", "status"}) ask(command);
    }
    request_.progress(formatted("agent with {} attachments: idling", attachments_));
    idle();
    return std::move(series_);
  }

 private:
  void note(const std::string& metric, const std::string& unit, double limit, double value) {
    for (Series& one : series_) {
      if (one.subject.metric != metric) continue;
      one.samples.push_back(value);
      return;
    }
    Subject subject{.section = "agent",
                    .metric = metric,
                    .unit = unit,
                    .variant = mode_ == PDL_MODE_FAST ? "fast mode" : "netfilter mode",
                    .parameters = {{"attachments", std::to_string(attachments_)}}};
    if (attachments_ == full && mode_ == PDL_MODE_FAST) subject.limit = limit;
    series_.push_back({.subject = std::move(subject), .samples = {value}});
  }

  void start() {
    must(lab_.agent().stop());
    const auto begin = Clock::now();
    must(lab_.start_agent({}, patience));
    note("start to ready", "ms", start_limit_ms, milliseconds_since(begin));
    note("start to ready, on a processor", "ms", start_limit_ms, busy_ms(lab_.agent().pid()));
  }

  // An entry is erased and a look asked for: until it is back all records were held against all entries.
  void repair() {
    if (attachments_ == 0) return;
    const Tables tables = must(lab_.tables());
    const IpAddress address = filling_pod(lab_.uplink(1), Family::v4, 0);
    if (!must(tables.pods.erase(address))) throw std::runtime_error("no entry of " + address.text());
    const double before = busy_ms(lab_.agent().pid());
    const auto begin = Clock::now();
    must(lab_.agent().kill(SIGHUP));
    while (!must(tables.pods.find(address))) {
      if (Clock::now() - begin > patience) throw std::runtime_error("the entry was not repaired: " + address.text());
      ::usleep(200);
    }
    note("reconciliation, SIGHUP to repaired entry", "ms", repair_limit_ms, milliseconds_since(begin));
    ::usleep(100000);
    note("reconciliation, on a processor for the whole look", "ms", repair_limit_ms,
         busy_ms(lab_.agent().pid()) - before);
  }

  void scrape() {
    ::usleep(150000);  // one text serves a tenth of a second
    const double before = busy_ms(lab_.agent().pid());
    const auto begin = Clock::now();
    const HttpReply reply = must(http_get(lab_.node(), "/metrics"));
    note("scrape of the metrics", "ms", scrape_wait_limit_ms, milliseconds_since(begin));
    note("scrape of the metrics, on a processor", "ms", scrape_work_limit_ms, busy_ms(lab_.agent().pid()) - before);
    if (reply.status != 200) throw std::runtime_error(reply.head + reply.body);
  }

  // As an operator or a program waits for it, process start and output included.
  void ask(const std::string& command) {
    std::vector<std::string> words{PODUPLINKCTL, "--pin-dir", lab_.pin_dir(), "--run-dir", lab_.run_dir()};
    for (const auto word : std::views::split(command, ' ')) words.emplace_back(word.begin(), word.end());
    const auto begin = Clock::now();
    const Outcome shown = must(lab_.node().run(words));
    note("poduplinkctl " + command, "ms", command_limit_ms, milliseconds_since(begin));
    if (shown.out.empty()) throw std::runtime_error(shown.text());
  }

  void idle() {
    ::sleep(request_.quick ? 1 : 5);  // what the repairs left to do
    const pid_t pid = lab_.agent().pid();
    for (int part = 0; part < 3; ++part) {
      const double before = busy_ms(pid);
      const auto begin = Clock::now();
      ::sleep(request_.quick ? 1 : 10);
      note("idle", "% of a core", idle_limit_percent, 100 * (busy_ms(pid) - before) / milliseconds_since(begin));
    }
    note("resident memory", "MiB", memory_limit_mib, memory_mib(pid, "VmRSS"));
    note("resident memory, at its highest", "MiB", memory_limit_mib, memory_mib(pid, "VmHWM"));
  }

  const Request& request_;
  Lab& lab_;
  unsigned attachments_;
  pdl_mode mode_;
  std::vector<Series> series_;
};

void grow(const Request& request, Lab& lab, pdl_mode mode, const std::vector<unsigned>& sizes,
          std::vector<Series>& series) {
  must(lab.start_agent());
  FullNode node(lab);
  unsigned number = 0;
  for (const unsigned size : sizes) {
    request.progress(formatted("agent: making {} attachments", size));
    for (; number < size; ++number) node.add(number, mode);
    std::ranges::move(Bench(request, lab, size, mode).run(), std::back_inserter(series));
  }
}

}  // namespace

std::vector<Series> bench_agent(const Request& request) {
  std::vector<Series> series;
  const std::vector<unsigned> sizes =
      request.quick ? std::vector<unsigned>{0, 100} : std::vector<unsigned>{0, 1000, full};
  for (const pdl_mode mode : {PDL_MODE_FAST, PDL_MODE_NETFILTER}) {
    auto lab = must(Lab::create({.name = "bench", .uplinks = uplinks}));
    std::string fault;
    try {
      grow(request, *lab, mode, mode == PDL_MODE_FAST ? sizes : std::vector{sizes.back()}, series);
    } catch (const std::exception& error) {
      fault = error.what();
    }
    // Not pod by pod: everything goes with the namespaces.
    must(lab->release());
    Lab::remove_by_force("bench");
    if (!fault.empty()) throw std::runtime_error(fault);
  }
  return by_metric(series);
}

}  // namespace poduplink::bench
