// SPDX-License-Identifier: Apache-2.0
// Random packets with a structure: most are nearly right, and then some octets are changed. A packet is a function of
// seed, program and index alone, so that any one can be made again.
#pragma once

#include <cstdint>

#include "tests/bpf/fuzz_world.h"

namespace poduplink::tests {

// splitmix64: one multiplication a number, good enough for choosing.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(next() % limit); }
  bool one_in(std::size_t number) { return below(number) == 0; }
  template <typename Range>
  auto pick(const Range& range) {
    return *(std::begin(range) + static_cast<std::ptrdiff_t>(below(std::size(range))));
  }
  template <typename T>
  T pick(std::initializer_list<T> list) {
    return *(list.begin() + below(list.size()));
  }

 private:
  std::uint64_t state_;
};

class PacketMaker {
 public:
  explicit PacketMaker(const oracle::State& state);
  [[nodiscard]] Input make(std::uint64_t seed, Program program, std::uint64_t index) const;

 private:
  oracle::State state_;
  Pool v4_, v6_;
};

}  // namespace poduplink::tests
