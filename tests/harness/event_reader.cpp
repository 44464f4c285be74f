// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/event_reader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <span>

#include "maps/paths.h"
#include "tests/harness/traffic.h"

namespace poduplink::harness {

struct EventReader::State {
  Fd map;
  ring_buffer* ring = nullptr;
  std::vector<pdl_event> events;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { ring_buffer__free(ring); }

  static int take(void* to, void* data, std::size_t size) {
    pdl_event event{};
    if (size != sizeof(event)) return -EINVAL;
    const char* octets = static_cast<const char*>(data);
    std::copy_n(octets, size, reinterpret_cast<char*>(&event));
    static_cast<State*>(to)->events.push_back(event);
    return 0;
  }
};

Result<EventReader> EventReader::open(const Lab& lab) {
  PDL_TRY_ASSIGN(const Tables tables, lab.tables());
  auto state = std::make_shared<State>();
  const std::string path = map_pin(tables.folder, "events");
  state->map.reset(bpf_obj_get(path.c_str()));
  if (!state->map) return fail_errno(errno, "{}", path);
  state->ring = ring_buffer__new(state->map.get(), State::take, state.get(), nullptr);
  if (state->ring == nullptr) return fail_errno(errno, "ring buffer {}", path);
  EventReader reader(std::move(state));
  reader.clear();
  return reader;
}

const std::vector<pdl_event>& EventReader::read() {
  ring_buffer__consume(state_->ring);
  return state_->events;
}

std::vector<pdl_event> EventReader::read(const std::function<bool(const pdl_event&)>& test) {
  std::vector<pdl_event> chosen;
  std::ranges::copy_if(read(), std::back_inserter(chosen), test);
  return chosen;
}

void EventReader::clear() {
  ring_buffer__consume(state_->ring);
  state_->events.clear();
}

namespace {

IpAddress address_in(const __u8 (&octets)[16], __u8 family) {
  const std::span all(octets);
  return family == 6 ? IpAddress::v6(all) : IpAddress::v4(all.first<4>());
}

}  // namespace

IpAddress source_of(const pdl_event& event) { return address_in(event.src, event.family); }

IpAddress destination_of(const pdl_event& event) { return address_in(event.dst, event.family); }

std::string text_of(const pdl_event& event) {
  return formatted("{} on {}: {} > {} protocol {}, {} octets", verdict_name(event.verdict), event.ifindex,
                   Endpoint{source_of(event), event.sport}.text(), Endpoint{destination_of(event), event.dport}.text(),
                   event.protocol, event.length);
}

}  // namespace poduplink::harness
