// SPDX-License-Identifier: Apache-2.0
// Network namespaces by path and descriptor. Only the calling thread ever changes its namespace.
#pragma once

#include <string>

#include "loader/base/fd.h"
#include "loader/base/result.h"

namespace poduplink {

// Opens a path that must be a network namespace. Errors: errno of open; EINVAL where it is a file or
// namespace of another kind.
Result<Fd> open_netns(const std::string& path);

// The calling thread's own.
Result<Fd> current_netns();

// Errors: errno of fstat.
Result<bool> same_netns(int one, int other);

// In another namespace while it lives; the destructor comes back and ends the program if it cannot, since
// going on in a foreign namespace would change somebody else's network.
class NetnsScope {
 public:
  static Result<NetnsScope> enter(int netns_fd);
  NetnsScope(NetnsScope&& other) noexcept = default;
  NetnsScope& operator=(NetnsScope&&) = delete;
  NetnsScope(const NetnsScope&) = delete;
  NetnsScope& operator=(const NetnsScope&) = delete;
  ~NetnsScope();

 private:
  explicit NetnsScope(Fd home) : home_(std::move(home)) {}
  Fd home_;
};

// A setting under /proc/sys/net of the calling thread's namespace, such as "ipv6/conf/eth0/accept_ra".
// Errors: ENOENT where the kernel or the interface lacks it.
Result<std::string> read_net_sysctl(const std::string& name);
Result<> write_net_sysctl(const std::string& name, const std::string& value);

}  // namespace poduplink
