// SPDX-License-Identifier: Apache-2.0
// Results in Catch2 tests: value_of(lab->add_pod("a")) is the pod, or fails the test with the error's text.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/harness/lab.h"

namespace poduplink::harness {

template <typename T>
T value_of(Result<T> result) {
  if (!result) FAIL(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

inline std::string lines_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// Looks every 20 ms until it is so. False where it was not within `timeout`.
template <typename Test>
bool eventually(Test test, std::chrono::milliseconds timeout = std::chrono::seconds(5)) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!test()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// A lab whose agent is ready.
inline std::unique_ptr<Lab> lab_with_agent(LabOptions options = {}, const std::string& config = {}) {
  auto lab = value_of(Lab::create(std::move(options)));
  value_of(lab->start_agent(config));
  return lab;
}

}  // namespace poduplink::harness

// The lab is as clean as before the first pod; says what is not.
#define REQUIRE_CLEAN(lab) REQUIRE_THAT(::poduplink::harness::lines_of((lab).leftovers()), Catch::Matchers::Equals(""))
#define REQUIRE_CLOSED(lab) REQUIRE_THAT(::poduplink::harness::lines_of((lab).close()), Catch::Matchers::Equals(""))
