// SPDX-License-Identifier: Apache-2.0
// Named network namespaces, as `ip netns` makes them, and the commands that fill them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "tests/harness/process.h"

namespace poduplink::harness {

// A network namespace under /run/netns. The object owns a descriptor, not the name: remove() takes that away.
class Namespace {
 public:
  Namespace() = default;
  // Loopback is up, and IPv6 addresses are usable at once (no duplicate address detection).
  // Errors: EEXIST where the name is taken.
  static Result<Namespace> create(const std::string& name);
  // Errors: ENOENT.
  static Result<Namespace> open(const std::string& name);
  Result<> remove();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string path() const { return "/run/netns/" + name_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool valid() const { return fd_.valid(); }

  // Runs a program in here. Errors: it cannot be started.
  [[nodiscard]] Result<Outcome> run(std::vector<std::string> argv, std::string input = {}) const;
  // The same; an exit code other than 0 is an error too. Returns its output.
  [[nodiscard]] Result<std::string> run_ok(std::vector<std::string> argv, std::string input = {}) const;
  // One `ip` command a line: ip("address add 10.0.0.1/8 dev eth1"). Stops at the first that fails.
  [[nodiscard]] Result<> ip(std::string_view lines) const;
  // sysctl({"net.ipv4.ip_forward=1"}), with '/' for '.' where an interface name has dots.
  [[nodiscard]] Result<> sysctl(const std::vector<std::string>& settings) const;
  // Rules of nftables, as text.
  [[nodiscard]] Result<> nft(std::string_view rules) const;

 private:
  std::string name_;
  Fd fd_;
};

}  // namespace poduplink::harness
