// SPDX-License-Identifier: Apache-2.0
#include "maps/locks.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "loader/base/file.h"
#include "maps/attachment.h"
#include "maps/paths.h"

namespace poduplink {
namespace {

using Clock = std::chrono::steady_clock;

// Between two tries: short at first, since the global lock is held for microseconds; then longer, so that a hundred
// that wait do not take the processor from the one that holds it.
constexpr auto first_pause = std::chrono::milliseconds(1);
constexpr auto longest_pause = std::chrono::milliseconds(16);

// off_t is signed, and a lock of length 1 at its last value would overflow.
constexpr std::uint64_t offset_mask = (std::uint64_t{1} << 62U) - 1;

Result<Fd> open_lock_file(const std::string& run_dir, const std::string& path) {
  constexpr int flags = O_RDWR | O_CREAT;
  auto fd = open_file(path, flags, 0600);
  if (fd || fd.error().code != ENOENT) return fd;
  PDL_TRY(make_directories(run_dir));
  return open_file(path, flags, 0600);
}

// Calls `try_once` until it takes the lock. It returns 0, or the errno for which it could not.
template <typename Try>
Result<> take_within(std::chrono::milliseconds patience, const std::string& path, Try try_once) {
  const auto deadline = Clock::now() + patience;
  for (auto pause = first_pause;; pause = std::min(2 * pause, longest_pause)) {
    const int code = try_once();
    if (code == 0) return {};
    if (code == EINTR) continue;
    if (code != EAGAIN && code != EACCES) return fail_errno(code, "locking {}", path);
    if (Clock::now() >= deadline) return fail_errno(EAGAIN, "{} was not free within {} ms", path, patience.count());
    std::this_thread::sleep_for(pause);
  }
}

int try_octet(int fd, std::uint64_t hash) {
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(hash & offset_mask);
  range.l_len = 1;
  return ::fcntl(fd, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

}  // namespace

Result<> flock_within(int fd, const std::string& path, std::chrono::milliseconds patience) {
  return take_within(patience, path, [&] { return ::flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; });
}

Result<GlobalLock> GlobalLock::take(const std::string& run_dir, std::chrono::milliseconds patience) {
  const std::string path = global_lock_path(run_dir);
  PDL_TRY_ASSIGN(Fd fd, open_lock_file(run_dir, path));
  PDL_TRY(flock_within(fd.get(), path, patience));
  return GlobalLock(std::move(fd));
}

Result<AttachmentLock> AttachmentLock::take(const std::string& run_dir, std::uint64_t hash,
                                            std::chrono::milliseconds patience) {
  const std::string path = attachments_lock_path(run_dir);
  PDL_TRY_ASSIGN(Fd fd, open_lock_file(run_dir, path));
  PDL_TRY(
      take_within(patience, formatted("{} at {}", path, hash_text(hash)), [&] { return try_octet(fd.get(), hash); }));
  return AttachmentLock(std::move(fd));
}

Result<std::optional<AttachmentLock>> AttachmentLock::try_take(const std::string& run_dir, std::uint64_t hash) {
  auto lock = take(run_dir, hash, std::chrono::milliseconds(0));
  if (lock) return std::optional(std::move(*lock));
  if (lock.error().code == EAGAIN) return std::optional<AttachmentLock>();
  return Failure(std::move(lock.error()));
}

}  // namespace poduplink
