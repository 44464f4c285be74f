// SPDX-License-Identifier: Apache-2.0
#include "tests/clients/client_node.h"

#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "loader/base/file.h"
#include "tests/e2e/steps.h"
#include "tests/harness/capture.h"
#include "tests/harness/isolate.h"
#include "tests/harness/kernel_check.h"

namespace poduplink::harness {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

Result<> mount_overlay(const std::string& over) {
  const std::string own = "/run/poduplink-clients" + over;
  PDL_TRY(make_directories(own + "/upper", 0755));
  PDL_TRY(make_directories(own + "/work", 0755));
  const std::string options = formatted("lowerdir={},upperdir={}/upper,workdir={}/work", over, own, own);
  if (::mount("overlay", over.c_str(), "overlay", 0, options.c_str()) != 0)
    return fail_errno(errno, "mounting an overlay on {}", over);
  return {};
}

// The mount points of cgroup hierarchies, of both versions.
std::vector<std::string> cgroup_roots() {
  std::vector<std::string> roots;
  std::istringstream mounts(read_file("/proc/self/mounts").value_or(""));
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device;
    std::string place;
    std::string type;
    if (words >> device >> place >> type && (type == "cgroup" || type == "cgroup2")) roots.push_back(place);
  }
  return roots;
}

// All that are in this cgroup and those below.
void end_processes(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error)) end_processes(entry.path());
  }
  std::istringstream processes(read_file(folder + "/cgroup.procs").value_or(""));
  for (pid_t process = 0; processes >> process;) {
    if (process > 0) ::kill(process, SIGKILL);  // 0: of another PID namespace
  }
}

// Innermost first. True where nothing is left.
bool remove_cgroup(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error)) remove_cgroup(entry.path());
  }
  ::rmdir(folder.c_str());
  return !fs::exists(folder, error);
}

// Numbers of processes differ between PID namespaces, and so would not be unique to this one of several test programs.
std::string own_number() {
  std::error_code error;
  const std::string name = fs::read_symlink("/proc/self/ns/pid", error).string();  // pid:[4026532201]
  std::string digits;
  std::ranges::copy_if(name, std::back_inserter(digits), [](char c) { return c >= '0' && c <= '9'; });
  return digits;
}

Json show_addresses(const Namespace& space, const std::string& if_name) {
  const std::string text = value_of(space.run_ok({"ip", "-j", "address", "show", "dev", if_name}));
  return Json::parse(text).at(0);
}

}  // namespace

