// SPDX-License-Identifier: Apache-2.0
#include "loader/metrics/text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <sstream>
#include <utility>

#include "loader/base/file.h"

namespace poduplink {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

struct Label {
  const char* name;
  std::string_view value;
};

// The series of one name, in the making.
class Family {
 public:
  Family(const char* name, MetricType type, const char* help) {
    family_.name = name;
    family_.type = type;
    family_.help = help;
  }

  template <typename Number>
  Family& add(std::initializer_list<Label> labels, Number number) {
    ClientMetric& metric = family_.metric.emplace_back();
    for (const Label& label : labels) metric.label.push_back({label.name, utf8_or_escaped(label.value)});
    (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = static_cast<double>(number);
    return *this;
  }

  [[nodiscard]] MetricFamily take() { return std::move(family_); }

 private:
  MetricFamily family_;
};

Family counter(const char* name, const char* help) { return {name, MetricType::Counter, help}; }
Family gauge(const char* name, const char* help) { return {name, MetricType::Gauge, help}; }

double seconds_of(std::chrono::system_clock::time_point date) {
  return std::chrono::duration<double>(date.time_since_epoch()).count();
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

MetricFamily verdicts(const Reading& reading) {
  Family family = counter("poduplink_verdicts_total",
                          "Packets by what became of them; every packet that a program handles counts once there.");
  std::array<std::uint64_t, PDL_VERDICT_COUNT> counts{};
  static_assert(sizeof(counts) == sizeof(reading.verdicts));
  std::memcpy(counts.data(), &reading.verdicts, sizeof(counts));
  for (unsigned verdict = 0; verdict < PDL_VERDICT_COUNT; ++verdict) {
    family.add({{"program", verdict_program(verdict)},
                {"verdict", verdict_name(verdict)},
                {"outcome", verdict_outcome(verdict)}},
               counts.at(verdict));
  }
  return family.take();
}

void add_uplinks(std::vector<MetricFamily>& families, const Reading& reading) {
  Family up = gauge("poduplink_uplink_up", "1 where the interface can carry traffic; 0: down, missing or refused.");
  for (const auto& [key, is_up] : reading.uplinks_up) up.add({{"uplink", key.first}, {"role", key.second}}, is_up);
  families.push_back(up.take());

  const struct {
    const char* name;
    const char* help;
    __u64 pdl_uplink_stats::* count;
  } counts[] = {
      {"poduplink_uplink_transmit_packets_total", "Packets of its own pods that left by the uplink.",
       &pdl_uplink_stats::out_packets},
      {"poduplink_uplink_transmit_bytes_total", "Octets of its own pods' frames that left by the uplink.",
       &pdl_uplink_stats::out_bytes},
      {"poduplink_uplink_receive_packets_total", "Packets for pods that arrived on the uplink.",
       &pdl_uplink_stats::in_packets},
      {"poduplink_uplink_receive_bytes_total", "Octets of frames for pods that arrived on the uplink.",
       &pdl_uplink_stats::in_bytes},
  };
  for (const auto& one : counts) {
    Family family = counter(one.name, one.help);
    for (const auto& [name, stats] : reading.traffic) family.add({{"uplink", name}}, stats.*one.count);
    families.push_back(family.take());
  }

  Family redirects = counter("poduplink_uplink_redirects_total",
                             "Packets that a program sent on itself: out (from a pod's veth), late (from another "
                             "interface's egress), in (from the uplink into a pod).");
  for (const auto& [name, stats] : reading.traffic) {
    redirects.add({{"uplink", name}, {"path", "out"}}, stats.out_redirects);
    redirects.add({{"uplink", name}, {"path", "late"}}, stats.late_redirects);
    redirects.add({{"uplink", name}, {"path", "in"}}, stats.in_redirects);
  }
  families.push_back(redirects.take());

  Family attachments = gauge("poduplink_attachments",
                             "Attachments with an address homed on the uplink; none: on no uplink that exists.");
  for (const auto& [name, count] : reading.attachments) attachments.add({{"uplink", name}}, count);
  families.push_back(attachments.take());

  Family failed_open = gauge("poduplink_failed_open_attachments",
                             "Pods that run without their external network, because failOpen let them.");
  failed_open.add({}, reading.failed_open);
  families.push_back(failed_open.take());

  Family silent = gauge("poduplink_silent_gateways", "Gateways of pods on the uplink that do not answer.");
  for (const auto& [name, count] : reading.silent_gateways) silent.add({{"uplink", name}}, count);
  families.push_back(silent.take());
}

void add_maps(std::vector<MetricFamily>& families, const Reading& reading) {
  Family entries = gauge("poduplink_map_entries", "Entries in a map.");
  Family sizes = gauge("poduplink_map_max_entries", "Entries that a map has room for.");
  for (const Fill& fill : reading.fills) {
    entries.add({{"map", fill.map}}, fill.entries);
    sizes.add({{"map", fill.map}}, fill.size);
  }
  families.push_back(entries.take());
  families.push_back(sizes.take());
}

MetricFamily repairs(const Repairs& repairs) {
  const std::pair<const char*, std::uint64_t> counts[] = {
      {"pod_entry_made", repairs.pod_entries_made},
      {"pod_entry_changed", repairs.pod_entries_changed},
      {"pod_entry_erased", repairs.pod_entries_erased},
      {"map_entry", repairs.map_entries},
      {"pin", repairs.pins},
      {"uplink_program", repairs.uplink_programs},
      {"pod_program", repairs.pod_programs},
      {"proxy_neighbour", repairs.proxy_neighbours},
  };
  Family family = counter("poduplink_repairs_total", "What was not as it should have been and was put right.");
  for (const auto& [kind, count] : counts) family.add({{"kind", kind}}, count);
  return family.take();
}

void add_agent(std::vector<MetricFamily>& families, const Reading& reading) {
  const Figures& figures = reading.figures;
  families.push_back(gauge("poduplink_build_info", "1; the build that runs and the ABI of its maps.")
                         .add({{"version", reading.version}, {"abi", std::to_string(PDL_ABI_VERSION)}}, 1)
                         .take());
  families.push_back(
      gauge("poduplink_agent_ready", "1 while pods can be added and are steered.").add({}, reading.ready).take());
  families.push_back(gauge("poduplink_agent_warnings", "Warnings in agent.json.").add({}, reading.warnings).take());
  families.push_back(
      counter("poduplink_reconciliations_total",
              "Comparisons of everything with what it should be; failed: something could not be put right.")
          .add({{"result", "done"}}, figures.reconciliations_done)
          .add({{"result", "failed"}}, figures.reconciliations_failed)
          .take());
  families.push_back(gauge("poduplink_last_reconciliation_duration_seconds", "How long the last reconciliation took.")
                         .add({}, std::chrono::duration<double>(figures.reconciliation_took).count())
                         .take());
  families.push_back(gauge("poduplink_last_reconciliation_timestamp_seconds",
                           "When the last reconciliation ended; 0 before the first.")
                         .add({}, seconds_of(figures.reconciled_date))
                         .take());
  families.push_back(repairs(figures.repairs));
  families.push_back(counter("poduplink_netlink_resyncs_total",
                             "Times the kernel's state was read anew: events_lost (the socket overflowed), "
                             "dump_interrupted (a list changed while it was read).")
                         .add({{"reason", "events_lost"}}, reading.events_lost)
                         .add({{"reason", "dump_interrupted"}}, reading.dumps_interrupted)
                         .take());
  families.push_back(counter("poduplink_config_reloads_total", "Changed or asked-for configurations that were read.")
                         .add({{"result", "done"}}, figures.reloads_done)
                         .add({{"result", "failed"}}, figures.reloads_failed)
                         .take());
  families.push_back(gauge("poduplink_config_in_force", "1 where the configuration file as it is now was taken over.")
                         .add({}, reading.config_in_force)
                         .take());
  families.push_back(gauge("poduplink_upgrade_copied_entries",
                           "Map entries that this agent copied from another version at its start; 0: there was none.")
                         .add({}, figures.entries_copied)
                         .take());
}

// Conventional names, so that common dashboards find them.
void add_process(std::vector<MetricFamily>& families, const Figures& figures) {
  families.push_back(
      gauge("process_start_time_seconds", "When the agent started.").add({}, seconds_of(figures.started)).take());
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  families.push_back(counter("process_cpu_seconds_total", "Time of the agent on a processor, in the kernel too.")
                         .add({}, seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime))
                         .take());
  // "size resident …", in pages.
  const auto statm = read_file("/proc/self/statm");
  const std::size_t space = statm ? statm->find(' ') : std::string::npos;
  std::uint64_t pages = 0;
  if (space == std::string::npos) return;
  std::from_chars(statm->data() + space + 1, statm->data() + statm->size(), pages);
  families.push_back(gauge("process_resident_memory_bytes", "Memory of the agent.")
                         .add({}, pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)))
                         .take());
}

// Octets of the UTF-8 sequence at the start of a text; 0 where there is none (RFC 3629).
std::size_t sequence_length(std::string_view text) {
  const auto octet = [&](std::size_t place) { return static_cast<unsigned char>(text[place]); };
  const unsigned char first = octet(0);
  if (first < 0x80) return 1;
  std::size_t length = 2;
  if (first >= 0xe0) length = 3;
  if (first >= 0xf0) length = 4;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t place = 1; place < length; ++place) {
    if ((octet(place) & 0xc0U) != 0x80U) return 0;
  }
  // Longer than needed, surrogates, beyond the last code point.
  const unsigned char second = octet(1);
  const bool refused = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                       (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return refused ? 0 : length;
}

}  // namespace

std::string utf8_or_escaped(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) {
      valid += formatted("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text.front())));
    } else {
      valid += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return valid;
}

std::string metrics_text(const Reading& reading) {
  std::vector<MetricFamily> families;
  families.push_back(verdicts(reading));
  add_uplinks(families, reading);
  add_maps(families, reading);
  add_agent(families, reading);
  add_process(families, reading.figures);
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(out).str();
}

}  // namespace poduplink
