// SPDX-License-Identifier: Apache-2.0
// Results in Catch2 tests: value_of(lab->add_pod("a")) is the pod, or fails the test with the error's text.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <string>
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
