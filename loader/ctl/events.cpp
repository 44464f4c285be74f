// SPDX-License-Identifier: Apache-2.0
#include <bpf/libbpf.h>

#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <span>

#include "loader/ctl/commands.h"
#include "loader/net/link.h"
#include "maps/paths.h"

namespace poduplink::ctl {
namespace {

constexpr int poll_ms = 500;

struct FreeRing {
  void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
};

// "2026-01-31T12:00:00.123Z" of a CLOCK_MONOTONIC time.
std::string wall_clock(std::uint64_t monotonic_ns) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto age =
      std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec) - std::chrono::nanoseconds(monotonic_ns);
  const auto when = std::chrono::time_point_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now() - std::chrono::duration_cast<std::chrono::system_clock::duration>(age));
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm broken_down{};
  ::gmtime_r(&seconds, &broken_down);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &broken_down);
  const auto ms = when.time_since_epoch().count() % 1000;
  return std::string(text, length) + formatted(".{:03}Z", ms);
}

class Reader {
 public:
  Reader(Netlink netlink, const std::function<bool(const Json&)>& each) : netlink_(std::move(netlink)), each_(&each) {}

  static int take(void* self, void* data, std::size_t size) {
    return static_cast<Reader*>(self)->take({static_cast<const std::uint8_t*>(data), size});
  }

  [[nodiscard]] bool go_on() const { return go_on_; }

 private:
  // A negative return ends the reading; what is left stays for the next time.
  int take(std::span<const std::uint8_t> octets) {
    pdl_event event{};
    if (octets.size() != sizeof(event)) return 0;
    std::memcpy(&event, octets.data(), sizeof(event));
    go_on_ = (*each_)(json_of(event));
    return go_on_ ? 0 : -ECANCELED;
  }

  Json json_of(const pdl_event& event) {
    const bool v4 = event.family == 4;
    const auto address = [&](const __u8(&octets)[16]) {
      if (event.family == 0) return Json(nullptr);
      return Json((v4 ? IpAddress::v4(std::span<const std::uint8_t, 4>(octets, 4))
                      : IpAddress::v6(std::span<const std::uint8_t, 16>(octets)))
                      .text());
    };
    return {{"time", wall_clock(event.time_ns)},
            {"verdict", verdict_name(event.verdict)},
            {"interface", interface_name(event.ifindex)},
            {"ifindex", event.ifindex},
            {"source", address(event.src)},
            {"sourcePort", event.sport},
            {"destination", address(event.dst)},
            {"destinationPort", event.dport},
            {"protocol", event.protocol},
            {"length", event.length},
            {"meaning", verdict_text(event.verdict)}};
  }

  // As it is called now; one that is gone keeps its index.
  std::string interface_name(std::uint32_t index) {
    const auto [place, fresh] = names_.try_emplace(index);
    if (fresh) {
      const auto link = find_link(netlink_, static_cast<int>(index));
      place->second = link ? link->name : "if" + std::to_string(index);
    }
    return place->second;
  }

  Netlink netlink_;
  const std::function<bool(const Json&)>* each_;
  std::map<std::uint32_t, std::string> names_;
  bool go_on_ = true;
};

std::string end_text(const Json& address, const Json& port) {
  if (address.is_null()) return "?";
  std::string text = address.get<std::string>();
  if (port.get<unsigned>() == 0) return text;
  return text.contains(':') ? formatted("[{}]:{}", text, port.get<unsigned>())
                            : formatted("{}:{}", text, port.get<unsigned>());
}

}  // namespace

Result<> read_events(const Settings& settings, bool follow, const std::function<bool(const Json&)>& each) {
  PDL_TRY_ASSIGN(const Tables tables, open_current_tables(settings.pin_dir));
  PDL_TRY_ASSIGN(const Fd map, bpf::open_pinned(map_pin(tables.folder, "events")));
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open());
  Reader reader(std::move(netlink), each);
  const std::unique_ptr<ring_buffer, FreeRing> ring(ring_buffer__new(map.get(), &Reader::take, &reader, nullptr));
  if (!ring) return fail_errno(errno, "map events");
  int read = ring_buffer__consume(ring.get());
  while (follow && reader.go_on() && (read >= 0 || read == -EINTR)) read = ring_buffer__poll(ring.get(), poll_ms);
  if (read < 0 && reader.go_on()) return fail_errno(-read, "map events");
  return {};
}

std::string event_line(const Json& event) {
  return formatted("{} {} on {}: {} > {}, protocol {}, {} octets ({})", event["time"].get<std::string>(),
                   event["verdict"].get<std::string>(), event["interface"].get<std::string>(),
                   end_text(event["source"], event["sourcePort"]),
                   end_text(event["destination"], event["destinationPort"]), event["protocol"].get<unsigned>(),
                   event["length"].get<unsigned>(), event["meaning"].get<std::string>());
}

}  // namespace poduplink::ctl
