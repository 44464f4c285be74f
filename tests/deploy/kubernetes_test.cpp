// SPDX-License-Identifier: Apache-2.0
// The containers of the DaemonSet, run by podman as the manifest has them: command, capabilities, read-only root,
// seccomp, mounts of the node's own paths. What kubelet does is done by hand: their order, and a pod that is replaced.
#include <sys/mount.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "tests/clients/client_node.h"
#include "tests/deploy/package.h"
#include "tests/e2e/steps.h"
#include "tests/harness/http.h"
#include "tests/harness/outside.h"
#include "tests/harness/temporary_folder.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// The pod of a manifest.
json pod_template(const std::string& manifest) {
  const std::string script = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
  const json set = json::parse(value_of(run_ok({.argv = {"python3", "-c", script, PDL_KUBERNETES "/" + manifest}})));
  return set.at("spec").at("template").at("spec");
}

// What the image has of the package: its files, the libraries of its programs, and a shell.
void make_image(const std::string& image) {
  const tests::TemporaryFolder folder;
  value_of(run_ok({.argv = {"dpkg-deb", "-x", value_of(make_package(folder.path())), image}}));
  fs::create_symlink("busybox", image + "/bin/test");
  for (const char* program : {"/usr/sbin/poduplinkd", "/usr/bin/poduplinkctl"}) {
    constexpr const char* copy_libraries =
        R"(ldd "$1$2" | grep -o '/[^ ]*' | while read -r one; do mkdir -p "$1${one%/*}"; cp -L "$one" "$1$one"; done)";
    value_of(run_ok({.argv = {"sh", "-ec", copy_libraries, "sh", image, program}}));
  }
}

class Cluster {
 public:
  Cluster() : node_(2), storage_(node_.folder("storage")) {
    Lab& lab = *node_;
    value_of(lab.agent().stop());
    require_unloaded();
    make_image(node_.image_folder());
    // The node's own paths, in this program's mount namespace.
    REQUIRE(::mount((lab.folder() + "/bpf").c_str(), "/sys/fs/bpf", nullptr, MS_BIND, nullptr) == 0);
    fs::remove_all(lab.run_dir());
    fs::create_directory("/run/poduplink");
    fs::create_directory_symlink("/run/poduplink", lab.run_dir());
    for (const std::string& folder : {config(), storage_}) value_of(make_directories(folder, 0755));
    // On the host's network there are none to be set.
    value_of(write_file_atomically(node_.folder("containers.conf"), "[containers]\ndefault_sysctls = []\n", 0644));
    value_of(write_file_atomically(config() + "/config.json", lab.default_agent_config(), 0644));
    fs::copy_file(PDL_KUBERNETES "/cni.conflist", config() + "/cni.conflist");
  }
  ~Cluster() {
    for (const std::string& name : started_) [[maybe_unused]]
      const Outcome gone = podman({"rm", "-f", "-t", "0", name});
    ::umount("/sys/fs/bpf");
    std::error_code error;
    fs::remove_all("/run/poduplink", error);
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // A container to its end; or, detached, until it is removed.
  Outcome run(const json& pod, const std::string& name, bool detached = false) {
    const json one = container(pod, name);
    std::vector<std::string> argv{"run", "--name", name, "--cgroup-parent", node_.cgroup(), "--log-driver", "k8s-file"};
    argv.insert(argv.end(), {"--network", "ns:" + node_->node().path(), "--read-only", "--read-only-tmpfs=false"});
    argv.emplace_back(detached ? "-d" : "--rm");
    const json& context = one.at("securityContext");
    argv.insert(argv.end(), {"--cap-drop", "ALL"});
    for (const json& capability : context.at("capabilities").value("add", json::array()))
      argv.insert(argv.end(), {"--cap-add", capability.get<std::string>()});
    if (!context.value("allowPrivilegeEscalation", true))
      argv.insert(argv.end(), {"--security-opt", "no-new-privileges"});
    for (const json& mount : one.value("volumeMounts", json::array()))
      argv.insert(argv.end(), {"-v", bound(pod, mount)});
    argv.insert(argv.end(), {"--rootfs", node_.image_folder()});
    for (const json& word : one.at("command")) argv.push_back(word);
    if (detached) started_.push_back(name);
    return podman(argv);
  }
  void start(const json& pod, const std::string& name) {
    const Outcome outcome = run(pod, name, true);
    INFO(outcome.text());
    REQUIRE(outcome.ok());
  }
  // Its end, with the time that kubelet gives it. Its exit code; 137 where it did not end by itself.
  int stop(const std::string& name) {
    CHECK(podman({"stop", "-t", "5", name}).ok());
    const std::string code = podman({"inspect", "--format", "{{.State.ExitCode}}", name}).out;
    CHECK(podman({"rm", "-f", "-t", "0", name}).ok());
    return std::stoi(code);
  }
  // A probe of the agent, from the node's network as kubelet asks it.
  [[nodiscard]] bool answers(const json& pod, const std::string& name, const char* probe) {
    const json one = container(pod, name).at(probe).at("httpGet");
    REQUIRE(one.at("port") == 9465);
    const auto reply = http_get(node_->node(), one.at("path"));
    return reply && reply->status == 200;
  }
  // The probe that is a command.
  [[nodiscard]] bool is_ready(const json& pod, const std::string& name) const {
    std::vector<std::string> argv{"exec", name};
    const json one = container(pod, name);
    for (const json& word : one.at("readinessProbe").at("exec").at("command")) argv.push_back(word);
    return podman(argv).ok();
  }
  [[nodiscard]] std::string log(const std::string& name) const { return podman({"logs", name}).text(); }
  [[nodiscard]] Lab& lab() { return *node_; }

 private:
  static json container(const json& pod, const std::string& name) {
    for (const char* kind : {"initContainers", "containers"}) {
      for (const json& one : pod.at(kind)) {
        if (one.at("name") == name) return one;
      }
    }
    FAIL("no container " << name);
    return {};
  }
  [[nodiscard]] std::string bound(const json& pod, const json& mount) const {
    std::string from = config();
    for (const json& volume : pod.at("volumes")) {
      if (volume.at("name") != mount.at("name") || !volume.contains("hostPath")) continue;
      from = volume.at("hostPath").at("path");
      if (volume.at("hostPath").at("type") == "DirectoryOrCreate") value_of(make_directories(from, 0755));
    }
    return formatted("{}:{}:{}{}", from, mount.at("mountPath").get<std::string>(),
                     mount.value("readOnly", false) ? "ro" : "rw",
                     mount.value("mountPropagation", "") == "HostToContainer" ? ",rslave" : "");
  }
  [[nodiscard]] std::string config() const { return node_.folder("config"); }
  [[nodiscard]] Outcome podman(const std::vector<std::string>& arguments) const {
    std::vector<std::string> argv{"podman",           "--root",   storage_ + "/root", "--runroot", storage_ + "/run",
                                  "--cgroup-manager", "cgroupfs", "--events-backend", "file"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return node_.run(argv, {"CONTAINERS_CONF=" + node_.folder("containers.conf"), "HOME=" + node_.folder(),
                            "TMPDIR=" + node_.folder("storage")});
  }
  void require_unloaded() { REQUIRE(value_of(node_->unload_agent()).ok()); }

  ClientNode node_;
  std::string storage_;
  std::vector<std::string> started_;
};

void all_leave_by_home(const Lab& lab) {
  for (const auto& [name, pod] : lab.pods()) require_steered(lab, pod);
}

}  // namespace

TEST_CASE("the DaemonSet: plugins, agent, and the conflist when the agent is ready; a pod that is replaced; removal") {
  Cluster cluster;
  Lab& lab = cluster.lab();
  const std::string conflist = "/etc/cni/net.d/10-poduplink.conflist";
  const json pod = pod_template("daemonset.yaml");
  const Outcome plugins = cluster.run(pod, "plugins");
  INFO(plugins.text());
  REQUIRE(plugins.ok());
  CHECK(fs::exists("/opt/cni/bin/poduplink"));
  // The containers of a pod start in any order.
  cluster.start(pod, "network");
  CHECK_FALSE(cluster.is_ready(pod, "network"));
  CHECK_FALSE(fs::exists(conflist));
  cluster.start(pod, "agent");
  INFO(cluster.log("agent"));
  REQUIRE(eventually([&] { return cluster.is_ready(pod, "network"); }, std::chrono::seconds(20)));
  CHECK(fs::exists(conflist));
  CHECK(cluster.answers(pod, "agent", "livenessProbe"));
  CHECK(cluster.answers(pod, "agent", "readinessProbe"));

  for (const unsigned uplink : {1U, 2U}) add_pod(lab, formatted("pod{}", uplink), {.uplink = uplink});
  add_pod(lab, "filtered", {.uplink = 2, .mode = "netfilter"});
  all_leave_by_home(lab);
  CHECK(cluster.stop("network") == 0);
  CHECK(cluster.stop("agent") == 0);
  all_leave_by_home(lab);
  CHECK(cluster.run(pod, "plugins").ok());
  cluster.start(pod, "agent");
  cluster.start(pod, "network");
  CHECK(eventually([&] { return cluster.log("network").contains("unchanged"); }, std::chrono::seconds(20)));
  all_leave_by_home(lab);
  cluster.stop("network");
  cluster.stop("agent");

  const json removal = pod_template("uninstall/daemonset.yaml");
  const Outcome refused = cluster.run(removal, "plugins");
  CHECK_FALSE(refused.ok());
  CHECK_THAT(refused.text(), ContainsSubstring("3 pods are attached"));
  all_leave_by_home(lab);
  for (const char* name : {"pod1", "pod2", "filtered"}) value_of(lab.del_pod(name));
  CHECK(cluster.run(removal, "plugins").ok());
  CHECK(cluster.run(removal, "datapath").ok());
  CHECK_FALSE(fs::exists(conflist));
  CHECK_FALSE(fs::exists("/opt/cni/bin/poduplink"));
  CHECK_FALSE(fs::exists(lab.pin_dir()));
  REQUIRE_CLOSED(lab);
}
