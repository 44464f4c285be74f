// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/lab_commands.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "loader/base/fd.h"
#include "loader/base/file.h"

namespace poduplink::harness {
namespace {

// Where the lab's run folder appears for commands run in it, so that default options find it.
constexpr const char* default_run_folder = "/run/poduplink";

int report(const Error& error) {
  std::cerr << "lab: error: " << error.message << "\n";
  return 1;
}

int report(const Result<>& result) { return result ? 0 : report(result.error()); }

// Flushed: a program may take this one's place next.
void print(const std::string& line) { std::cout << line << "\n" << std::flush; }

// The error of what was done comes before the one of keeping the lab.
Result<> keep_up(Lab& lab, Result<> done) {
  auto kept = lab.release();
  return done ? kept : done;
}

// Opens the lab, alone among the commands for it, and keeps it up whatever comes of `use`.
Result<> with_lab(const std::string& name, const std::function<Result<>(Lab&)>& use) {
  auto folder = open_file("/run/poduplink-lab/" + name, O_RDONLY | O_DIRECTORY);
  if (folder) flock(folder->get(), LOCK_EX);
  PDL_TRY_ASSIGN(const std::unique_ptr<Lab> lab, Lab::open(name));
  PDL_TRY(keep_up(*lab, use(*lab)));
  return {};
}

std::string pod_line(const Pod& pod) {
  const auto text = [](const std::optional<IpAddress>& address) {
    return address ? address->text() : std::string("-");
  };
  return formatted("{:<16} {:<16} {:<20} eth{}  {}", pod.name, text(pod.v4), text(pod.v6), pod.uplink, pod.host_veth);
}

std::string pod_heading() {
  return formatted("{:<16} {:<16} {:<20} {:<5} {}", "POD", "IPV4", "IPV6", "HOME", "HOST VETH");
}

// The lab's bpffs at /sys/fs/bpf and its run folder at /run/poduplink, for this process and its children alone.
Result<> enter_view(const Lab& lab) {
  if (unshare(CLONE_NEWNS) != 0) return fail_errno(errno, "unshare");
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return fail_errno(errno, "mount propagation");
  if (mount((lab.folder() + "/bpf").c_str(), "/sys/fs/bpf", nullptr, MS_BIND, nullptr) != 0)
    return fail_errno(errno, "showing the lab's bpffs at /sys/fs/bpf");
  PDL_TRY(make_directories(default_run_folder, 0755));
  if (mount(lab.run_dir().c_str(), default_run_folder, nullptr, MS_BIND, nullptr) != 0)
    return fail_errno(errno, "showing the lab's run folder at {}", default_run_folder);
  return {};
}

}  // namespace

int lab_up(const UpRequest& request) {
  std::string config;
  if (!request.agent_config.empty()) {
    auto text = read_file(request.agent_config);
    if (!text) return report(text.error());
    config = std::move(*text);
  }
  auto lab = Lab::create(request.options);
  if (!lab) return report(lab.error());
  if (!request.no_agent) {
    if (const auto started = (*lab)->start_agent(config); !started) return report(started);
  }
  const std::string agent = request.no_agent ? "no agent" : formatted("agent: process {}", (*lab)->agent().pid());
  if (const auto kept = (*lab)->release(); !kept) return report(kept);
  print(formatted("lab '{}' is up: a node with {} uplinks, {}", request.options.name, request.options.uplinks, agent));
  print(
      "next: lab add POD --uplink eth2; lab exec POD ping -c1 198.51.100.10; lab exec node bpftool map dump pinned "
      "/sys/fs/bpf/poduplink/v1/pods4; lab down");
  return 0;
}

int lab_add(const std::string& lab, const std::string& pod, const PodOptions& options) {
  return report(with_lab(lab, [&](Lab& opened) -> Result<> {
    PDL_TRY_ASSIGN(const Pod added, opened.add_pod(pod, options));
    print(pod_heading());
    print(pod_line(added));
    return {};
  }));
}

int lab_check(const std::string& lab, const std::string& pod) {
  return report(with_lab(lab, [&](Lab& opened) { return opened.check_pod(pod); }));
}

int lab_del(const std::string& lab, const std::string& pod) {
  return report(with_lab(lab, [&](Lab& opened) { return opened.del_pod(pod); }));
}

int lab_exec(const std::string& lab, const std::string& where, const std::vector<std::string>& command) {
  const auto entered = with_lab(lab, [&](Lab& opened) -> Result<> {
    PDL_TRY_ASSIGN(const Namespace* space, opened.find_namespace(where));
    PDL_TRY(enter_view(opened));
    if (setns(space->fd(), CLONE_NEWNET) != 0) return fail_errno(errno, "entering {}", space->name());
    return {};
  });
  if (!entered) return report(entered);
  const char* path = std::getenv("PATH");
  setenv("PATH", formatted("{}:{}", program_folder(), path == nullptr ? "/usr/sbin:/usr/bin:/sbin:/bin" : path).c_str(),
         1);
  std::vector<std::string> texts = command;
  std::vector<char*> argv;
  argv.reserve(texts.size() + 1);
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int reason = errno;
  report(Error{reason, command[0] + ": " + errno_text(reason)});
  return reason == ENOENT ? 127 : 126;
}

int lab_status(const std::string& lab) {
  return report(with_lab(lab, [](Lab& opened) -> Result<> {
    print(formatted("lab '{}', files in {}", opened.options().name, opened.folder()));
    print(opened.agent().running() ? formatted("agent: process {}", opened.agent().pid()) : "agent: not running");
    for (const unsigned number : opened.uplink_numbers()) {
      const Uplink uplink = opened.uplink(number);
      print(formatted("uplink {}: {} mtu {}, {} and {}, gateway gw{}{}", uplink.name(), uplink.mac().text(), uplink.mtu,
                      uplink.subnet4(), uplink.subnet6(), number, number == 0 ? " (not known to the agent)" : ""));
    }
    print(opened.pods().empty() ? "no pods" : pod_heading());
    for (const auto& [name, pod] : opened.pods()) print(pod_line(pod));
    return {};
  }));
}

int lab_down(const std::string& lab, bool force) {
  if (force) {
    const std::vector<std::string> removed = Lab::remove_by_force(lab);
    for (const std::string& line : removed) print("removed " + line);
    rmdir(default_run_folder);
    if (removed.empty()) return report(Error{ENOENT, "nothing of a lab '" + lab + "' is there"});
    return 0;
  }
  auto opened = Lab::open(lab);
  if (!opened) {
    report(opened.error());
    std::cerr << "lab: `lab down --force` removes what is left of a broken lab\n";
    return 1;
  }
  const std::vector<std::string> problems = (*opened)->close();
  for (const std::string& line : problems) std::cerr << "lab: " << line << "\n";
  rmdir(default_run_folder);  // made for `lab exec`; stays where somebody else uses it
  if (!problems.empty()) return 1;
  print(formatted("lab '{}' is down, nothing is left", lab));
  return 0;
}

}  // namespace poduplink::harness
