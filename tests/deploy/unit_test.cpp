// SPDX-License-Identifier: Apache-2.0
// The systemd unit, run by systemd itself with all that it forbids.
#include <csignal>

#include "loader/base/file.h"
#include "tests/deploy/machine.h"
#include "tests/e2e/agent_probe.h"
#include "tests/e2e/steps.h"
#include "tests/harness/outside.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr const char* unit_file = PDL_DEPLOY_FOLDER "/poduplinkd.service";

// A machine with the programs of this build and the unit where the package puts them.
struct Installed {
  explicit Installed(LabOptions options = {.uplinks = 2}) : lab(value_of(Lab::create(std::move(options)))) {
    machine = value_of(Machine::boot(*lab));
    for (const auto& [name, folder] :
         {std::pair("poduplinkd", "/usr/sbin"), std::pair("poduplinkctl", "/usr/bin"),
          std::pair("poduplink", "/usr/libexec/poduplink"), std::pair("poduplink-ipam", "/usr/libexec/poduplink")}) {
      value_of(make_directories(machine->path(folder), 0755));
      put(program_folder() + "/" + name, formatted("{}/{}", folder, name), 0755);
    }
    put(unit_file, "/etc/systemd/system/poduplinkd.service", 0644);
    configure(lab->default_agent_config());
    value_of(machine->sh("systemctl daemon-reload"));
  }
  void put(const std::string& from, const std::string& to, unsigned mode) const {
    value_of(write_file_atomically(machine->path(to), value_of(read_file(from)), mode));
  }
  void configure(const std::string& text) const {
    value_of(make_directories(machine->path("/etc/poduplink"), 0755));
    value_of(write_file_atomically(machine->path("/etc/poduplink/config.json"), text, 0644));
  }

  std::unique_ptr<Lab> lab;
  std::unique_ptr<Machine> machine;
};

void all_leave_by_home(const Lab& lab) {
  const Outside outside = value_of(Outside::watch(lab));
  for (const auto& [name, pod] : lab.pods()) leaves_by_home(lab, pod, outside);
}

}  // namespace

TEST_CASE("the unit: systemd finds nothing wrong with it, and it is hardened") {
  const Outcome verified = value_of(run({.argv = {"systemd-analyze", "verify", unit_file}}));
  INFO(verified.text());
  // Where the package is not installed its program is missing.
  const std::string wrong = verified.err;
  CHECK((wrong.empty() || (wrong.contains("poduplinkd is not executable") && wrong.find('\n') == wrong.size() - 1)));
  const Outcome security = value_of(
      run({.argv = {"systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager", unit_file}}));
  INFO(security.text());
  CHECK(security.ok());
}

TEST_CASE("the unit: starts, is watched, reloads, restarts after a kill, and the datapath outlives its end") {
  const Installed node;
  Lab& lab = *node.lab;
  const Machine& machine = *node.machine;
  INFO(machine.log());
  value_of(machine.sh("systemctl start poduplinkd"));
  CHECK(machine.property("poduplinkd", "ActiveState") == "active");
  CHECK_THAT(machine.property("poduplinkd", "StatusText"), ContainsSubstring("ready: 2 uplinks"));
  CHECK(machine.property("poduplinkd", "WatchdogUSec") == "30s");
  add_pod(lab, "one", {.uplink = 1});
  add_pod(lab, "two", {.uplink = 2});
  add_pod(lab, "filtered", {.uplink = 2, .mode = "netfilter"});
  all_leave_by_home(lab);

  // A reload takes a configuration over, without another process.
  const std::string pid = machine.property("poduplinkd", "MainPID");
  node.configure(R"({"uplinks": [{"name": "eth1"}, {"name": "eth2"}], "exempt": ["192.0.2.0/24"]})");
  value_of(machine.sh("systemctl reload poduplinkd"));
  CHECK(eventually([&] { return value_of(value_of(lab.tables()).exempt.entries()).size() == 1; }));
  CHECK(machine.property("poduplinkd", "MainPID") == pid);

  const auto has_restarted = [&](const std::string& before) {
    return eventually(
        [&] {
          // In this order: once there is another process, the unit is not active before that one is ready.
          const std::string now = machine.property("poduplinkd", "MainPID");
          return now != "0" && now != before && machine.property("poduplinkd", "ActiveState") == "active";
        },
        std::chrono::seconds(20));
  };
  SECTION("killed") {
    value_of(machine.sh("systemctl kill -s KILL poduplinkd"));
    CHECK(has_restarted(pid));
    CHECK(machine.property("poduplinkd", "NRestarts") == "1");
  }
  SECTION("hung: the watchdog ends it") {
    value_of(
        machine.sh("mkdir -p /run/systemd/system/poduplinkd.service.d; "
                   "printf '[Service]\\nWatchdogSec=2\\n' >/run/systemd/system/poduplinkd.service.d/watchdog.conf; "
                   "systemctl daemon-reload; systemctl restart poduplinkd"));
    const std::string watched = machine.property("poduplinkd", "MainPID");
    value_of(machine.sh("systemctl kill -s STOP poduplinkd"));
    CHECK(has_restarted(watched));
    CHECK_THAT(machine.log(), ContainsSubstring("Watchdog timeout"));
  }
  SECTION("stopped") {
    value_of(machine.sh("systemctl stop poduplinkd"));
    CHECK(machine.property("poduplinkd", "ActiveState") == "inactive");
    all_leave_by_home(lab);
    add_pod(lab, "later", {.uplink = 1});
    value_of(machine.sh("systemctl start poduplinkd"));
  }
  all_leave_by_home(lab);
  CHECK(value_of(lab.tables()).pods.entries());
  CHECK(value_of(machine.run({"poduplinkctl", "doctor"})).out == "nothing was found\n");
  value_of(machine.sh("systemctl stop poduplinkd"));
  REQUIRE_CLOSED(lab);
}

