// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "cni/spec/error.h"
#include "loader/base/log.h"
#include "loader/base/result.h"

namespace poduplink {

// Collects errors of steps that do not keep each other from being tried.
class FirstError {
 public:
  template <typename T>
  bool note(unsigned code, const Result<T>& result) {
    if (result) return true;
    keep(cni_error(code, result.error()));
    return false;
  }
  void keep(CniError error) {
    if (error_) {
      log_error("{}", error.msg);
    } else {
      error_ = std::move(error);
    }
  }
  [[nodiscard]] CniResult<> result() && {
    if (error_) return CniFailure(std::move(*error_));
    return {};
  }

 private:
  std::optional<CniError> error_;
};

}  // namespace poduplink
