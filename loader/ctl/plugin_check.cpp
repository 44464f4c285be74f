// SPDX-License-Identifier: Apache-2.0
#include "loader/ctl/plugin_check.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "loader/base/fd.h"
#include "loader/base/file.h"

namespace poduplink::ctl {
namespace {

constexpr int not_available = 50;  // of the CNI specification: 50 and 51 tell of the node, not of the configuration
constexpr int limited = 51;
constexpr std::size_t answer_limit = std::size_t{1} << 20;

// Files without a name, so that neither side ever waits for the other.
Result<Fd> file_in_memory(const std::string& text) {
  Fd fd(::memfd_create("poduplinkctl", MFD_CLOEXEC));
  if (!fd) return fail_errno(errno, "memfd_create");
  PDL_TRY(write_all(fd.get(), text));
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

struct Streams {
  posix_spawn_file_actions_t actions{};
  Streams(int input, int output) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() { posix_spawn_file_actions_destroy(&actions); }
};

// Its standard output, where it ended with an error; nothing where all is well.
Result<std::string> answer_of(const std::string& program, const std::string& input, const std::string& cni_path) {
  PDL_TRY_ASSIGN(const Fd in, file_in_memory(input));
  PDL_TRY_ASSIGN(const Fd out, file_in_memory(""));
  const Streams streams(in.get(), out.get());
  std::string path = program;
  std::string verb = "CNI_COMMAND=STATUS";
  std::string folders = "CNI_PATH=" + cni_path;
  const std::array<char*, 2> arguments{path.data(), nullptr};
  const std::array<char*, 3> environment{verb.data(), folders.data(), nullptr};
  pid_t child = 0;
  const int code = ::posix_spawn(&child, path.c_str(), &streams.actions, nullptr, arguments.data(), environment.data());
  if (code != 0) return fail_errno(code, "running {}", program);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return fail_errno(errno, "waiting for {}", program);
  }
  if (WIFSIGNALED(status)) return fail("{} died of signal {}", program, WTERMSIG(status));
  if (WEXITSTATUS(status) == 0) return std::string();
  ::lseek(out.get(), 0, SEEK_SET);
  return read_all(out.get(), answer_limit);
}

}  // namespace

Result<> check_plugin_config(const std::string& program, const Json& config, const std::string& cni_path) {
  Json asked = config;
  asked["cniVersion"] = "1.1.0";  // older ones have no STATUS
  PDL_TRY_ASSIGN(const std::string answer, answer_of(program, asked.dump(), cni_path));
  if (answer.empty()) return {};
  const Json error = Json::parse(answer, nullptr, false);
  if (error.is_discarded() || !error.is_object()) return fail("{} answered with no error object", program);
  const int code = error.value("code", 0);
  if (code == not_available || code == limited) return {};
  std::string text = error.value("msg", "");
  if (const std::string details = error.value("details", ""); !details.empty()) text += ": " + details;
  return fail("{}", text);
}

}  // namespace poduplink::ctl
