// SPDX-License-Identifier: Apache-2.0
// Building the lab and taking it down.
#include "tests/harness/lab.h"

#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <thread>

#include "loader/base/file.h"
#include "loader/base/log.h"
#include "loader/net/link.h"
#include "loader/net/netns.h"
#include "maps/bpf.h"

namespace poduplink::harness {
namespace {

std::atomic<unsigned> failures{0};

constexpr const char* labs_folder = "/run/poduplink-lab";

IpAddress must_parse(const std::string& text) { return *IpAddress::parse(text); }

// The kernel brings a link up, and gives it its link-local address, a moment after it was told to.
Result<> wait_until_up(const Namespace& space, const std::string& link) {
  for (int attempt = 0; attempt < 500; ++attempt) {
    PDL_TRY_ASSIGN(const std::string text, space.run_ok({"ip", "address", "show", "dev", link, "up"}));
    if (text.find("LOWER_UP") != std::string::npos && text.find("state UP") != std::string::npos &&
        text.find("inet6 fe80") != std::string::npos && text.find("tentative") == std::string::npos)
      return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fail("{} in {} did not come up within 5 s", link, space.name());
}

// Once the items that are waited for bear no link of which the kernel has not told the carrier yet: it does so within a
// second or, where it is busy, some. Some kinds of links never get there, so it is waited for 4 s at the most.
template <typename IsWaitedFor>
Result<Snapshot> settled_snapshot(const Namespace& node, const std::vector<std::string>& uplinks,
                                  const IsWaitedFor& is_waited_for) {
  const auto is_new = [&](const auto& item) {
    return is_waited_for(item) && item.second.find(R"(operstate="UNKNOWN")") != std::string::npos;
  };
  PDL_TRY_ASSIGN(Snapshot now, take_snapshot(node, uplinks));
  for (int i = 0; i < 40 && std::ranges::any_of(now.items, is_new); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    PDL_TRY_ASSIGN(now, take_snapshot(node, uplinks));
  }
  return now;
}

bool path_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

Result<std::vector<std::string>> attached_programs(const Namespace& space, const std::vector<std::string>& links) {
  std::vector<std::string> found;
  if (!bpf::have_tcx()) return found;
  PDL_TRY_ASSIGN(const NetnsScope inside, NetnsScope::enter(space.fd()));
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open());
  for (const std::string& name : links) {
    const auto link = find_link_by_name(netlink, name);
    if (!link) continue;  // a test may have removed it
    for (const bpf::TcxHook hook : {bpf::TcxHook::ingress, bpf::TcxHook::egress}) {
      PDL_TRY_ASSIGN(const auto programs, bpf::tcx_programs(link->index, hook));
      if (!programs.empty()) found.push_back(formatted("{} tcx programs on {}", programs.size(), name));
    }
  }
  return found;
}

// The kernel detaches a link whose last pin is gone in a work item of its own: a moment later.
Result<std::vector<std::string>> programs_after_unload(const Namespace& space, const std::vector<std::string>& links) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    PDL_TRY_ASSIGN(std::vector<std::string> found, attached_programs(space, links));
    if (found.empty()) return found;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return attached_programs(space, links);
}

}  // namespace

unsigned failures_at_end() { return failures; }

namespace {

std::string find_program_folder() {
  std::array<char, 4096> buffer{};
  const ssize_t size = readlink("/proc/self/exe", buffer.data(), buffer.size());
  const std::filesystem::path program(std::string(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0));
  const std::filesystem::path folder = program.parent_path();
  return folder.filename() == "tests" ? folder.parent_path().string() : folder.string();
}

}  // namespace

std::string program_folder() {
  static const std::string folder = find_program_folder();
  return folder;
}

std::string Uplink::name() const { return formatted("eth{}", number); }

MacAddress Uplink::mac() const { return MacAddress({0x02, 0, 0, 0, static_cast<std::uint8_t>(number), 0x02}); }

MacAddress Uplink::gateway_mac() const { return MacAddress({0x02, 0, 0, 0, static_cast<std::uint8_t>(number), 0x01}); }

std::string Uplink::subnet4() const { return formatted("10.{}.0.0/16", number); }

std::string Uplink::subnet6() const { return formatted("fd00:{}::/64", number); }