TEST_CASE("the unit: what the agent can do, it can do with these capabilities and in this confinement") {
  const Installed node;
  Lab& lab = *node.lab;
  const Machine& machine = *node.machine;
  // Strict rp_filter to be set to loose, a permanent neighbour, a foreign program to be named.
  value_of(lab.node().sysctl({"net.ipv4.conf.eth2.rp_filter=1"}));
  value_of(lab.accept_changes({"rp_filter"}));
  node.configure(R"({"uplinks": [{"name": "eth1", "gateway4": "10.1.0.1", "gatewayMac": "02:00:00:00:01:01"},
                                 {"name": "eth2", "manageRpFilter": true}]})");
  value_of(machine.sh("systemctl start poduplinkd"));
  add_pod(lab, "one", {.uplink = 1});
  add_pod(lab, "filtered", {.uplink = 2, .mode = "netfilter"});
  all_leave_by_home(lab);
  CHECK(value_of(lab.node().run_ok({"sysctl", "-n", "net.ipv4.conf.eth2.rp_filter"})) == "2\n");
  CHECK_THAT(value_of(lab.node().run_ok({"ip", "neighbour", "show", "10.1.0.1"})), ContainsSubstring("PERMANENT"));
  // Another ABI: it reads the types of the maps before.
  node.put(program_folder() + "/tests/poduplinkd-next", "/usr/sbin/poduplinkd", 0755);
  value_of(machine.sh("systemctl restart poduplinkd"));
  CHECK(value_of(current_abi(lab.pin_dir())) == 2);
  node.put(program_folder() + "/poduplinkd", "/usr/sbin/poduplinkd", 0755);
  value_of(machine.sh("systemctl restart poduplinkd"));
  CHECK(value_of(current_abi(lab.pin_dir())) == 1);
  all_leave_by_home(lab);

  // No capability is there in vain.
  const std::string wanted = machine.property("poduplinkd", "CapabilityBoundingSet");
  CHECK(wanted == "cap_net_admin cap_sys_admin");
  value_of(machine.sh("systemctl stop poduplinkd; mkdir -p /run/systemd/system/poduplinkd.service.d"));
  for (const char* set : {"CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_NET_ADMIN CAP_BPF CAP_PERFMON"}) {
    INFO(set);
    value_of(
        machine.sh(formatted("printf '[Service]\\nRestart=no\\nCapabilityBoundingSet=\\nCapabilityBoundingSet={}\\n' "
                             ">/run/systemd/system/poduplinkd.service.d/less.conf; systemctl daemon-reload",
                             set)));
    node.put(program_folder() + "/tests/poduplinkd-next", "/usr/sbin/poduplinkd", 0755);
    CHECK_FALSE(value_of(machine.run({"systemctl", "start", "poduplinkd"})).ok());
    CHECK(value_of(current_abi(lab.pin_dir())) == 1);
  }
  node.put(program_folder() + "/poduplinkd", "/usr/sbin/poduplinkd", 0755);
  // All of it is taken back where the configuration no longer asks for it.
  node.configure(R"({"uplinks": [{"name": "eth1"}]})");
  value_of(
      machine.sh("rm -r /run/systemd/system/poduplinkd.service.d; systemctl daemon-reload; "
                 "systemctl start poduplinkd; systemctl stop poduplinkd"));
  REQUIRE_CLOSED(lab);
}

TEST_CASE("the unit: what waits for it at boot waits for a while, and the agent for its uplinks as long as it takes") {
  const Installed node;
  Lab& lab = *node.lab;
  const Machine& machine = *node.machine;
  value_of(lab.node().ip("link set eth2 down\nlink set eth2 name later"));
  node.configure(R"({"uplinks": [{"name": "eth2"}]})");
  value_of(
      machine.sh("printf '[Service]\\nType=oneshot\\nRemainAfterExit=yes\\nExecStart=/bin/true\\n' "
                 ">/run/systemd/system/kubelet.service; "
                 "mkdir -p /run/systemd/system/poduplinkd.service.d; "
                 "printf '[Unit]\\nJobRunningTimeoutSec=3\\n' >/run/systemd/system/poduplinkd.service.d/sooner.conf; "
                 "systemctl daemon-reload; systemctl start --no-block poduplinkd kubelet"));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  CHECK(machine.property("kubelet", "ActiveState") == "inactive");
  CHECK(eventually([&] { return machine.property("kubelet", "ActiveState") == "active"; }, std::chrono::seconds(10)));
  CHECK(machine.property("poduplinkd", "ActiveState") == "activating");
  CHECK_THAT(machine.property("poduplinkd", "StatusText"), ContainsSubstring("eth2"));
  value_of(lab.node().ip("link set later name eth2\nlink set eth2 up"));
  CHECK(eventually([&] { return machine.property("poduplinkd", "ActiveState") == "active"; }));
  CHECK(machine.property("poduplinkd", "NRestarts") == "0");
  value_of(machine.sh("systemctl stop poduplinkd"));
  value_of(lab.accept_changes({"eth2"}));
  REQUIRE_CLOSED(lab);
}
