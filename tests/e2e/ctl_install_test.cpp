// SPDX-License-Identifier: Apache-2.0
// install and uninstall: all of it or nothing, the conflist last and gone first, and nothing that is not ours.
#include <poll.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/generators/catch_generators.hpp>
#include <csignal>
#include <filesystem>
#include <map>

#include "loader/base/file.h"
#include "maps/agent_state.h"
#include "tests/e2e/ctl.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* conflist_name = "10-poduplink.conflist";

// A runtime's two folders, and a conflist to install.
class Runtime {
 public:
  explicit Runtime(Lab& lab) : lab_(lab), folder_(lab.folder() + "/runtime") {
    for (const std::string& one : {bin(), conf(), source()}) value_of(make_directories(one, 0755));
    for (const char* name : {"poduplink", "poduplink-ipam"})
      fs::copy_file(formatted("{}/{}", program_folder(), name), formatted("{}/{}", source(), name));
    write_conflist(network());
  }

  [[nodiscard]] std::string bin() const { return folder_ + "/bin"; }
  [[nodiscard]] std::string conf() const { return folder_ + "/net.d"; }
  [[nodiscard]] std::string source() const { return folder_ + "/source"; }
  [[nodiscard]] std::string conflist() const { return folder_ + "/cni.conflist"; }

  [[nodiscard]] static json network() {
    return json::parse(R"({"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "poduplink", "ipam": {
      "type": "poduplink-ipam", "pools": [{"uplink": "eth1", "ranges": ["10.1.1.1-10.1.1.9"], "prefix": 16}]}}]})");
  }
  void write_conflist(const json& document) const {
    value_of(write_file_atomically(conflist(), document.dump(), 0644));
  }

  [[nodiscard]] Outcome install(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"install", "--source", source(), "--conflist", conflist()};
    return call(std::move(arguments), more);
  }
  [[nodiscard]] Outcome uninstall(const std::vector<std::string>& more = {}) const { return call({"uninstall"}, more); }

  // Path within the folders → content, temporary files and all.
  [[nodiscard]] std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const std::string& folder : {bin(), conf()}) {
      for (const auto& entry : fs::directory_iterator(folder))
        all[entry.path().string()] = entry.is_regular_file() ? value_of(read_file(entry.path())) : "no file";
    }
    return all;
  }

 private:
  [[nodiscard]] Outcome call(std::vector<std::string> arguments, const std::vector<std::string>& more) const {
    arguments.insert(arguments.end(), {"--cni-bin-dir", bin(), "--cni-conf-dir", conf()});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ctl(lab_, arguments);
  }

  Lab& lab_;
  std::string folder_;
};

// {"poduplink": "new", …} of -o json.
std::map<std::string, std::string> done(const Outcome& outcome) {
  INFO(outcome.text());
  const json document = json::parse(outcome.out, nullptr, false);
  REQUIRE_FALSE(document.is_discarded());
  std::map<std::string, std::string> files;
  for (const json& file : document.at("files"))
    files[fs::path(file.at("path").get<std::string>()).filename()] = file.at("what");
  return files;
}

std::map<std::string, std::string> all_are(const std::string& what) {
  return {{"poduplink", what}, {"poduplink-ipam", what}, {conflist_name, what}};
}

unsigned mode_of(const std::string& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}

// Names in the order in which they came to these folders, or went.
class Watch {
 public:
  Watch(const Runtime& runtime, std::uint32_t events) : fd_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    for (const std::string& folder : {runtime.bin(), runtime.conf()})
      REQUIRE(inotify_add_watch(fd_.get(), folder.c_str(), events) >= 0);
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    alignas(inotify_event) std::array<char, 65536> buffer{};
    const ssize_t size = ::read(fd_.get(), buffer.data(), buffer.size());
    for (ssize_t at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);  // NOLINT
      const std::string name = static_cast<const char*>(event->name);
      if (!name.contains(".conflist.") && !name.starts_with("poduplink.") && !name.starts_with("poduplink-ipam."))
        all.push_back(name);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
    return all;
  }

 private:
  Fd fd_;
};

// Another build of the plugin: the same program and an octet more.
void make_older(const std::string& path) {
  value_of(write_file_atomically(path, value_of(read_file(path)) + "x", 0700));
}

}  // namespace

