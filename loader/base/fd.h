// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "loader/base/result.h"

namespace poduplink {

// Owns one file descriptor. Whoever makes one gives it close-on-exec from birth: a descriptor that a child
// inherits keeps locks and namespaces alive.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  explicit operator bool() const noexcept { return valid(); }

  [[nodiscard]] int release() noexcept {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

// open(2) with O_CLOEXEC added. Errors: errno of open, with the path.
Result<Fd> open_file(const std::string& path, int flags, unsigned mode = 0);

}  // namespace poduplink
