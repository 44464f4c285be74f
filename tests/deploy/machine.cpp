// SPDX-License-Identifier: Apache-2.0
#include "tests/deploy/machine.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "loader/base/file.h"

namespace poduplink::harness {
namespace {

constexpr auto boot_patience = std::chrono::seconds(60);
constexpr auto end_patience = std::chrono::seconds(20);

// The first child of a process, 0 where it has none.
pid_t child_of(pid_t process) {
  const auto text = read_file(formatted("/proc/{}/task/{}/children", process, process));
  return text ? static_cast<pid_t>(std::strtol(text->c_str(), nullptr, 10)) : 0;
}

}  // namespace

Result<std::unique_ptr<Machine>> Machine::boot(Lab& lab) {
  std::unique_ptr<Machine> machine(new Machine(lab, "/run/poduplink-machine-" + lab.options().name));
  PDL_TRY(make_directories(machine->folder_, 0755));
  if (const auto started = machine->start(); !started)
    return fail("{}; log of the machine:\n{}", started.error().message, machine->log());
  return machine;
}

Result<> Machine::start() {
  PDL_TRY_ASSIGN(boot_, Background::start(
                            {.argv = {PDL_BOOT_MACHINE, folder_, lab_.folder() + "/bpf"}, .netns_fd = lab_.node().fd()},
                            folder_ + "/log"));
  // boot-machine → unshare → systemd. Up where all jobs of the boot are done, whatever became of them.
  const auto deadline = std::chrono::steady_clock::now() + boot_patience;
  for (;;) {
    const pid_t middle = child_of(boot_.pid());
    systemd_ = middle > 0 ? child_of(middle) : 0;
    if (systemd_ > 0) {
      const auto state = run({"systemctl", "is-system-running"});
      if (state && (state->out == "running\n" || state->out == "degraded\n")) break;
    }
    if (!boot_.running()) return fail("the machine ended");
    if (std::chrono::steady_clock::now() > deadline) return fail("the machine did not come up");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return share_run_dir();
}

// The lab's folder of records leads to the machine's.
Result<> Machine::share_run_dir() const {
  std::error_code error;
  std::filesystem::remove_all(lab_.run_dir(), error);
  std::filesystem::create_directory_symlink(path("/run/poduplink"), lab_.run_dir(), error);
  if (error) return fail("{}: {}", lab_.run_dir(), error.message());
  return {};
}

Machine::~Machine() {
  if (systemd_ > 0) ::kill(systemd_, SIGKILL);
  if (!boot_.wait(end_patience)) {
    [[maybe_unused]] const auto told = boot_.signal(SIGTERM);
  }
  boot_.wait(end_patience);
  // What it mounted for all to see; only this program's namespace has it.
  std::error_code error;
  for (const char* part : {"/root/run", "/root/tmp", "/root/dev", "/root", "/cgroups"}) [[maybe_unused]]
    const auto gone = harness::run({.argv = {"umount", "-R", folder_ + part}});
  std::filesystem::remove(lab_.run_dir(), error);
  std::filesystem::create_directory(lab_.run_dir(), error);
  std::filesystem::remove_all(folder_, error);
}

Result<Outcome> Machine::run(std::vector<std::string> argv) const {
  std::vector<std::string> inside{"nsenter", "-t", std::to_string(systemd_), "-m", "-p", "-n", "-C", "-i", "-u", "-r",
                                  "-w",      "--"};
  inside.insert(inside.end(), argv.begin(), argv.end());
  return harness::run({.argv = std::move(inside),
                       .environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "SYSTEMD_PAGER="},
                       .timeout = std::chrono::seconds(120)});
}

Result<std::string> Machine::sh(const std::string& script) const {
  PDL_TRY_ASSIGN(const Outcome outcome, run({"sh", "-ec", script}));
  if (outcome.ok()) return outcome.out;
  return fail("{}: {}\nits journal:\n{}", script, outcome.text(), log());
}

std::string Machine::property(const std::string& unit, const std::string& name) const {
  const auto text = sh(formatted("systemctl show -P {} {}", name, unit));
  return text ? text->substr(0, text->find('\n')) : text.error().message;
}

std::string Machine::log() const {
  const auto journal = run({"journalctl", "-o", "cat", "--no-pager"});
  return read_file(folder_ + "/log").value_or("") + (journal ? journal->out : journal.error().message);
}

}  // namespace poduplink::harness