TEST_CASE("install: plugins, then the conflist, each whole and with its mode; again, nothing is touched") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  const Runtime runtime(*lab);
  const Watch watch(runtime, IN_MOVED_TO | IN_CREATE);
  CHECK(done(runtime.install({"-o", "json"})) == all_are("new"));
  CHECK(watch.names() == std::vector<std::string>{"poduplink", "poduplink-ipam", conflist_name});
  for (const char* name : {"poduplink", "poduplink-ipam"}) {
    const std::string path = formatted("{}/{}", runtime.bin(), name);
    CHECK(value_of(read_file(path)) == value_of(read_file(formatted("{}/{}", runtime.source(), name))));
    CHECK(mode_of(path) == 0755);
    CHECK(value_of(run({.argv = {path, "--version"}})).ok());
  }
  CHECK(value_of(read_file(runtime.conf() + "/" + conflist_name)) == value_of(read_file(runtime.conflist())));
  CHECK(mode_of(runtime.conf() + "/" + conflist_name) == 0644);

  CHECK(done(runtime.install({"-o", "json"})) == all_are("unchanged"));
  CHECK(watch.names().empty());
  // By itself it finds the plugins beside it, and needs no conflist.
  fs::remove_all(runtime.bin());
  const Outcome plain = ctl(*lab, {"install", "--cni-bin-dir", runtime.bin(), "--cni-conf-dir", runtime.conf()});
  INFO(plain.text());
  CHECK(plain.ok());
  CHECK_THAT(plain.out, ContainsSubstring("without a conflist") && ContainsSubstring("poduplink-ipam"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("install: a plugin that is running is replaced, and runs on; what a killed install left goes") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  const Runtime runtime(*lab);
  REQUIRE(runtime.install().ok());
  const std::string plugin = runtime.bin() + "/poduplink";
  make_older(plugin);
  value_of(run({.argv = {"chmod", "755", plugin}}));
  value_of(write_file_atomically(plugin + ".a1B2c3", "half", 0600));
  // It waits for its configuration.
  Background running = value_of(Background::start(
      {.argv = {"sh", "-c", "sleep 1000 | CNI_COMMAND=VERSION exec " + plugin}}, lab->folder() + "/plugin.log"));
  REQUIRE(eventually([&] { return value_of(run({.argv = {"pgrep", "-xf", plugin}})).ok(); }));
  const Outcome outcome = runtime.install({"-o", "json"});
  CHECK(done(outcome).at("poduplink") == "replaced");
  CHECK(done(outcome).at("poduplink-ipam") == "unchanged");
  CHECK(value_of(read_file(plugin)) == value_of(read_file(runtime.source() + "/poduplink")));
  CHECK(value_of(run({.argv = {"pgrep", "-xf", plugin}})).ok());
  CHECK(runtime.files().size() == 3);
  value_of(run({.argv = {"pkill", "-xf", "sleep 1000"}}));
  CHECK(running.wait(std::chrono::seconds(5)) == 0);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("install: whatever step fails, nothing is installed and nothing is left, and the message names it") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  const Runtime runtime(*lab);
  const bool anew = GENERATE(true, false);  // into empty folders; over an older build
  std::string part;
  std::vector<std::string> mounted;
  const auto mount_over = [&](const std::string& folder, unsigned long flags, const char* options) {
    REQUIRE(::mount("tmpfs", folder.c_str(), "tmpfs", flags, options) == 0);
    mounted.push_back(folder);
  };
  json network = Runtime::network();
  json& plugin = network["plugins"][0];
  bool named = true;
  if (!anew) {
    REQUIRE(runtime.install().ok());
    make_older(runtime.bin() + "/poduplink");
    make_older(runtime.bin() + "/poduplink-ipam");
  }

  SECTION("a plugin is missing") {
    fs::remove(runtime.source() + "/poduplink-ipam");
    part = runtime.source() + "/poduplink-ipam: No such file";
  }
  SECTION("a plugin is something else") {
    fs::copy_file("/bin/true", runtime.source() + "/poduplink-ipam", fs::copy_options::overwrite_existing);
    part = runtime.source() + "/poduplink-ipam is no plugin of poduplink";
  }
  SECTION("there is no conflist of that name") {
    named = false;
    part = runtime.conflist() + ": No such file";
  }
  SECTION("the conflist is no JSON") {
    network = "text";
    part = "cni.conflist is no JSON object";
  }
  SECTION("the conflist has no name") {
    network.erase("name");
    part = "has no 'name'";
  }
  SECTION("the conflist has no plugins") {
    network["plugins"] = json::array();
    part = "has no 'plugins'";
  }
  SECTION("the conflist is another's") {
    plugin["type"] = "bridge";
    plugin["ipam"]["type"] = "host-local";
    part = "calls no plugin of poduplink";
  }
  SECTION("the plugin refuses its configuration") {
    plugin["mode"] = "fastest";
    part = "network 'pods': key 'mode'";
  }
  SECTION("the IPAM plugin refuses its configuration") {
    plugin["ipam"]["pools"][0]["ranges"] = {"10.1.1.300"};
    part = "network 'pods': ipam: ";
  }
  SECTION("another's file has the plugin's name") {
    fs::copy_file("/bin/true", runtime.bin() + "/poduplink", fs::copy_options::overwrite_existing);
    part = runtime.bin() + "/poduplink is no plugin of poduplink";
  }
  SECTION("a folder has the conflist's name") {
    fs::remove(runtime.conf() + "/" + conflist_name);
    fs::create_directory(runtime.conf() + "/" + conflist_name);
    part = std::string(conflist_name) + " is there and is no file";
  }
  SECTION("another conflist is there") {
    value_of(write_file_atomically(runtime.conf() + "/" + conflist_name, "{}", 0644));
    part = "is another one than the one to be installed";
  }
  SECTION("the plugins' folder is read-only") {
    mount_over(runtime.bin(), MS_RDONLY, nullptr);
    part = "Read-only file system";
  }
  SECTION("the plugins' folder is full") {
    mount_over(runtime.bin(), 0, "size=1M");
    part = "No space left";
  }
  SECTION("the networks' folder is read-only") {
    mount_over(runtime.conf(), MS_RDONLY, nullptr);
    part = "Read-only file system";
  }
  SECTION("the networks' folder is full") {
    mount_over(runtime.conf(), 0, "nr_inodes=1");
    part = "No space left";
  }
  runtime.write_conflist(network);
  if (!named) fs::remove(runtime.conflist());
  const auto before = runtime.files();
  const Outcome outcome = runtime.install();
  INFO(outcome.text());
  CHECK(outcome.status == 1);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, ContainsSubstring(part));
  CHECK(runtime.files() == before);
  for (const std::string& folder : mounted) CHECK(::umount(folder.c_str()) == 0);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("install: --force replaces what is another's; a network that would be taken first is told") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  const Runtime runtime(*lab);
  fs::copy_file("/bin/true", runtime.bin() + "/poduplink");
  value_of(write_file_atomically(runtime.conf() + "/" + conflist_name, "{}", 0644));
  value_of(write_file_atomically(runtime.conf() + "/05-other.conf", "{}", 0644));
  json network = Runtime::network();
  network["plugins"].push_back({{"type", "portmap"}});
  runtime.write_conflist(network);
  CHECK(runtime.install().status == 1);
  const Outcome outcome = runtime.install({"--force"});
  INFO(outcome.text());
  CHECK(outcome.ok());
  CHECK_THAT(outcome.out, ContainsSubstring("05-other.conf comes first"));
  CHECK_THAT(outcome.out, ContainsSubstring("plugin 'portmap' of network 'pods' is not in " + runtime.bin()));
  CHECK(value_of(read_file(runtime.conf() + "/" + conflist_name)) == network.dump());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("install --wait-ready: nothing before an agent of this build says that it is ready, and then all") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  const Runtime runtime(*lab);
  const auto refused = [&](const std::string& part) {
    const Outcome outcome = runtime.install({"--wait-ready", "0.3"});
    INFO(outcome.text());
    CHECK(outcome.status == 1);
    CHECK_THAT(outcome.err, ContainsSubstring("nothing was installed") && ContainsSubstring(part));
    CHECK(runtime.files().empty());
  };
  refused("there is no " + lab->run_dir() + "/agent.json");
  value_of(lab->start_agent());
  value_of(write_file_atomically(lab->folder() + "/agent.json", R"({"uplinks": [{"name": "eth7"}]})"));
  value_of(lab->agent().kill(SIGHUP));
  const auto is_ready = [&] { return value_of(load_agent_state(lab->run_dir())).value().ready; };
  CHECK(eventually([&] { return !is_ready(); }));
  refused("eth7");
  value_of(write_file_atomically(lab->folder() + "/agent.json", lab->default_agent_config()));
  value_of(lab->agent().kill(SIGHUP));
  CHECK(eventually(is_ready));
  value_of(lab->agent().kill_hard());
  const std::string said = value_of(read_file(lab->run_dir() + "/agent.json"));
  json other = json::parse(said);
  other["version"] = "0.0.1";
  value_of(write_file_atomically(lab->run_dir() + "/agent.json", other.dump()));
  refused("the agent is version 0.0.1");
  value_of(write_file_atomically(lab->run_dir() + "/agent.json", said));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // past the clock tick of that file's time stamp
  value_of(run({.argv = {"touch", lab->run_dir() + "/agent.lock"}}));
  refused("it is starting");

  // It waits for one that comes later.
  Background waiting = value_of(Background::start(
      {.argv = {program_folder() + "/poduplinkctl", "--pin-dir", lab->pin_dir(), "--run-dir", lab->run_dir(), "install",
                "--source", runtime.source(), "--conflist", runtime.conflist(), "--cni-bin-dir", runtime.bin(),
                "--cni-conf-dir", runtime.conf(), "--wait-ready"},
       .netns_fd = lab->node().fd()},
      lab->folder() + "/install.log"));
  CHECK_FALSE(waiting.wait(std::chrono::milliseconds(500)));
  CHECK(runtime.files().empty());
  value_of(lab->start_agent());
  CHECK(waiting.wait(std::chrono::seconds(10)) == 0);
  CHECK(runtime.files().size() == 3);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("uninstall: the conflist first, only what is ours, and not while pods are attached") {
  auto lab = lab_with_agent({.uplinks = 1});
  const Runtime runtime(*lab);
  REQUIRE(runtime.install().ok());
  PodOptions options{.uplink = 1};
  options.args = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0";
  value_of(lab->add_pod("web", options));
  const auto before = runtime.files();
  const Outcome refused = runtime.uninstall();
  INFO(refused.text());
  CHECK(refused.status == 1);
  CHECK_THAT(refused.err, ContainsSubstring("a pod is attached (web-0)"));
  CHECK(runtime.files() == before);

  SECTION("the conflist alone, and the rest when the pod has gone") {
    const Outcome first = runtime.uninstall({"--only", "conflist", "-o", "json"});
    CHECK(done(first) == std::map<std::string, std::string>{{conflist_name, "removed"}});
    CHECK(json::parse(first.out).at("attachments") == 1);
    CHECK(runtime.files().size() == 2);
    value_of(lab->del_pod("web"));
    CHECK(done(runtime.uninstall({"-o", "json"})).at("poduplink") == "removed");
    CHECK(runtime.files().empty());
    CHECK(done(runtime.uninstall({"-o", "json"})) == all_are("absent"));
  }
  SECTION("by force, in order") {
    const Watch watch(runtime, IN_DELETE);
    const Outcome forced = runtime.uninstall({"--force"});
    CHECK(forced.ok());
    CHECK_THAT(forced.out, ContainsSubstring("pods are still attached (1)"));
    CHECK(watch.names() == std::vector<std::string>{conflist_name, "poduplink", "poduplink-ipam"});
  }
  SECTION("what is another's stays") {
    value_of(lab->del_pod("web"));
    fs::copy_file("/bin/true", runtime.bin() + "/poduplink", fs::copy_options::overwrite_existing);
    value_of(write_file_atomically(runtime.conf() + "/" + conflist_name,
                                   R"({"cniVersion":"1.0.0","name":"x","plugins":[{"type":"bridge"}]})", 0644));
    const Outcome outcome = runtime.uninstall({"-o", "json"});
    CHECK(done(outcome) == std::map<std::string, std::string>{
                               {"poduplink", "left"}, {"poduplink-ipam", "removed"}, {conflist_name, "left"}});
    CHECK(runtime.files().size() == 2);
  }
  SECTION("a network under another name needs the plugins") {
    value_of(lab->del_pod("web"));
    fs::rename(runtime.conf() + "/" + conflist_name, runtime.conf() + "/99-mine.conflist");
    value_of(write_file_atomically(runtime.conf() + "/98-other.conflist", "{}", 0644));
    const Outcome outcome = runtime.uninstall();
    CHECK(outcome.status == 1);
    CHECK_THAT(outcome.err, ContainsSubstring("99-mine.conflist") && !ContainsSubstring("98-other"));
    CHECK(runtime.files().size() == 4);
    CHECK(runtime.uninstall({"--force"}).ok());
    CHECK(runtime.files().size() == 2);
  }
  if (lab->pods().contains("web")) value_of(lab->del_pod("web"));
  REQUIRE_CLOSED(*lab);
}
