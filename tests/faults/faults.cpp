// SPDX-License-Identifier: Apache-2.0
// The test build of the plugin: its own objects, with the calls of tests/faults/calls.txt led through here (the
// linker's --wrap), numbered, and one of them made to fail or to be the last one. Never shipped; what is shipped
// contains none of it.
//   PDL_FAULT_LOG=FILE   appends a line for every step: "change NAME" or "look NAME"
//   PDL_FAULT_AT=N       the step, counted from 0
//   PDL_FAULT_HOW=fail   the call is not made and fails
//   PDL_FAULT_HOW=kill   SIGKILL before the call
#include <dirent.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/rtnetlink.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

// The linker's names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
int __real_nl_send(nl_sock* socket, nl_msg* message);
int __real_nl_connect(nl_sock* socket, int protocol);
int __real_socket(int domain, int type, int protocol);
int __real_open(const char* path, int flags, mode_t mode);
ssize_t __real_write(int fd, const void* data, size_t size);
int __real_mkdir(const char* path, mode_t mode);
int __real_mkostemp(char* path, int flags);
int __real_fchmod(int fd, mode_t mode);
int __real_fsync(int fd);
int __real_rename(const char* from, const char* to);
int __real_unlink(const char* path);
DIR* __real_opendir(const char* path);
int __real_setns(int fd, int type);
int __real_flock(int fd, int operation);
int __real_fcntl(int fd, int command, long argument);
int __real_pipe2(int* ends, int flags);
ssize_t __real_getrandom(void* data, size_t size, unsigned flags);
pid_t __real_clone(int (*start)(void*), void* stack, int flags, void* argument, int* pidfd);
pid_t __real_waitpid(pid_t pid, int* status, int options);
}

namespace {

enum class Kind { change, look };

struct Plan {
  long at = -1;
  bool kill = false;
  int log = -1;
  long count = 0;

  Plan() {
    if (const char* number = std::getenv("PDL_FAULT_AT")) at = std::strtol(number, nullptr, 10);
    const char* how = std::getenv("PDL_FAULT_HOW");
    kill = how != nullptr && std::strcmp(how, "kill") == 0;
    const char* path = std::getenv("PDL_FAULT_LOG");
    if (path != nullptr) log = __real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
};

Plan& plan() {
  static Plan made;
  return made;
}

// True: the call has to fail.
bool must_fail(Kind kind, const std::string& name) {
  Plan& now = plan();
  if (now.log >= 0) {
    const std::string line = (kind == Kind::change ? "change " : "look ") + name + "\n";
    (void)!__real_write(now.log, line.data(), line.size());
  }
  if (now.count++ != now.at) return false;
  if (now.kill) (void)::kill(::getpid(), SIGKILL);
  return !now.kill;
}

int failed(int code = EIO) {
  errno = code;
  return -1;
}

std::string bpf_name(long command, Kind& kind) {
  switch (command) {
    case BPF_MAP_UPDATE_ELEM:
    case BPF_MAP_DELETE_ELEM:
    case BPF_OBJ_PIN:
    case BPF_LINK_CREATE:
    case BPF_LINK_UPDATE:
    case BPF_PROG_TEST_RUN:  // sends an announcement
      kind = Kind::change;
      break;
    default:
      kind = Kind::look;
  }
  return "bpf " + std::to_string(command);
}

}  // namespace

extern "C" {

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  Kind kind = Kind::look;
  const std::string name = number == SYS_bpf ? bpf_name(a, kind) : "syscall " + std::to_string(number);
  return must_fail(kind, name) ? failed() : __real_syscall(number, a, b, c, d, e, f);
}

int __wrap_nl_send(nl_sock* socket, nl_msg* message) {
  const int type = nlmsg_hdr(message)->nlmsg_type;
  const Kind kind = (type - RTM_BASE) % 4 == 2 ? Kind::look : Kind::change;
  return must_fail(kind, "netlink " + std::to_string(type)) ? -NLE_NOMEM : __real_nl_send(socket, message);
}

int __wrap_nl_connect(nl_sock* socket, int protocol) {
  return must_fail(Kind::look, "netlink socket") ? -NLE_NOMEM : __real_nl_connect(socket, protocol);
}

int __wrap_socket(int domain, int type, int protocol) {
  return must_fail(Kind::look, "socket") ? failed() : __real_socket(domain, type, protocol);
}

int __wrap_open(const char* path, int flags, mode_t mode) {
  const Kind kind = (flags & O_CREAT) != 0 ? Kind::change : Kind::look;
  return must_fail(kind, std::string("open ") + path) ? failed() : __real_open(path, flags, mode);
}

ssize_t __wrap_write(int fd, const void* data, size_t size) {
  // Nobody depends on what is logged.
  if (fd == STDERR_FILENO) return __real_write(fd, data, size);
  return must_fail(Kind::change, "write " + std::to_string(size)) ? failed(ENOSPC) : __real_write(fd, data, size);
}

int __wrap_mkdir(const char* path, mode_t mode) {
  return must_fail(Kind::change, std::string("mkdir ") + path) ? failed() : __real_mkdir(path, mode);
}

int __wrap_mkostemp(char* path, int flags) {
  return must_fail(Kind::change, std::string("mkostemp ") + path) ? failed() : __real_mkostemp(path, flags);
}

int __wrap_fchmod(int fd, mode_t mode) {
  return must_fail(Kind::change, "fchmod") ? failed() : __real_fchmod(fd, mode);
}

int __wrap_fsync(int fd) { return must_fail(Kind::change, "fsync") ? failed() : __real_fsync(fd); }

int __wrap_rename(const char* from, const char* to) {
  return must_fail(Kind::change, std::string("rename ") + to) ? failed() : __real_rename(from, to);
}

int __wrap_unlink(const char* path) {
  return must_fail(Kind::change, std::string("unlink ") + path) ? failed() : __real_unlink(path);
}

DIR* __wrap_opendir(const char* path) {
  if (!must_fail(Kind::look, std::string("opendir ") + path)) return __real_opendir(path);
  errno = EIO;
  return nullptr;
}

int __wrap_setns(int fd, int type) {
  // The plugin aborts where it cannot come back; only the way in can be made to fail.
  static bool inside = false;
  const bool fails = must_fail(Kind::look, inside ? "setns back" : "setns") && !inside;
  if (fails) return failed();
  inside = !inside;
  return __real_setns(fd, type);
}

int __wrap_flock(int fd, int operation) {
  return must_fail(Kind::look, "flock") ? failed() : __real_flock(fd, operation);
}

int __wrap_fcntl(int fd, int command, long argument) {
  const bool locks = command == F_OFD_SETLK;
  return locks && must_fail(Kind::look, "lock of an attachment") ? failed() : __real_fcntl(fd, command, argument);
}

int __wrap_pipe2(int* ends, int flags) { return must_fail(Kind::look, "pipe") ? failed() : __real_pipe2(ends, flags); }

ssize_t __wrap_getrandom(void* data, size_t size, unsigned flags) {
  return must_fail(Kind::look, "getrandom") ? failed() : __real_getrandom(data, size, flags);
}

pid_t __wrap_clone(int (*start)(void*), void* stack, int flags, void* argument, int* pidfd) {
  return must_fail(Kind::change, "clone") ? failed(EAGAIN) : __real_clone(start, stack, flags, argument, pidfd);
}

pid_t __wrap_waitpid(pid_t pid, int* status, int options) {
  // Of a child that there is it cannot fail: here a process can only be killed.
  (void)must_fail(Kind::change, "waitpid");
  return __real_waitpid(pid, status, options);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
