// SPDX-License-Identifier: Apache-2.0
// containerd's own client: `ctr run --cni`. It reads /etc/cni/net.d and /opt/cni/bin.
#include <catch2/generators/catch_generators.hpp>
#include <csignal>
#include <filesystem>

#include "loader/base/file.h"
#include "tests/clients/client_node.h"
#include "tests/harness/outside.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

namespace fs = std::filesystem;

constexpr const char* image = "test/busybox:1";

std::string sha256(const std::string& path) { return value_of(run_ok({.argv = {"sha256sum", path}})).substr(0, 64); }

class Containerd {
 public:
  explicit Containerd(unsigned uplinks) : node_(uplinks) {
    for (const std::string& folder : node_.plugin_folders()) {
      for (const char* plugin : {"poduplink", "poduplink-ipam", "stub-ipam"}) link_plugin(folder, plugin);
    }
    start();
    call({"images", "import", "--snapshotter", "native", make_image()});
  }

  ClientNode& node() { return node_; }
  Lab& lab() { return *node_; }

  // The only network list that ctr sees.
  void set_network(const Network& network) {
    fs::copy_file(node_.add_network(network), "/etc/cni/net.d/10-test.conflist", fs::copy_options::overwrite_existing);
  }

  Outcome try_call(std::vector<std::string> argv) { return node_.run(ctr(std::move(argv))); }
  std::string call(std::vector<std::string> argv) {
    const Outcome outcome = try_call(std::move(argv));
    INFO("ctr: " << outcome.text());
    REQUIRE(outcome.ok());
    return outcome.out;
  }

  std::vector<std::string> run_line(const std::string& name, const std::string& flag) {
    return {"run", flag, "--cni",    "--snapshotter", "native", "--cgroup", node_.cgroup() + "/" + name,
            image, name, "/bin/idle"};
  }
  // `ctr run` that waits for the container's end, and then removes it with its network.
  Background run_attached(const std::string& name) {
    Background process = value_of(Background::start(
        {.argv = ctr(run_line(name, "--rm")), .netns_fd = lab().node().fd()}, node_.folder(name + ".log")));
    INFO(read_file(node_.folder(name + ".log")).value_or(""));
    REQUIRE(eventually([&] { return process_of(name) > 0; }, std::chrono::seconds(20)));
    return process;
  }

  // 0: it does not run.
  pid_t process_of(const std::string& name) {
    std::istringstream tasks(try_call({"task", "ls"}).out);
    for (std::string line; std::getline(tasks, line);) {
      std::istringstream words(line);
      std::string task;
      std::string state;
      pid_t process = 0;
      if (words >> task >> process >> state && task == name && state == "RUNNING") return process;
    }
    return 0;
  }

  void kill(const std::string& name) { call({"task", "kill", "-s", "KILL", name}); }

  // Of a container that runs, or has not come to it.
  void remove(const std::string& name) {
    Outcome outcome;
    const bool removed = eventually(
        [&] {
          outcome = try_call({"task", "rm", "-f", name});
          return outcome.ok();
        },
        std::chrono::seconds(20));
    INFO("ctr task rm: " << outcome.text());
    REQUIRE(removed);
    call({"container", "rm", name});
  }

  void close() {
    value_of(daemon_.signal(SIGTERM));
    CHECK(daemon_.wait(std::chrono::seconds(10)) == 0);
    node_.require_clean();
    REQUIRE_CLOSED(lab());
  }

 private:
  std::vector<std::string> ctr(std::vector<std::string> argv) {
    argv.insert(argv.begin(), {"ctr", "-a", socket()});
    return argv;
  }
  [[nodiscard]] std::string socket() const { return node_.folder("c.sock"); }

  static void link_plugin(const std::string& folder, const std::string& plugin) {
    const std::string link = "/opt/cni/bin/" + plugin;
    if (fs::exists(folder + "/" + plugin) && !fs::exists(link)) fs::create_symlink(folder + "/" + plugin, link);
  }

  void start() {
    const std::string config = node_.folder("containerd.toml");
    value_of(write_file_atomically(config, formatted("version = 2\nroot = \"{0}root\"\nstate = \"{0}state\"\n"
                                                     "disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"
                                                     "[grpc]\naddress = \"{1}\"\n"
                                                     "[plugins.\"io.containerd.internal.v1.opt\"]\npath = \"{0}opt\"\n",
                                                     node_.folder(), socket())));
    const std::string log = node_.folder("containerd.log");
    daemon_ = value_of(Background::start({.argv = {"containerd", "-c", config}, .netns_fd = lab().node().fd()}, log));
    const bool answers = eventually([&] { return try_call({"version"}).ok(); }, std::chrono::seconds(20));
    INFO(read_file(log).value_or(""));
    REQUIRE(answers);
  }