IpAddress Uplink::node4() const { return must_parse(formatted("10.{}.0.10", number)); }

IpAddress Uplink::node6() const { return must_parse(formatted("fd00:{}::10", number)); }

IpAddress Uplink::gateway4() const { return must_parse(formatted("10.{}.0.1", number)); }

IpAddress Uplink::gateway6() const { return must_parse(formatted("fd00:{}::1", number)); }

IpAddress Uplink::pod4(unsigned group, unsigned host) const {
  return must_parse(formatted("10.{}.{}.{}", number, group, host));
}

IpAddress Uplink::pod6(unsigned group, unsigned host) const {
  return must_parse(formatted("fd00:{}::{:x}:{:x}", number, group, host));
}

Result<std::unique_ptr<Lab>> Lab::create(LabOptions options) {
  if (options.uplinks < 1 || options.uplinks > 9) return fail("uplinks: {} is not 1 to 9", options.uplinks);
  if (!is_interface_name(options.name) || options.name.starts_with('-'))
    return fail("lab name '{}': 1 to 15 characters without '/', ':' and blanks", options.name);
  std::unique_ptr<Lab> lab(new Lab(std::move(options)));
  if (path_exists(lab->folder())) return fail_errno(EEXIST, "lab '{}' ({})", lab->options_.name, lab->folder());
  if (auto built = lab->build(); !built) {
    std::vector<std::string> problems;
    if (auto down = lab->take_down(problems); !down) problems.push_back(std::move(down.error().message));
    for (const std::string& problem : problems) built.error().message += "; then " + problem;
    return fail_within(std::move(built.error()), "building the lab");
  }
  lab->closed_ = false;
  return lab;
}

Result<std::unique_ptr<Lab>> Lab::open(const std::string& name) {
  LabOptions options;
  options.name = name;
  std::unique_ptr<Lab> lab(new Lab(std::move(options)));
  PDL_TRY(lab->load());
  lab->closed_ = false;
  return lab;
}

std::string Lab::folder() const { return std::string(labs_folder) + "/" + options_.name; }

std::string Lab::cni_path() const {
  return formatted("{}/cni-bin:{}:{}/tests:/usr/lib/cni:/opt/cni/bin", folder(), program_folder(), program_folder());
}

Uplink Lab::uplink(unsigned number) const {
  const auto mtu = options_.mtu.find(number);
  return {number, mtu == options_.mtu.end() ? 1500 : mtu->second};
}

std::vector<unsigned> Lab::uplink_numbers() const {
  std::vector<unsigned> numbers;
  for (unsigned i = options_.unlisted_default ? 0 : 1; i <= options_.uplinks; ++i) numbers.push_back(i);
  return numbers;
}

std::vector<std::string> Lab::uplink_names() const {
  std::vector<std::string> names;
  for (const unsigned number : uplink_numbers()) names.push_back(uplink(number).name());
  return names;
}

Result<> Lab::build() {
  PDL_TRY(make_directories(folder(), 0755));
  for (const char* part : {"/bpf", "/run", "/cni-bin", "/ipam"}) PDL_TRY(make_directories(folder() + part, 0755));
  if (mount("bpf", (folder() + "/bpf").c_str(), "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=700") != 0)
    return fail_errno(errno, "mounting bpffs on {}/bpf", folder());
  PDL_TRY_ASSIGN(node_, Namespace::create(namespace_name("node")));
  // Set before the links are made, which copy "default". A new namespace takes some from the machine's first.
  PDL_TRY(node_.sysctl({"net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.default.forwarding=1",
                        "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"}));
  for (const unsigned number : uplink_numbers()) PDL_TRY(build_uplink(number));
  const Uplink first = uplink(uplink_numbers().front());
  const char* on_link = options_.addressless ? " onlink" : "";
  PDL_TRY(node_.ip(formatted("route add 0.0.0.0/0 via {} dev {}{}\nroute add ::/0 via {} dev {}{}\n{}",
                             first.gateway4().text(), first.name(), on_link, first.gateway6().text(), first.name(),
                             on_link, options_.node_setup)));
  for (const unsigned number : uplink_numbers()) {
    PDL_TRY(wait_until_up(node_, uplink(number).name()));
    PDL_TRY(wait_until_up(gateway(number), "eth0"));
  }
  // A VLAN's carrier is told some time after its parent's.
  const bool has_vlan = options_.node_setup.contains("type vlan");
  PDL_TRY_ASSIGN(before_, settled_snapshot(node_, uplink_names(),
                                           [&](const auto& item) { return has_vlan && item.first != "link lo"; }));
  return {};
}

