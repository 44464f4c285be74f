// SPDX-License-Identifier: Apache-2.0
// What a full node costs the agent: start, reconciliation, memory and idling with 5,000 attachments, each beside its
// limit. Attachments are made by the plugin's own code, without a process and an IPAM plugin for each.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <stdexcept>

#include "cni/pod_link.h"
#include "cni/state.h"
#include "loader/base/file.h"
#include "loader/net/link.h"
#include "loader/net/netns.h"
#include "loader/net/route.h"
#include "tests/harness/http.h"
#include "tests/harness/isolate.h"
#include "tests/harness/lab.h"

namespace poduplink::harness {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr unsigned uplinks = 2;
constexpr std::chrono::seconds patience{120};  // a busy machine is measured too
constexpr int starts = 5;
constexpr int repairs = 9;
constexpr int scrapes = 21;
constexpr std::chrono::seconds idling{30};

constexpr double start_limit_ms = 2000;
constexpr double memory_limit_mib = 40;
constexpr double idle_limit_percent = 0.5;
// The agent promises to repair within 5 s and looks every 3 s.
constexpr double repair_limit_ms = 2000;
// The agent does nothing else while it works on a scrape; how long the scraper waits is the machine's load too.
constexpr double scrape_work_limit_ms = 20;
constexpr double scrape_wait_limit_ms = 100;
constexpr double command_limit_ms = 100;

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

template <typename T>
T must(CniResult<T> result) {
  if (!result) throw std::runtime_error(result.error().msg);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

class Node {
 public:
  explicit Node(Lab& lab)
      : pods_(must(lab.add_namespace("pods"))),
        host_(must(Netlink::open_in(lab.node().fd()))),
        inside_(must(Netlink::open_in(pods_->fd()))) {
    options_.pin_dir = lab.pin_dir();
    options_.run_dir = lab.run_dir();
    for (unsigned i = 1; i <= uplinks; ++i) homes_.push_back(must(find_link_by_name(host_, lab.uplink(i).name())));
  }

  // As ADD does it, in its order.
  void add(const Lab& lab, unsigned number, pdl_mode mode) {
    const Uplink uplink = lab.uplink(1 + number % uplinks);
    const Link& home = homes_.at(uplink.number - 1);
    Record record;
    record.id = {.network = "bench", .container_id = formatted("pod-{}", number), .if_name = formatted("p{}", number)};
    record.netns = pods_->path();
    record.mode = mode;
    record.host_veth = host_veth_name(record.id);
    must(begin_attachment(options_, record));
    record.mtu = home.mtu;
    record.pod_mac = must(random_mac());
    const std::vector<IpAddress> addresses{uplink.pod4(16 + number / 250, 1 + number % 250),
                                           uplink.pod6(16, 1 + number)};
    std::vector<std::optional<pdl_pod>> entries;
    for (const IpAddress& address : addresses) {
      const IpAddress gateway = address.is_v4() ? uplink.gateway4() : uplink.gateway6();
      record.addresses.push_back({.address = Prefix(address, address.is_v4() ? 16 : 64),
                                  .gateway = gateway,
                                  .uplink_name = home.name,
                                  .uplink_mac = uplink.mac(),
                                  .uplink_index = home.index,
                                  .announced = address.is_v6()});
      entries.emplace_back(entry_of(record.addresses.back(), record, home));
    }
    must(create_veth(host_, {.host_name = record.host_veth,
                             .host_mac = MacAddress(PDL_HOST_MAC),
                             .peer_name = record.id.if_name,
                             .peer_mac = record.pod_mac,
                             .peer_netns_fd = pods_->fd(),
                             .mtu = record.mtu}));
    const Link veth = must(find_link_by_name(host_, record.host_veth));
    record.host_veth_index = veth.index;
    {
      const NetnsScope scope = must(NetnsScope::enter(lab.node().fd()));  // tcx takes the thread's
      must(claim(host_, options_, record, entries));
    }
    must(configure_host_side(host_, veth, addresses));
    must(set_link_up(inside_, must(find_link_by_name(inside_, record.id.if_name)).index));
    must(add_proxy_neighbour(host_, home.index, addresses.back()));
    must(mark_ready(options_, record));
  }

 private:
  static pdl_pod entry_of(const RecordAddress& address, const Record& record, const Link& home) {
    pdl_pod entry{};
    entry.home = static_cast<__u32>(home.index);
    entry.mtu = home.mtu;
    set_pod_gateway(entry, address.gateway);
    set_mac(entry.pod_mac, record.pod_mac);
    entry.prefix_len = static_cast<__u8>(address.address.length());
    entry.mode = record.mode;
    entry.flags = PDL_POD_ON_LINK;
    return entry;
  }

  const Namespace* pods_;
  Netlink host_;
  Netlink inside_;
  Options options_;
  std::vector<Link> homes_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

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

void report(const char* what, double value, const char* unit, double limit) {
  std::printf("%-58s %9.2f %-4s limit %7.1f: %s\n", what, value, unit, limit, value <= limit ? "within" : "ABOVE");
}

void bench_starts(Lab& lab) {
  std::vector<double> waited;
  std::vector<double> worked;
  for (int turn = 0; turn < starts; ++turn) {
    must(lab.agent().stop());
    const auto begin = Clock::now();
    must(lab.start_agent({}, patience));
    waited.push_back(Milliseconds(Clock::now() - begin).count());
    worked.push_back(busy_ms(lab.agent().pid()));
  }
  report("start to ready, median", median(waited), "ms", start_limit_ms);
  report("  of it on a processor, median", median(worked), "ms", start_limit_ms);
}

// An entry is erased and a look asked for: until it is back all records were held against all entries.
void bench_repairs(Lab& lab) {
  const Tables tables = must(lab.tables());
  std::vector<double> waited;
  std::vector<double> worked;
  for (int turn = 0; turn < repairs; ++turn) {
    const IpAddress address = lab.uplink(1).pod4(16, 1);
    if (!must(tables.pods.erase(address))) throw std::runtime_error("no entry of " + address.text());
    const double before = busy_ms(lab.agent().pid());
    const auto begin = Clock::now();
    must(lab.agent().kill(SIGHUP));
    while (!must(tables.pods.find(address))) ::usleep(200);
    waited.push_back(Milliseconds(Clock::now() - begin).count());
    ::usleep(100000);
    worked.push_back(busy_ms(lab.agent().pid()) - before);
  }
  report("reconciliation, SIGHUP to repaired entry, median", median(waited), "ms", repair_limit_ms);
  report("  on a processor for the whole look, median", median(worked), "ms", repair_limit_ms);
}

void bench_scrapes(Lab& lab) {
  std::vector<double> waited;
  std::vector<double> worked;
  for (int turn = 0; turn < scrapes; ++turn) {
    ::usleep(150000);  // one text serves a tenth of a second
    const double before = busy_ms(lab.agent().pid());
    const auto begin = Clock::now();
    const HttpReply reply = must(http_get(lab.node(), "/metrics"));
    waited.push_back(Milliseconds(Clock::now() - begin).count());
    worked.push_back(busy_ms(lab.agent().pid()) - before);
    if (reply.status != 200) throw std::runtime_error(reply.head + reply.body);
  }
  report("scrape of the metrics, median", median(waited), "ms", scrape_wait_limit_ms);
  report("  of it on a processor, median", median(worked), "ms", scrape_work_limit_ms);
}

void bench_idling(Lab& lab) {
  ::sleep(5);  // what the repairs left to do
  const pid_t pid = lab.agent().pid();
  const double before = busy_ms(pid);
  const auto begin = Clock::now();
  ::sleep(static_cast<unsigned>(idling.count()));
  const double busy = busy_ms(pid) - before;
  report("idle, of a core over 30 s", 100 * busy / Milliseconds(Clock::now() - begin).count(), "%", idle_limit_percent);
  report("resident memory", memory_mib(pid, "VmRSS"), "MiB", memory_limit_mib);
  report("  at its highest", memory_mib(pid, "VmHWM"), "MiB", memory_limit_mib);
}

// As an operator waits for it, process start and table included.
void bench_command(Lab& lab, const std::string& command) {
  std::vector<double> waited;
  for (int turn = 0; turn < repairs; ++turn) {
    const auto begin = Clock::now();
    const Outcome shown =
        must(lab.node().run({PODUPLINKCTL, command, "--pin-dir", lab.pin_dir(), "--run-dir", lab.run_dir()}));
    waited.push_back(Milliseconds(Clock::now() - begin).count());
    if (shown.out.empty()) throw std::runtime_error(shown.text());
  }
  report(("poduplinkctl " + command + ", median").c_str(), median(waited), "ms", command_limit_ms);
}

void bench_all(Lab& lab, unsigned attachments, pdl_mode mode) {
  must(lab.start_agent());
  Node node(lab);
  const auto begin = Clock::now();
  for (unsigned number = 0; number < attachments; ++number) node.add(lab, number, mode);
  const std::size_t entries = must(must(lab.tables()).pods.entries()).size();
  std::printf("%u attachments, %zu entries, made in %.0f s beside a running agent\n", attachments, entries,
              Milliseconds(Clock::now() - begin).count() / 1000);
  bench_starts(lab);
  bench_repairs(lab);
  bench_scrapes(lab);
  bench_idling(lab);
  for (const char* command : {"pods", "status"}) bench_command(lab, command);
}

void bench(unsigned attachments, pdl_mode mode) {
  auto lab = must(Lab::create({.name = "bench", .uplinks = uplinks}));
  std::string fault;
  try {
    bench_all(*lab, attachments, mode);
  } catch (const std::exception& error) {
    fault = error.what();
  }
  // Nothing is taken down pod by pod: everything ends with the namespaces of this process.
  must(lab->release());
  if (!fault.empty()) throw std::runtime_error(fault);
}

}  // namespace
}  // namespace poduplink::harness

int main(int argc, char** argv) {
  unsigned attachments = 5000;
  const std::string asked = argc > 1 ? argv[1] : "5000";
  const std::string mode = argc > 2 ? argv[2] : "fast";
  const auto [end, error] = std::from_chars(asked.data(), asked.data() + asked.size(), attachments);
  if (argc > 3 || error != std::errc() || end != asked.data() + asked.size() || attachments < 1 || attachments > 5000 ||
      (mode != "fast" && mode != "netfilter")) {
    std::fputs("usage: bench_agent [ATTACHMENTS [fast|netfilter]]   1 to 5000, the default; the limits are for 5000\n",
               stderr);
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  poduplink::harness::isolate(true);
  try {
    poduplink::harness::bench(attachments, mode == "fast" ? PDL_MODE_FAST : PDL_MODE_NETFILTER);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_agent: %s\n", failure.what());
    return 1;
  }
  return 0;
}