Result<> hide_wired_folders() {
  static const Result<> once = []() -> Result<> {
    for (const char* folder : {"/etc", "/opt", "/var/lib"}) PDL_TRY(mount_overlay(folder));
    if (::mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") != 0)
      return fail_errno(errno, "mounting /dev/shm");
    PDL_TRY(make_directories("/opt/cni/bin", 0755));
    std::error_code ignored;
    fs::remove_all("/etc/cni/net.d", ignored);
    return make_directories("/etc/cni/net.d", 0755);
  }();
  return once;
}

ClientNode::ClientNode(unsigned uplinks) {
  value_of(hide_wired_folders());
  lab_ = lab_with_agent({.uplinks = uplinks});
  for (const std::string& part : {net_d(), image_folder() + "/bin"}) value_of(make_directories(part, 0755));
  make_image();
}

ClientNode::~ClientNode() {
  std::vector<std::string> groups;
  for (const std::string& root : cgroup_roots()) groups.push_back(root + cgroup());
  // Of a test that has failed.
  for (const std::string& group : groups) end_processes(group);
  // A cgroup is busy until the kernel has reaped its last process.
  if (!eventually([&] { return std::ranges::all_of(groups, &remove_cgroup); }, std::chrono::seconds(20))) {
    UNSCOPED_INFO("left behind: " << cgroup() << " below " << lines_of(groups));
    CHECK(false);
  }
}

void ClientNode::make_image() const {
  const std::string bin = image_folder() + "/bin";
  for (const char* place : {"/bin/busybox", "/usr/bin/busybox"}) {
    if (fs::exists(place)) fs::copy_file(place, bin + "/busybox", fs::copy_options::overwrite_existing);
  }
  for (const char* applet : {"sh", "sleep", "ping"}) fs::create_symlink("busybox", bin + "/" + applet);
  value_of(write_file_atomically(bin + "/idle", "#!/bin/sh\nexec sleep 1000\n", 0755));
}

std::string ClientNode::folder(const std::string& part) const { return lab_->folder() + "/client/" + part; }

std::string ClientNode::cgroup() const { return "/poduplink-clients-" + own_number(); }

std::vector<std::string> ClientNode::plugin_folders() const {
  std::vector<std::string> folders;
  std::istringstream path(lab_->cni_path());
  for (std::string one; std::getline(path, one, ':');) folders.push_back(one);
  return folders;
}

std::string ClientNode::add_network(const Network& network) const {
  PodOptions options = network.pod;
  options.network = network.name;
  Json ours = Json::parse(lab_->pod_config(options));
  const Json version = ours["cniVersion"];
  for (const char* key : {"cniVersion", "name"}) ours.erase(key);
  Json plugins = Json::array({ours});
  for (const std::string& other : network.chained) plugins.push_back(Json::parse(other));
  const Json list = {{"cniVersion", version}, {"name", network.name}, {"plugins", plugins}};
  const std::string path = net_d() + "/" + network.name + ".conflist";
  value_of(write_file_atomically(path, list.dump(2), 0644));
  return path;
}

Outcome ClientNode::run(std::vector<std::string> argv, const std::vector<std::string>& environment) const {
  return value_of(harness::run({.argv = std::move(argv), .environment = environment, .netns_fd = lab_->node().fd()}));
}

Pod ClientNode::pod_of(pid_t process, const std::string& if_name) {
  const std::string name = formatted("{}-client-{}", lab_->options().name, next_name_++);
  value_of(harness::run_ok({.argv = {"ip", "netns", "attach", name, std::to_string(process)}}));
  Pod pod;
  pod.name = name;
  pod.options.if_name = if_name;
  pod.space = std::shared_ptr<Namespace>(new Namespace(value_of(Namespace::open(name))), [](Namespace* space) {
    if (const auto removed = space->remove(); !removed) WARN(removed.error().message);
    delete space;
  });
  const Json link = show_addresses(*pod.space, if_name);
  pod.mac = *MacAddress::parse(link.at("address").get<std::string>());
  for (const Json& entry : link.at("addr_info")) {
    const auto address = IpAddress::parse(entry.at("local").get<std::string>());
    if (entry.at("scope") != "global" || !address) continue;
    (address->is_v4() ? pod.v4 : pod.v6) = *address;
  }
  REQUIRE(pod.v4);
  pod.uplink = pod.v4->octets()[1];  // 10.<uplink>…
  // So that its packets bear real checksums, which can be looked at on the far side.
  value_of(disable_offloads(*pod.space, if_name));
  return pod;
}

void ClientNode::require_result(const std::string& cache, const Pod& pod) const {
  for (const std::string& name : value_of(list_directory(cache + "/results"))) {
    const Json kept = Json::parse(value_of(read_file(formatted("{}/results/{}", cache, name))));
    const Json container = kept.at("result").at("interfaces").back();
    if (container.at("mac") != pod.mac.text()) continue;
    const auto text_of = [&](const char* key) { return kept.at(key).get<std::string>(); };
    const Invocation asked{.verb = "ADD",
                           .container_id = text_of("containerId"),
                           .netns = container.at("sandbox").get<std::string>(),
                           .if_name = text_of("ifName"),
                           .config = value_of(read_file(net_d() + "/" + text_of("networkName") + ".conflist"))};
    Outcome printed;
    printed.status = 0;
    printed.out = kept.at("result").dump();
    PluginAnswer answer = read_answer(asked, printed);
    if (answer.result && answer.faults.empty())
      answer.faults = faults_against_kernel(lab_->node(), asked, *answer.result);
    INFO(answer.text());
    REQUIRE(answer.ok());
    return;
  }
  FAIL("no result of " << pod.mac.text() << " in " << cache);
}

std::vector<std::string> ClientNode::ipam_calls() const {
  std::vector<std::string> calls;
  std::istringstream text(read_file(lab_->ipam_dir("stub-ipam") + "/calls.jsonl").value_or(""));
  for (std::string line; std::getline(text, line);) calls.push_back(line);
  return calls;
}

void ClientNode::require_clean(const std::vector<std::string>& helpers) const {
  std::string others;
  const bool ended = eventually(
      [&] {
        others.clear();
        std::istringstream processes(value_of(other_processes()));
        for (std::string one; std::getline(processes >> std::ws, one, ',');) {
          const std::string name = one.substr(one.find(' ') + 1);
          if (name != "poduplinkd" && std::ranges::find(helpers, name) == helpers.end()) others += one + "\n";
        }
        return others.empty();
      },
      std::chrono::seconds(20));
  INFO("processes: " << others);
  REQUIRE(ended);
  REQUIRE_CLEAN(*lab_);
}

void require_steered(const Lab& lab, const Pod& pod) {
  const Outside outside = value_of(Outside::watch(lab));
  leaves_by_home(lab, pod, outside);
}

}  // namespace poduplink::harness
