// SPDX-License-Identifier: Apache-2.0
#include "loader/folder_stamp.h"

#include <cerrno>
#include <ctime>
#include <utility>

namespace poduplink {
namespace {

bool same_folder(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino && one.st_mtim.tv_sec == other.st_mtim.tv_sec &&
         one.st_mtim.tv_nsec == other.st_mtim.tv_nsec;
}

// Time stamps of files are as coarse as the kernel's tick, 10 ms at most: two changes in one cannot be told apart.
bool is_old(const timespec& modified) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto in_ms = [](const timespec& time) { return (time.tv_sec * 1000) + (time.tv_nsec / 1000000); };
  return in_ms(now) - in_ms(modified) > 100;
}

}  // namespace

Result<bool> FolderStamp::changed(const std::string& folder) {
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0) {
    settled_ = false;
    return fail_errno(errno, "{}", folder);
  }
  if (settled_ && same_folder(seen_, status)) return false;
  seen_ = status;
  settled_ = is_old(status.st_mtim);
  return true;
}

}  // namespace poduplink
