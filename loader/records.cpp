// SPDX-License-Identifier: Apache-2.0
#include "loader/records.h"

#include <cerrno>
#include <utility>

#include "loader/base/file.h"
#include "loader/base/log.h"
#include "maps/paths.h"

namespace poduplink {
namespace {

bool same_time(const timespec& one, const timespec& other) {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

}  // namespace

Result<bool> Records::refresh() {
  const std::string folder = records_dir(run_dir_);
  const auto other = stamp_.changed(folder);
  if (!other) {
    if (other.error().code != ENOENT) return Failure(other.error());
    return !std::exchange(files_, {}).empty();
  }
  if (!*other) return false;
  PDL_TRY_ASSIGN(const auto names, list_directory(folder));
  std::map<std::string, File> fresh;
  bool changed = false;
  for (const std::string& name : names) {
    if (!is_record_name(name)) continue;
    PDL_TRY_ASSIGN(const bool read, refresh_file(name, fresh));
    changed = changed || read;
  }
  // What is left there is gone or was replaced.
  changed = changed || !files_.empty();
  files_ = std::move(fresh);
  return changed;
}

// True where the file was read anew.
Result<bool> Records::refresh_file(const std::string& name, std::map<std::string, File>& fresh) {
  const std::string path = records_dir(run_dir_) + "/" + name;
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    return fail_errno(errno, "{}", path);
  }
  const auto old = files_.find(name);
  if (old != files_.end() && old->second.inode == status.st_ino && same_time(old->second.modified, status.st_mtim)) {
    fresh.insert(files_.extract(old));
    return false;
  }
  File file{.inode = status.st_ino, .modified = status.st_mtim};
  if (auto record = read_record(path)) {
    file.record = std::move(*record);
    file.readable = true;
  } else {
    log_warning("{}: {}", path, record.error().message);
  }
  fresh.emplace(name, std::move(file));
  return true;
}

std::map<std::string, Records::FailedOpen> Records::failed_open() const {
  std::map<std::string, FailedOpen> by_reason;
  for (const auto& [name, file] : files_) {
    if (!file.readable || !file.record.external || file.record.external->failed_open.empty()) continue;
    FailedOpen& found = by_reason[file.record.external->failed_open];
    if (found.pods++ == 0) found.container_id = file.record.id.container_id;
  }
  return by_reason;
}

}  // namespace poduplink