Result<> Lab::build_uplink(unsigned number) {
  const Uplink link = uplink(number);
  PDL_TRY_ASSIGN(gateways_[number], Namespace::create(namespace_name(formatted("gw{}", number))));
  const Namespace& far = gateway(number);
  PDL_TRY(far.sysctl({"net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.default.forwarding=1",
                      "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0"}));
  std::string lines =
      formatted("link add {} address {} mtu {} type veth peer name eth0 address {} mtu {} netns {}\n", link.name(),
                link.mac().text(), link.mtu, link.gateway_mac().text(), link.mtu, far.name());
  lines += formatted("link set {} up\n", link.name());
  if (!options_.addressless || number == 0) {
    lines += formatted("address add {}/16 dev {}\n", link.node4().text(), link.name());
    lines += formatted("address add {}/64 dev {} nodad\n", link.node6().text(), link.name());
  }
  PDL_TRY(node_.ip(lines));
  return far.ip(
      formatted("link set eth0 up\naddress add {}/16 dev eth0\naddress add {}/64 dev eth0 nodad\n"
                "address add {}/32 dev lo\naddress add {}/128 dev lo nodad\n",
                link.gateway4().text(), link.gateway6().text(), outside4, outside6));
}

Result<const Namespace*> Lab::find_namespace(const std::string& name) const {
  std::string known = "node";
  if (name == "node") return &node_;
  for (const auto& [number, space] : gateways_) {
    const std::string gateway_name = formatted("gw{}", number);
    if (name == gateway_name) return &space;
    known += ", " + gateway_name;
  }
  for (const auto& [other, space] : others_) {
    if (name == other) return &space;
    known += ", " + other;
  }
  for (const auto& [pod_name, pod] : pods_) {
    if (name == pod_name) return pod.space.get();
    known += ", " + pod_name;
  }
  return fail_errno(ENOENT, "'{}' is none of {}", name, known);
}

Result<const Namespace*> Lab::add_namespace(const std::string& name) {
  if (find_namespace(name)) return fail_errno(EEXIST, "namespace '{}'", name);
  PDL_TRY_ASSIGN(others_[name], Namespace::create(namespace_name(name)));
  return &others_.at(name);
}

Result<> Lab::accept_changes(const std::vector<std::string>& about) {
  // Uplinks bear the datapath on one where the kernel has no tcx, until it is unloaded.
  const bool clsact_is_ours = path_exists(pin_dir()) && !bpf::have_tcx();
  const auto is_about = [&](const auto& item) {
    if (clsact_is_ours && item.first.starts_with("qdisc clsact on ")) return false;
    return std::ranges::any_of(about,
                               [&](const std::string& part) { return item.first.find(part) != std::string::npos; });
  };
  PDL_TRY_ASSIGN(const Snapshot now, settled_snapshot(node_, uplink_names(), is_about));
  std::erase_if(before_.items, is_about);
  std::ranges::copy_if(now.items, std::inserter(before_.items, before_.items.end()), is_about);
  return {};
}

std::string Lab::default_agent_config() const {
  std::string uplinks;
  for (unsigned i = 1; i <= options_.uplinks; ++i)
    uplinks += formatted(R"({}{{"name": "eth{}"}})", i == 1 ? "" : ", ", i);
  return formatted(R"({{"uplinks": [{}]}})", uplinks);
}

Result<> Lab::start_agent(const std::string& config, std::chrono::milliseconds patience) {
  const std::string path = folder() + "/agent.json";
  PDL_TRY(write_file_atomically(path, config.empty() ? default_agent_config() : config));
  return agent_.start(
      {.argv = {program_folder() + "/poduplinkd", "--config", path, "--pin-dir", pin_dir(), "--run-dir", run_dir()},
       .netns_fd = node_.fd(),
       .notify_path = folder() + "/notify",
       .log_path = folder() + "/agent.log",
       .patience = patience,
       .detached = true});
}

