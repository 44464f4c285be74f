// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace poduplink {

// What has to be done again backwards when a later step fails. The destructor does it, the last step first,
// unless keep() was called. A step reports its own faults to the log: the first error is the one that counts.
class Undo {
 public:
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    while (!steps_.empty()) {
      const auto step = std::move(steps_.back());
      steps_.pop_back();
      step();
    }
  }

  void add(std::function<void()> step) { steps_.push_back(std::move(step)); }
  void keep() { steps_.clear(); }

 private:
  std::vector<std::function<void()>> steps_;
};

}  // namespace poduplink