  // An OCI image of one layer, as a tar file.
  std::string make_image() {
    const std::string layout = node_.folder("oci");
    const std::string blobs = layout + "/blobs/sha256";
    value_of(make_directories(blobs, 0755));
    // Moves a file to where its sum says, and describes it.
    const auto put = [&](const std::string& file, const std::string& type) {
      const std::string sum = sha256(file);
      const std::string text =
          formatted(R"({{"mediaType":"application/vnd.oci.image.{}","digest":"sha256:{}","size":{}}})", type, sum,
                    fs::file_size(file));
      fs::rename(file, blobs + "/" + sum);
      return text;
    };
    const auto put_text = [&](const std::string& text, const std::string& type) {
      value_of(write_file_atomically(node_.folder("blob"), text, 0644));
      return put(node_.folder("blob"), type);
    };
    const std::string tar = node_.folder("layer.tar");
    value_of(run_ok({.argv = {"tar", "-C", node_.image_folder(), "-cf", tar, "."}}));
    const std::string layer_sum = sha256(tar);
    const std::string layer = put(tar, "layer.v1.tar");
    const std::string architecture = value_of(run_ok({.argv = {"dpkg", "--print-architecture"}}));
    const std::string config =
        put_text(formatted(R"({{"architecture":"{}","os":"linux","config":{{"Cmd":["/bin/idle"]}},)"
                           R"("rootfs":{{"type":"layers","diff_ids":["sha256:{}"]}}}})",
                           architecture.substr(0, architecture.find('\n')), layer_sum),
                 "config.v1+json");
    std::string manifest =
        put_text(formatted(R"({{"schemaVersion":2,"config":{},"layers":[{}]}})", config, layer), "manifest.v1+json");
    manifest.insert(manifest.size() - 1, formatted(R"(,"annotations":{{"io.containerd.image.name":"{}"}})", image));
    value_of(write_file_atomically(layout + "/index.json",
                                   formatted(R"({{"schemaVersion":2,"manifests":[{}]}})", manifest), 0644));
    value_of(write_file_atomically(layout + "/oci-layout", R"({"imageLayoutVersion":"1.0.0"})", 0644));
    value_of(run_ok({.argv = {"tar", "-C", layout, "-cf", node_.folder("oci.tar"), "."}}));
    return node_.folder("oci.tar");
  }

  ClientNode node_;
  Background daemon_;
};

Network network(unsigned uplink, const std::string& mode = "fast") {
  Network result{.name = "pods", .pod = {}, .chained = {}};
  result.pod.uplink = uplink;
  result.pod.mode = mode;
  return result;
}

std::size_t entries_of(const Lab& lab) { return value_of(value_of(lab.tables()).pods.entries()).size(); }

}  // namespace

TEST_CASE("K3 J3 E5: ctr run --cni; its DEL names no namespace and brings the result") {
  Containerd containerd(3);
  for (const std::string mode : {"fast", "netfilter"}) {
    INFO(mode);
    containerd.set_network(network(3, mode));
    Background web = containerd.run_attached("web");
    {
      const Pod pod = containerd.node().pod_of(containerd.process_of("web"));
      CHECK(pod.uplink == 3);
      containerd.node().require_result(default_cache, pod);
      require_steered(containerd.lab(), pod);
    }
    containerd.kill("web");
    CHECK(web.wait(std::chrono::seconds(20)));
    containerd.node().require_clean({"containerd"});
  }
  // The same, with an IPAM plugin that writes down what it is sent.
  Network recorded = network(2);
  recorded.pod.ipam = Ipam::stub;
  containerd.set_network(recorded);
  Background web = containerd.run_attached("web");
  require_steered(containerd.lab(), containerd.node().pod_of(containerd.process_of("web")));
  containerd.kill("web");
  CHECK(web.wait(std::chrono::seconds(20)));
  const std::vector<std::string> calls = containerd.node().ipam_calls();
  REQUIRE(calls.size() == 2);
  CHECK_THAT(calls.front(), ContainsSubstring(R"("CNI_COMMAND":"ADD")") && ContainsSubstring(R"("CNI_NETNS":"/proc/)"));
  CHECK_THAT(calls.back(), ContainsSubstring(R"("CNI_COMMAND":"DEL")") && ContainsSubstring(R"("CNI_NETNS":"")") &&
                               ContainsSubstring("prevResult"));
  containerd.close();
}

TEST_CASE("K3 C4 C9 G8: ctr run -d never sends DEL: the agent takes the entries away, GC gives the addresses back") {
  const std::string mode = GENERATE("fast", "netfilter");
  Containerd containerd(2);
  containerd.set_network(network(2, mode));
  containerd.call(containerd.run_line("web", "-d"));
  std::string address;
  {
    const Pod pod = containerd.node().pod_of(containerd.process_of("web"));
    address = pod.v4->text();
    containerd.node().require_result(default_cache, pod);
    require_steered(containerd.lab(), pod);
  }
  REQUIRE(entries_of(containerd.lab()) == 2);
  containerd.remove("web");

  // Nobody called DEL. The veth went with the namespace, and the agent sees that.
  REQUIRE(eventually([&] { return entries_of(containerd.lab()) == 0; }, std::chrono::seconds(10)));
  const std::string left = lines_of(containerd.lab().leftovers());
  INFO(left);
  CHECK_THAT(left, ContainsSubstring("record") && ContainsSubstring("reservation"));

  // The address is not given out again, and other containers come and go.
  Background other = containerd.run_attached("other");
  {
    const Pod pod = containerd.node().pod_of(containerd.process_of("other"));
    CHECK(pod.v4->text() != address);
    require_steered(containerd.lab(), pod);
  }
  containerd.kill("other");
  CHECK(other.wait(std::chrono::seconds(20)));

  // A container of the same name is the same attachment, which is still there.
  const Outcome again = containerd.try_call(containerd.run_line("web", "-d"));
  CHECK_FALSE(again.ok());
  CHECK_THAT(again.err, ContainsSubstring("default-web"));
  containerd.remove("web");

  // What a runtime that knows 1.1.0 sends when it has no container.
  PodOptions collected = network(2, mode).pod;
  collected.network = "pods";
  collected.version = "1.1.0";
  collected.patch = R"({"cni.dev/valid-attachments":[]})";
  const PluginAnswer answer = value_of(containerd.lab().invoke({.verb = "GC",
                                                                .container_id = "",
                                                                .netns = "",
                                                                .if_name = "",
                                                                .config = containerd.lab().pod_config(collected)}));
  INFO(answer.text());
  CHECK(answer.ok());
  containerd.close();
}
