// SPDX-License-Identifier: Apache-2.0
#include "loader/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "loader/base/fd.h"

namespace poduplink {

Result<std::string> read_all(int fd, std::size_t limit) {
  std::string text;
  std::array<char, 16384> chunk;  // not initialised: read says how much of it there is
  for (;;) {
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got == 0) return text;
    if (got < 0) {
      if (errno == EINTR) continue;
      return fail_errno(errno, "read");
    }
    if (text.size() + static_cast<std::size_t>(got) > limit) {
      return fail_errno(EFBIG, "more than {} octets", limit);
    }
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  PDL_TRY_ASSIGN(const Fd fd, open_file(path, O_RDONLY));
  auto text = read_all(fd.get(), limit);
  if (!text) return fail_within(std::move(text.error()), path);
  return text;
}

Result<> write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return fail_errno(errno, "write");
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

namespace {

constexpr std::string_view draft_suffix = ".XXXXXX";  // of mkostemp

}  // namespace

Result<StagedFile> StagedFile::write(const std::string& path, std::string_view text, unsigned mode) {
  std::string temporary = path + std::string(draft_suffix);
  const Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return fail_errno(errno, "{}", temporary);
  StagedFile staged(path, std::move(temporary));
  PDL_TRY(staged.fill(fd.get(), text, mode));
  return staged;
}

Result<StagedFile> StagedFile::write_as(const std::string& temporary, const std::string& path, std::string_view text,
                                        unsigned mode) {
  PDL_TRY_ASSIGN(const Fd fd, open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC, mode));
  StagedFile staged(path, temporary);
  PDL_TRY(staged.fill(fd.get(), text, mode));
  return staged;
}

Result<> StagedFile::fill(int fd, std::string_view text, unsigned mode) const {
  if (auto written = write_all(fd, text); !written) return fail_within(std::move(written.error()), path_);
  if (::fchmod(fd, mode) != 0 || ::fsync(fd) != 0) return fail_errno(errno, "{}", path_);
  return {};
}

StagedFile::~StagedFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<> StagedFile::put_in_place() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail_errno(errno, "{}", path_);
  temporary_.clear();
  return {};
}

bool is_draft_of(std::string_view name, std::string_view target) {
  if (name.size() != target.size() + draft_suffix.size() || !name.starts_with(target)) return false;
  name.remove_prefix(target.size());
  return name.front() == '.' && std::ranges::all_of(name.substr(1), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

Result<> write_file_atomically(const std::string& path, std::string_view text, unsigned mode) {
  PDL_TRY_ASSIGN(StagedFile staged, StagedFile::write(path, text, mode));
  return staged.put_in_place();
}

Result<> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "{}", path);
  return {};
}

Result<> make_directories(const std::string& path, unsigned mode) {
  // Mostly it is there, and mostly those above it are.
  if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return {};
  if (errno != ENOENT) return fail_errno(errno, "{}", path);
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (!part.empty() && ::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) return fail_errno(errno, "{}", part);
    if (end == std::string::npos) return {};
  }
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
  if (!directory) return fail_errno(errno, "{}", path);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const std::string name = static_cast<const char*>(entry->d_name);
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return fail_errno(errno, "{}", path);
  std::ranges::sort(names);
  return names;
}

}  // namespace poduplink
