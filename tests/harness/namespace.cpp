// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/namespace.h"

#include <fcntl.h>

#include <algorithm>

#include "loader/base/file.h"
#include "loader/net/netns.h"

namespace poduplink::harness {

Result<Namespace> Namespace::create(const std::string& name) {
  PDL_TRY(harness::run_ok({.argv = {"ip", "netns", "add", name}}));
  auto made = open(name);
  if (!made) return made;
  Result<> ready = made->ip("link set lo up");
  // Both are needed: the kernel takes the greater of the two for an interface. `default` is copied into each new one.
  if (ready) ready = made->sysctl({"net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0"});
  if (!ready) {
    if (const auto gone = made->remove(); !gone) return fail("{}; {}", ready.error().message, gone.error().message);
    return Failure(std::move(ready.error()));
  }
  return made;
}

Result<Namespace> Namespace::open(const std::string& name) {
  Namespace result;
  result.name_ = name;
  PDL_TRY_ASSIGN(result.fd_, open_netns(result.path()));
  return result;
}

Result<> Namespace::remove() {
  fd_.reset();
  PDL_TRY(harness::run_ok({.argv = {"ip", "netns", "delete", name_}}));
  return {};
}

Result<Outcome> Namespace::run(std::vector<std::string> argv, std::string input) const {
  return harness::run({.argv = std::move(argv), .input = std::move(input), .netns_fd = fd_.get()});
}

Result<std::string> Namespace::run_ok(std::vector<std::string> argv, std::string input) const {
  auto output = harness::run_ok({.argv = std::move(argv), .input = std::move(input), .netns_fd = fd_.get()});
  if (!output) return fail_within(std::move(output.error()), "in " + name_);
  return output;
}

Result<> Namespace::ip(std::string_view lines) const {
  PDL_TRY(run_ok({"ip", "-batch", "-"}, std::string(lines) + "\n"));
  return {};
}

Result<> Namespace::sysctl(const std::vector<std::string>& settings) const {
  PDL_TRY_ASSIGN(const NetnsScope inside, NetnsScope::enter(fd_.get()));
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || !setting.starts_with("net")) return fail("sysctl '{}'", setting);
    std::string name = setting.substr(4, equals - 4);
    if (name.find('/') == std::string::npos) std::ranges::replace(name, '.', '/');
    PDL_TRY(write_net_sysctl(name, setting.substr(equals + 1)));
  }
  return {};
}

Result<> Namespace::nft(std::string_view rules) const {
  PDL_TRY(run_ok({"nft", "-f", "-"}, std::string(rules)));
  return {};
}

}  // namespace poduplink::harness
