// SPDX-License-Identifier: Apache-2.0
#include "cni/capabilities.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

namespace poduplink {

CniResult<> check_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) {
    return cni_fail(cni_code::datapath, "capget: {}", errno_text(errno));
  }
  struct Needed {
    unsigned number;
    const char* name;
  };
  // CAP_SYS_ADMIN: setns(2). It includes what CAP_BPF allows.
  constexpr std::array<Needed, 2> needed{{{CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}}};
  std::string missing;
  for (const auto& [number, name] : needed) {
    if ((sets[number / 32].effective & (1U << (number % 32))) != 0) continue;
    if (!missing.empty()) missing += ", ";
    missing += name;
  }
  if (missing.empty()) return {};
  return cni_fail(cni_code::datapath, "this process lacks capabilities: {}", missing);
}

}  // namespace poduplink
