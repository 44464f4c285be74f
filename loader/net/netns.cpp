// SPDX-License-Identifier: Apache-2.0
#include "loader/net/netns.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <cerrno>
#include <cstdlib>

#include "loader/base/file.h"
#include "loader/base/log.h"

namespace poduplink {

Result<Fd> open_netns(const std::string& path) {
  // A FIFO would block without O_NONBLOCK.
  PDL_TRY_ASSIGN(Fd fd, open_file(path, O_RDONLY | O_NONBLOCK));
  struct statfs status{};
  if (::fstatfs(fd.get(), &status) != 0) return fail_errno(errno, "{}", path);
  if (status.f_type != NSFS_MAGIC || ::ioctl(fd.get(), NS_GET_NSTYPE) != CLONE_NEWNET) {
    return fail_errno(EINVAL, "{} is no network namespace", path);
  }
  return fd;
}

Result<Fd> current_netns() {
  // Of the calling thread. /proc/thread-self/ns/net says the same, once the kernel has made up the folders of a process
  // and a thread that nobody has asked for yet: several times the work.
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Fd fd(socket ? ::ioctl(socket.get(), SIOCGSKNS) : -1);
  if (!fd) return fail_errno(errno, "the network namespace of a socket");
  return fd;
}

Result<bool> same_netns(int one, int other) {
  struct stat first{};
  struct stat second{};
  if (::fstat(one, &first) != 0 || ::fstat(other, &second) != 0) return fail_errno(errno, "fstat of a namespace");
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

Result<NetnsScope> NetnsScope::enter(int netns_fd) {
  PDL_TRY_ASSIGN(Fd home, current_netns());
  if (::setns(netns_fd, CLONE_NEWNET) != 0) return fail_errno(errno, "entering a network namespace");
  return NetnsScope(std::move(home));
}

NetnsScope::~NetnsScope() {
  if (!home_) return;
  if (::setns(home_.get(), CLONE_NEWNET) != 0) {
    log_error("cannot come back from another network namespace: {}", errno_text(errno));
    std::abort();
  }
}

namespace {

std::string sysctl_path(const std::string& name) { return "/proc/sys/net/" + name; }

}  // namespace

Result<std::string> read_net_sysctl(const std::string& name) {
  PDL_TRY_ASSIGN(std::string value, read_file(sysctl_path(name), 4096));
  while (!value.empty() && value.back() == '\n') value.pop_back();
  return value;
}

Result<> write_net_sysctl(const std::string& name, const std::string& value) {
  const std::string path = sysctl_path(name);
  PDL_TRY_ASSIGN(const Fd fd, open_file(path, O_WRONLY));
  auto written = write_all(fd.get(), value);
  if (!written) return fail_within(std::move(written.error()), path);
  return {};
}

}  // namespace poduplink
