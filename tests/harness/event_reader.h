// SPDX-License-Identifier: Apache-2.0
// The drops that the datapath tells of, read from the pinned ring buffer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "maps/abi.h"
#include "tests/harness/lab.h"

struct ring_buffer;

namespace poduplink::harness {

class EventReader {
 public:
  // What was told before and read by nobody is left out. One reader a lab: each event is read once.
  static Result<EventReader> open(const Lab& lab);

  // All events since it was opened or cleared, in order. They are there when the packet's drop is counted.
  const std::vector<pdl_event>& read();
  std::vector<pdl_event> read(const std::function<bool(const pdl_event&)>& test);
  void clear();

 private:
  struct State;
  explicit EventReader(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

IpAddress source_of(const pdl_event& event);
IpAddress destination_of(const pdl_event& event);
// One line, for messages and comparisons: "uplink_down on 7: 10.2.1.1:5000 > 198.51.100.10:7 protocol 17, 60 octets".
std::string text_of(const pdl_event& event);

}  // namespace poduplink::harness
