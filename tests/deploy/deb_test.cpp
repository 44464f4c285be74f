// SPDX-License-Identifier: Apache-2.0
// The Debian package over its life, by dpkg and systemd: installed, upgraded under load, removed with pods and without,
// purged.
#include <algorithm>
#include <filesystem>
#include <set>

#include "loader/base/file.h"
#include "loader/base/version.h"
#include "tests/deploy/machine.h"
#include "tests/deploy/package.h"
#include "tests/e2e/agent_probe.h"
#include "tests/e2e/steps.h"
#include "tests/harness/outside.h"
#include "tests/harness/temporary_folder.h"
#include "tests/upgrade/stream.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

constexpr unsigned packets_a_second = 20'000;  // of each of two pods

// Made once for all tests.
struct Packages {
  tests::TemporaryFolder folder;
  std::string now = value_of(make_package(folder.path()));
  std::string next = value_of(make_next_package(now, folder.path()));
};
const Packages& packages() {
  static const Packages all;
  return all;
}

// A machine to install on, and what a package may change there.
struct Node {
  Node() : lab(value_of(Lab::create({.uplinks = 2}))), machine(value_of(Machine::boot(*lab))) {
    for (const auto& [from, to] :
         {std::pair(packages().now, "/root/now.deb"), std::pair(packages().next, "/root/next.deb")})
      fs::copy_file(from, machine->path(to), fs::copy_options::overwrite_existing);
    before = changed_files();
  }

  [[nodiscard]] Outcome dpkg(const std::string& options) const {
    return value_of(machine->run({"sh", "-c", "DEBIAN_FRONTEND=noninteractive dpkg " + options}));
  }
  // All that differs from the system beneath, but for what dpkg, systemd and their logs keep of everything.
  [[nodiscard]] std::set<std::string> changed_files() const {
    std::set<std::string> all;
    const std::string upper = machine->changes();
    for (const auto& entry : fs::recursive_directory_iterator(upper)) {
      const std::string path = entry.path().string().substr(upper.size());
      // A folder in which something was changed; and those of the runtime, which may watch them, stay.
      if (entry.is_directory() && (fs::is_directory(path) || path == "/opt/cni" || path == "/opt/cni/bin" ||
                                   path == "/etc/cni" || path == "/etc/cni/net.d"))
        continue;
      const bool kept =
          std::ranges::any_of(Names{"/var/lib/dpkg", "/var/log", "/var/cache", "/root", "/var/lib/systemd"},
                              [&](const std::string& folder) { return path.starts_with(folder); });
      if (!kept) all.insert(path);
    }
    for (const auto& entry : fs::directory_iterator(machine->path("/run"))) {
      if (entry.path().filename().string().contains("poduplink")) all.insert(entry.path().string());
    }
    return all;
  }
  // What is there and was not before the package came, a line each.
  [[nodiscard]] std::string left() const {
    std::string lines;
    for (const std::string& path : changed_files()) {
      if (!before.contains(path)) lines += path + "\n";
    }
    return lines;
  }
  void configure() const {
    value_of(make_directories(machine->path("/etc/poduplink"), 0755));
    value_of(write_file_atomically(machine->path("/etc/poduplink/config.json"), lab->default_agent_config(), 0644));
  }
  [[nodiscard]] bool has(const std::string& path) const { return fs::exists(machine->path(path)); }
  [[nodiscard]] bool is_active() const { return machine->property("poduplinkd", "ActiveState") == "active"; }

  std::unique_ptr<Lab> lab;
  std::unique_ptr<Machine> machine;
  std::set<std::string> before;
};

void require_ok(const Outcome& outcome) {
  INFO(outcome.text());
  REQUIRE(outcome.ok());
}

void all_leave_by_home(const Lab& lab) {
  const Outside outside = value_of(Outside::watch(lab));
  for (const auto& [name, pod] : lab.pods()) leaves_by_home(lab, pod, outside);
}

}  // namespace