Result<Outcome> Lab::unload_agent() {
  return node_.run({program_folder() + "/poduplinkd", "--unload", "--pin-dir", pin_dir(), "--run-dir", run_dir()});
}

std::vector<std::string> Lab::close() {
  std::vector<std::string> problems;
  if (closed_) return problems;
  closed_ = true;
  const auto note = [&](const auto& result, const char* what) {
    if (!result) problems.push_back(std::string(what) + ": " + result.error().message);
  };
  while (!pods_.empty()) {
    const std::string name = pods_.begin()->first;
    note(del_pod(name), "deleting a pod at the end");
    if (pods_.contains(name)) note(forget_pod(name), "forgetting a pod");
  }
  for (const std::string& line : leftovers()) problems.push_back(line);
  if (agent_.running()) note(agent_.stop(), "stopping the agent");
  if (path_exists(pin_dir())) {
    const auto unloaded = unload_agent();
    if (!unloaded || !unloaded->ok())
      problems.push_back("unloading: " + (unloaded ? unloaded->text() : unloaded.error().message));
    if (path_exists(pin_dir())) problems.push_back("pins after unloading: " + pin_dir());
    if (const auto programs = programs_after_unload(node_, uplink_names()))
      problems.insert(problems.end(), programs->begin(), programs->end());
    const auto now = take_snapshot(node_, uplink_names());
    note(now, "looking at the node");
    if (now) {
      for (const std::string& line : differences(before_, *now)) problems.push_back("after unloading: " + line);
    }
  }
  note(take_down(problems), "taking the lab down");
  return problems;
}

Result<> Lab::take_down(std::vector<std::string>& problems) {
  const auto note = [&](const auto& result) {
    if (!result) problems.push_back("taking the lab down: " + result.error().message);
  };
  if (agent_.running()) note(agent_.kill_hard());
  for (auto& [name, pod] : pods_) note(pod.space->remove());
  for (auto& [name, space] : others_) {
    if (space.valid()) note(space.remove());
  }
  for (auto& [number, space] : gateways_) {
    if (space.valid()) note(space.remove());
  }
  if (node_.valid()) note(node_.remove());
  pods_.clear();
  others_.clear();
  gateways_.clear();
  // Detached: whoever still has a file of it open must not spoil the next lab of this name.
  umount2((folder() + "/bpf").c_str(), MNT_DETACH);
  std::error_code error;
  std::filesystem::remove_all(folder(), error);
  if (error) problems.push_back(folder() + ": " + error.message());
  ::rmdir(labs_folder);  // stays where there are other labs

  const auto names = list_directory("/run/netns");
  for (const std::string& name : names.value_or(std::vector<std::string>{})) {
    if (name.starts_with(namespace_name(""))) problems.push_back("left behind: network namespace " + name);
  }
  PDL_TRY_ASSIGN(const std::string mounts, read_file("/proc/self/mountinfo"));
  if (const std::size_t at = mounts.find(" " + folder() + "/"); at != std::string::npos) {
    const std::size_t line = mounts.rfind('\n', at) + 1;
    problems.push_back("left behind: a mount: " + mounts.substr(line, mounts.find('\n', at) - line));
  }
  return {};
}

std::vector<std::string> Lab::remove_by_force(const std::string& name) {
  std::vector<std::string> removed;
  LabOptions options;
  options.name = name;
  Lab lab(std::move(options));
  if (lab.load_agent() && lab.agent_.running() && lab.agent_.kill_hard()) removed.emplace_back("agent");
  const auto names = list_directory("/run/netns");
  for (const std::string& other : names.value_or(std::vector<std::string>{})) {
    if (other.starts_with(lab.namespace_name("")) && run_ok({.argv = {"ip", "netns", "delete", other}}))
      removed.push_back("network namespace " + other);
  }
  std::vector<std::string> problems;
  const bool there = path_exists(lab.folder());
  if (const auto down = lab.take_down(problems); !down) return removed;
  if (there && !path_exists(lab.folder())) removed.push_back(lab.folder());
  return removed;
}

Lab::~Lab() {
  if (closed_) return;
  for (const std::string& line : close()) {
    ++failures;
    std::cerr << "lab '" << options_.name << "' at its end: " << line << "\n";
  }
}

}  // namespace poduplink::harness
