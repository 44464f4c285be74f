// SPDX-License-Identifier: Apache-2.0
#include "loader/pins.h"

#include <bpf/bpf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "loader/base/file.h"
#include "loader/base/log.h"
#include "maps/bpf.h"

namespace poduplink {
namespace {

std::string temporary_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return path.substr(0, slash + 1) + "new-" + path.substr(slash + 1);
}

Result<> rename_over(const std::string& from, const std::string& path) {
  if (::rename(from.c_str(), path.c_str()) == 0) return {};
  const int code = errno;
  if (const auto removed = remove_file(from); !removed) log_warning("{}", removed.error().message);
  return fail_errno(code, "renaming {} to {}", from, path);
}

}  // namespace

PinKind descriptor_kind(int fd) {
  std::array<char, 64> text{};
  const ssize_t size = ::readlink(formatted("/proc/self/fd/{}", fd).c_str(), text.data(), text.size());
  const std::string_view target(text.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
  if (target == "anon_inode:bpf-map") return PinKind::map;
  if (target == "anon_inode:bpf-prog") return PinKind::program;
  if (target == "anon_inode:bpf_link" || target == "anon_inode:bpf-link") return PinKind::link;
  return PinKind::other;
}

Result<PinKind> pin_kind(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return PinKind::absent;
    return fail_errno(errno, "{}", path);
  }
  if (S_ISDIR(status.st_mode)) return PinKind::folder;
  if (S_ISLNK(status.st_mode)) return PinKind::symlink;
  const auto fd = bpf::open_pinned(path);
  return fd ? descriptor_kind(fd->get()) : PinKind::other;
}

const char* pin_kind_name(PinKind kind) {
  switch (kind) {
    case PinKind::absent:
      return "nothing";
    case PinKind::map:
      return "a map";
    case PinKind::program:
      return "a program";
    case PinKind::link:
      return "a link";
    case PinKind::folder:
      return "a folder";
    case PinKind::symlink:
      return "a symlink";
    case PinKind::other:
      break;
  }
  return "something else";
}

Result<> replace_pin(int fd, const std::string& path) {
  const std::string temporary = temporary_name(path);
  PDL_TRY(remove_file(temporary));
  PDL_TRY(bpf::pin(fd, temporary));
  return rename_over(temporary, path);
}

Result<> replace_symlink(const std::string& target, const std::string& path) {
  const std::string temporary = temporary_name(path);
  PDL_TRY(remove_file(temporary));
  if (::symlink(target.c_str(), temporary.c_str()) != 0) return fail_errno(errno, "{}", temporary);
  return rename_over(temporary, path);
}

Result<> detach_link(int fd) {
  const int code = bpf_link_detach(fd);
  if (code < 0 && code != -ENOLINK) return fail_errno(-code, "detaching a link");
  return {};
}

}  // namespace poduplink