TEST_CASE(
    "the package: installs and starts, upgrades under load without a lost packet, and leaves nothing when purged") {
  const Node node;
  Lab& lab = *node.lab;
  const Machine& machine = *node.machine;
  node.configure();
  value_of(write_file_atomically(machine.path("/etc/poduplink/cni.conflist"),
                                 value_of(read_file(PDL_DEPLOY_FOLDER "/kubernetes/cni.conflist")), 0644));
  require_ok(node.dpkg("-i /root/now.deb"));
  CHECK(node.is_active());
  CHECK(machine.property("poduplinkd", "UnitFileState") == "enabled");
  CHECK(node.dpkg("-V poduplink").out.empty());
  const std::string version = build_version();
  CHECK(value_of(machine.sh("dpkg-query -W -f '${Version}' poduplink")) == version);
  for (const char* program : {"poduplinkd", "poduplinkctl", "/opt/cni/bin/poduplink", "/opt/cni/bin/poduplink-ipam"})
    CHECK_THAT(value_of(machine.sh(formatted("{} --version", program))), ContainsSubstring(version));
  CHECK(node.has("/etc/cni/net.d/10-poduplink.conflist"));
  CHECK(value_of(machine.run({"poduplinkctl", "doctor"})).out == "nothing was found\n");

  const Pod one = add_pod(lab, "one", {.uplink = 1});
  const Pod two = add_pod(lab, "two", {.uplink = 2});
  add_pod(lab, "filtered", {.uplink = 2, .mode = "netfilter"});
  all_leave_by_home(lab);
  const std::string agent = machine.property("poduplinkd", "MainPID");

  const auto first = value_of(Stream::start(lab, one, packets_a_second));
  const auto second = value_of(Stream::start(lab, two, packets_a_second));
  require_ok(node.dpkg("-i /root/next.deb"));
  all_arrived(*first, lab, one);
  all_arrived(*second, lab, two);
  CHECK(node.is_active());
  CHECK(machine.property("poduplinkd", "MainPID") != agent);
  for (const char* program : {"poduplinkd", "poduplinkctl", "/opt/cni/bin/poduplink", "/opt/cni/bin/poduplink-ipam"})
    CHECK_THAT(value_of(machine.sh(formatted("{} --version", program))), ContainsSubstring("9" + version.substr(1)));
  CHECK(value_of(machine.run({"poduplinkctl", "doctor"})).out == "nothing was found\n");
  all_leave_by_home(lab);

  // With pods: the agent goes, and no pod is added any more; those that are there have all they need.
  const Outcome removed = node.dpkg("-r poduplink");
  require_ok(removed);
  CHECK_THAT(removed.err, ContainsSubstring("3 pods are attached") && ContainsSubstring("datapath and plugins stay"));
  CHECK_FALSE(node.has("/usr/sbin/poduplinkd"));
  CHECK_FALSE(node.has("/etc/cni/net.d/10-poduplink.conflist"));
  CHECK(node.has("/opt/cni/bin/poduplink"));
  CHECK(value_of(machine.run({"pgrep", "-x", "poduplinkd"})).status == 1);
  all_leave_by_home(lab);
  value_of(lab.del_pod("two"));

  const Outcome purged = node.dpkg("-P poduplink");
  require_ok(purged);
  CHECK_THAT(purged.err, ContainsSubstring("taking the datapath away"));
  CHECK_FALSE(fs::exists(lab.pin_dir()));
  CHECK(programs_on(lab, "eth1", TcHook::ingress).empty());
  CHECK(programs_on(lab, one.host_veth, TcHook::ingress).empty());
  CHECK_THAT(node.left(), Equals(""));
  // Who removes these pods no longer knows what was announced for them on the uplinks.
  value_of(make_directories(machine.path("/run/poduplink")));
  for (const char* name : {"one", "filtered"}) value_of(lab.del_pod(name));
  value_of(lab.accept_changes({"eth1", "eth2"}));
  REQUIRE_CLOSED(lab);
}

TEST_CASE("the package: without pods removal takes all but the configuration, which serves the next installation") {
  const Node node;
  const Machine& machine = *node.machine;
  value_of(
      machine.sh("mkdir -p /run/systemd/system/poduplinkd.service.d; printf '[Unit]\\nJobRunningTimeoutSec=2\\n' "
                 ">/run/systemd/system/poduplinkd.service.d/sooner.conf"));
  require_ok(node.dpkg("-i /root/now.deb"));
  // Without a configuration uplinks are discovered; these are no hardware, so there are none, and dpkg is done all the
  // same.
  CHECK(machine.property("poduplinkd", "ActiveState") == "activating");
  node.configure();
  value_of(machine.sh("systemctl restart poduplinkd"));
  CHECK(node.is_active());
  value_of(machine.sh("poduplinkctl install --conflist /usr/share/doc/poduplink/examples/cni.conflist"));
  const Outcome removed = node.dpkg("-r poduplink");
  require_ok(removed);
  CHECK_THAT(removed.err, Equals(""));
  CHECK_FALSE(fs::exists(node.lab->pin_dir()));
  CHECK(programs_on(*node.lab, "eth1", TcHook::ingress).empty());
  CHECK_FALSE(node.has("/opt/cni/bin/poduplink"));
  CHECK_FALSE(node.has("/etc/cni/net.d/10-poduplink.conflist"));
  CHECK(node.has("/etc/poduplink/config.json"));

  require_ok(node.dpkg("-i /root/next.deb"));
  CHECK(node.is_active());
  add_pod(*node.lab, "one", {.uplink = 1});
  all_leave_by_home(*node.lab);
  value_of(node.lab->del_pod("one"));
  require_ok(node.dpkg("-P poduplink"));
  CHECK_THAT(node.left(), Equals(""));
  REQUIRE_CLOSED(*node.lab);
}

TEST_CASE("the package: in a chroot, where no systemd runs, it installs, upgrades and goes without starting anything") {
  const Node node;
  const auto without_systemd = [&](const std::string& options) {
    const Outcome outcome = value_of(node.machine->run(
        {"unshare", "-m", "sh", "-ec", "mount -t tmpfs tmpfs /run; DEBIAN_FRONTEND=noninteractive dpkg " + options}));
    INFO(outcome.text());
    CHECK(outcome.ok());
    return outcome.err;
  };
  CHECK_THAT(without_systemd("-i /root/now.deb"), !ContainsSubstring("poduplink:"));
  CHECK(node.has("/opt/cni/bin/poduplink"));
  CHECK(value_of(node.machine->run({"pgrep", "-x", "poduplinkd"})).status == 1);
  CHECK_THAT(without_systemd("-i /root/next.deb"), Equals(""));
  CHECK(value_of(node.machine->run({"pgrep", "-x", "poduplinkd"})).status == 1);
  without_systemd("-r poduplink");
  CHECK_FALSE(node.has("/opt/cni/bin/poduplink"));
  CHECK_THAT(without_systemd("-P poduplink"), Equals(""));
  CHECK_THAT(node.left(), Equals(""));
  REQUIRE_CLOSED(*node.lab);
}

TEST_CASE("the package: lintian finds no error in it") {
  if (!value_of(run({.argv = {"sh", "-c", "command -v lintian"}})).ok()) SKIP("lintian is not installed");
  const Outcome outcome = value_of(run(
      {.argv = {"lintian", "--fail-on", "error", "--allow-root", packages().now}, .environment = {"LC_ALL=C.UTF-8"}}));
  INFO(outcome.text());
  CHECK(outcome.ok());
}
