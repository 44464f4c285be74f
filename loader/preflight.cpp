// SPDX-License-Identifier: Apache-2.0
#include "loader/preflight.h"

#include <bpf/btf.h>
#include <linux/capability.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <memory>

#include "loader/base/file.h"
#include "loader/base/log.h"
#include "loader/net/netns.h"
#include "maps/bpf.h"

namespace poduplink {
namespace {

constexpr const char* conntrack_function = "bpf_skb_ct_lookup";
constexpr const char* conntrack_module = "nf_conntrack";

// Not in Debian 12's oldest headers under every name.
constexpr unsigned cap_perfmon = 38;
constexpr unsigned cap_bpf = 39;

struct FreeBtf {
  void operator()(btf* one) const { btf__free(one); }
};
using Btf = std::unique_ptr<btf, FreeBtf>;

Result<std::uint64_t> effective_capabilities() {
  PDL_TRY_ASSIGN(const std::string text, read_file("/proc/thread-self/status"));
  constexpr std::string_view label = "CapEff:\t";
  const std::size_t place = text.find(label);
  std::uint64_t mask = 0;
  if (place == std::string::npos) return fail("/proc/thread-self/status has no CapEff");
  std::from_chars(text.data() + place + label.size(), text.data() + text.size(), mask, 16);
  return mask;
}

bool has_function(const btf* kernel) { return btf__find_by_name_kind(kernel, conntrack_function, BTF_KIND_FUNC) > 0; }

std::string modprobe_path() {
  for (const char* path : {"/usr/sbin/modprobe", "/sbin/modprobe", "/usr/bin/modprobe", "/bin/modprobe"}) {
    if (::access(path, X_OK) == 0) return path;
  }
  return {};
}

}  // namespace

Result<> check_capabilities() {
  PDL_TRY_ASSIGN(const std::uint64_t mask, effective_capabilities());
  const auto has = [&](unsigned capability) { return ((mask >> capability) & 1U) != 0; };
  std::string missing;
  const auto need = [&](bool held, const char* name) {
    if (!held) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  need(has(CAP_NET_ADMIN), "CAP_NET_ADMIN");
  need(has(CAP_SYS_ADMIN) || has(cap_bpf), "CAP_BPF");
  need(has(CAP_SYS_ADMIN) || has(cap_perfmon), "CAP_PERFMON");
  if (!missing.empty()) return fail_errno(EPERM, "missing capabilities: {}", missing);
  return {};
}

Result<> check_pin_dir(const std::string& pin_dir) {
  if (!pin_dir.starts_with('/')) return fail("--pin-dir '{}' is no absolute path", pin_dir);
  std::string folder = pin_dir;
  struct stat status{};
  while (folder != "/" && ::stat(folder.c_str(), &status) != 0) {
    if (errno != ENOENT) return fail_errno(errno, "--pin-dir {}", folder);
    folder.resize(folder.rfind('/'));
    if (folder.empty()) folder = "/";
  }
  PDL_TRY_ASSIGN(const bool fits, bpf::is_bpffs(folder));
  if (!fits)
    return fail("--pin-dir {} is not on a bpffs ({} is another file system); mount one: mount -t bpf bpf /sys/fs/bpf",
                pin_dir, folder);
  return {};
}

// The sysctl is there in every namespace while connection tracking is loaded, its module's BTF or not.
bool connection_tracking_is_present() {
  if (read_net_sysctl("netfilter/nf_conntrack_max")) return true;
  const auto modules = read_file("/proc/modules");
  return modules && ("\n" + *modules).find("\n" + std::string(conntrack_module) + " ") != std::string::npos;
}

void load_conntrack_module() {
  if (connection_tracking_is_present()) return;
  std::string path = modprobe_path();
  if (path.empty()) return;
  std::string quiet = "-q";
  std::string module = conntrack_module;
  std::array<char*, 4> arguments{path.data(), quiet.data(), module.data(), nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, path.c_str(), nullptr, nullptr, arguments.data(), environ) != 0) return;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  log_debug("{} {} ended with {}", path, module, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

Result<bool> conntrack_can_be_asked() {
  const Btf kernel(btf__load_vmlinux_btf());
  if (!kernel) return fail_errno(errno, "type information of the kernel (CONFIG_DEBUG_INFO_BTF)");
  if (has_function(kernel.get())) return true;
  const Btf module(btf__load_module_btf(conntrack_module, kernel.get()));
  if (module && has_function(module.get())) return true;
  if (connection_tracking_is_present())
    return fail(
        "connection tracking is loaded, but cannot be asked: {} is in the type information of neither the "
        "kernel nor the module {}",
        conntrack_function, conntrack_module);
  return false;
}

}  // namespace poduplink
