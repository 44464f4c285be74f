// SPDX-License-Identifier: Apache-2.0
#include "loader/agent_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "loader/base/file.h"

namespace poduplink {

Result<Fd> take_agent_lock(const std::string& run_dir) {
  PDL_TRY(make_directories(run_dir));
  const std::string path = run_dir + "/agent.lock";
  PDL_TRY_ASSIGN(Fd fd, open_file(path, O_RDWR | O_CREAT, 0600));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail_errno(errno, "locking {}", path);
    const auto holder = read_all(fd.get(), 32);
    return Failure(Error{
        EAGAIN, formatted("another agent (process {}) runs with this --run-dir {}", holder ? *holder : "?", run_dir)});
  }
  if (::ftruncate(fd.get(), 0) != 0) return fail_errno(errno, "{}", path);
  PDL_TRY(write_all(fd.get(), std::to_string(::getpid())));
  return fd;
}

}  // namespace poduplink
