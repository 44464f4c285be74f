// SPDX-License-Identifier: Apache-2.0
#include "loader/base/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace poduplink {

void Fd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<Fd> open_file(const std::string& path, int flags, unsigned mode) {
  Fd fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd) return fail_errno(errno, "{}", path);
  return fd;
}

}  // namespace poduplink
