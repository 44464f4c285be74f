// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/isolate.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "loader/base/file.h"
#include "tests/harness/lab.h"

namespace poduplink::harness {
namespace {

[[noreturn]] void refuse(const char* step, bool required) {
  const std::string reason = errno_text(errno);
  std::cerr << (required ? "error" : "skipped") << ": " << step << ": " << reason
            << " (root with CAP_SYS_ADMIN is needed)\n";
  std::exit(required ? 1 : skipped);
}

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

volatile sig_atomic_t waited_for = 0;

void hand_on(int signal) { kill(waited_for, signal); }

// Waits for one child and ends with its code. Orphans of the namespace are reaped on the way. Who ends this process
// politely means the child, which says in which test it was.
[[noreturn]] void wait_and_exit(pid_t child) {
  waited_for = child;
  struct sigaction action{};
  action.sa_handler = hand_on;
  sigaction(SIGTERM, &action, nullptr);
  for (;;) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (ended == child) _exit(exit_code(status));
    if (ended < 0 && errno != EINTR) _exit(1);
  }
}

bool prepare_mounts() {
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0 &&
         mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") == 0;
}

}  // namespace

void isolate(bool required) {
  if (geteuid() != 0) {
    errno = EPERM;
    refuse("not root", required);
  }
  // Found while the running program's path can be told: in a chroot it has none in another mount namespace.
  [[maybe_unused]] const std::string folder = program_folder();
  if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID) != 0) refuse("unshare", required);
  std::fflush(nullptr);
  const pid_t first = fork();
  if (first < 0) refuse("fork", required);
  if (first > 0) wait_and_exit(first);

  // The first process of the namespace: its death is everybody's. Signals that it has no handler for do not
  // reach it, so the program itself is its child, which aborts and faults like any other.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!prepare_mounts()) refuse("mount", required);
  const pid_t program = fork();
  if (program < 0) refuse("fork", required);
  if (program > 0) wait_and_exit(program);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

Result<std::string> other_processes() {
  PDL_TRY_ASSIGN(const std::vector<std::string> entries, list_directory("/proc"));
  std::string found;
  for (const std::string& entry : entries) {
    if (entry.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::strtol(entry.c_str(), nullptr, 10));
    if (pid == 1 || pid == getpid()) continue;
    const auto name = read_file("/proc/" + entry + "/comm");
    if (name) found += (found.empty() ? "" : ", ") + entry + " " + name->substr(0, name->find('\n'));
  }
  return found;
}

}  // namespace poduplink::harness
