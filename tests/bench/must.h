// SPDX-License-Identifier: Apache-2.0
// Results as a benchmark takes them: there is nothing to measure where a step failed.
#pragma once

#include <stdexcept>
#include <type_traits>
#include <utility>

namespace poduplink::bench {

// The value of a Result or CniResult. Throws std::runtime_error with its message.
template <typename R>
auto must(R result) {
  if (!result) {
    if constexpr (requires { result.error().message; }) {
      throw std::runtime_error(result.error().message);
    } else {
      throw std::runtime_error(result.error().msg);
    }
  }
  if constexpr (!std::is_void_v<typename R::value_type>) return std::move(*result);
}

}  // namespace poduplink::bench
