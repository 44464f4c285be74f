// SPDX-License-Identifier: Apache-2.0
// The plugin under libcni, the library of podman, containerd and CRI-O, with its own cache of results.
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>

#include "loader/base/file.h"
#include "tests/clients/client_node.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

namespace {

class Libcni {
 public:
  explicit Libcni(unsigned uplinks) : node_(uplinks) {}

  ClientNode& node() { return node_; }
  Lab& lab() { return *node_; }

  // A container without anything in it: its namespace.
  const Namespace& container(const std::string& name) { return *value_of(node_->add_namespace(name)); }

  Outcome call(const std::string& verb, const std::string& conflist, const Namespace& container,
               std::vector<std::string> more = {}) {
    std::string path;
    for (const std::string& folder : node_.plugin_folders()) path += (path.empty() ? "" : ":") + folder;
    std::vector<std::string> argv{program_folder() + "/tests/libcni-driver", "-verb", verb, "-conflist", conflist};
    for (std::string word : {std::string("-cache"), cache(), std::string("-path"), path, std::string("-id"),
                             container.name(), std::string("-netns"), container.path()})
      argv.push_back(std::move(word));
    argv.insert(argv.end(), more.begin(), more.end());
    return node_.run(argv, {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"});
  }

  void require_call(const std::string& verb, const std::string& conflist, const Namespace& container,
                    const std::vector<std::string>& more = {}) {
    const Outcome outcome = call(verb, conflist, container, more);
    INFO(verb << ": " << outcome.text());
    REQUIRE(outcome.ok());
    if (verb == "ADD") CHECK_THAT(outcome.out, ContainsSubstring("interfaces"));
    if (verb != "ADD") CHECK_THAT(outcome.out, Equals(""));
  }

  Pod pod_of(const Namespace& container, const std::string& if_name = "eth0") {
    const Background sleeper =
        value_of(Background::start({.argv = {"sleep", "60"}, .netns_fd = container.fd()}, node_.folder("sleeper.log")));
    return node_.pod_of(sleeper.pid(), if_name);
  }

  [[nodiscard]] std::string cache() const { return node_.folder("cache"); }
  // What libcni knows of attachments; a runtime can lose it.
  void lose_cache() const { std::filesystem::remove_all(cache()); }
  [[nodiscard]] bool has_cache() const { return !std::filesystem::is_empty(cache() + "/results"); }

  void close() {
    node_.require_clean();
    REQUIRE_CLOSED(lab());
  }

 private:
  ClientNode node_;
};

PodOptions on_uplink(unsigned uplink, const std::string& version = "1.0.0", const std::string& mode = "fast") {
  PodOptions options;
  options.uplink = uplink;
  options.version = version;
  options.mode = mode;
  return options;
}

}  // namespace

TEST_CASE("D1 N1 M5 K3: libcni's ADD, CHECK and DEL in every version that it knows, alone and with tuning behind") {
  Libcni libcni(3);
  unsigned number = 0;
  for (const std::string version : {"0.3.0", "0.3.1", "0.4.0", "1.0.0"}) {
    for (const std::string mode : {"fast", "netfilter"}) {
      INFO(version << " " << mode);
      const Namespace& container = libcni.container(formatted("c{}", ++number));
      const std::string list =
          libcni.node().add_network({"pods",
                                     on_uplink(2, version, mode),
                                     {R"({"type":"tuning","sysctl":{"net.ipv4.conf.eth0.arp_filter":"1"}})"}});
      libcni.require_call("ADD", list, container);
      {
        const Pod pod = libcni.pod_of(container);
        CHECK(pod.uplink == 2);
        libcni.node().require_result(libcni.cache(), pod);
        require_steered(libcni.lab(), pod);
      }
      CHECK(libcni.has_cache());
      if (version >= "0.4.0") libcni.require_call("CHECK", list, container);
      libcni.require_call("DEL", list, container);
      CHECK_FALSE(libcni.has_cache());
      // Once more, without the result that was kept.
      libcni.require_call("DEL", list, container);
      libcni.node().require_clean();
    }
  }
  libcni.close();
}

TEST_CASE("J15 K3 O1: two attachments of one container by libcni; capabilities; lost results; a lost namespace") {
  Libcni libcni(3);
  PodOptions first = on_uplink(2);
  first.patch = R"({"capabilities":{"mac":true,"ips":true}})";
  const std::string one = libcni.node().add_network({"one", first, {}});
  const std::string two = libcni.node().add_network({"two", on_uplink(3), {}});
  const Namespace& container = libcni.container("c");
  libcni.require_call("ADD", one, container,
                      {"-capabilities", R"({"mac":"02:0a:0b:0c:0d:0e","ips":["10.2.1.77"],"aliases":{"one":["c"]}})"});
  libcni.require_call("ADD", two, container, {"-ifname", "net1"});
  {
    const Pod pod = libcni.pod_of(container);
    CHECK(pod.mac.text() == "02:0a:0b:0c:0d:0e");
    CHECK(pod.v4->text() == "10.2.1.77");
    libcni.node().require_result(libcni.cache(), pod);
    require_steered(libcni.lab(), pod);
  }
  SECTION("the second goes, the first stays") {
    libcni.require_call("DEL", two, container, {"-ifname", "net1"});
    require_steered(libcni.lab(), libcni.pod_of(container));
    libcni.require_call("CHECK", one, container);
    libcni.require_call("DEL", one, container);
  }
  SECTION("the first goes, the second carries the container") {
    libcni.require_call("DEL", one, container);
    const Pod second = libcni.pod_of(container, "net1");
    CHECK(second.uplink == 3);
    require_steered(libcni.lab(), second);
    libcni.require_call("DEL", two, container, {"-ifname", "net1"});
  }
  SECTION("the results are lost") {
    libcni.lose_cache();
    libcni.require_call("DEL", two, container, {"-ifname", "net1"});
    libcni.require_call("DEL", one, container);
  }
  SECTION("the namespace is not named any more") {
    libcni.require_call("DEL", two, container, {"-ifname", "net1", "-netns", ""});
    libcni.require_call("DEL", one, container, {"-netns", "/run/netns/was-here"});
  }
  libcni.close();
}

TEST_CASE("K3 C28: a plugin behind it fails; libcni keeps no result, and DEL comes without one") {
  const std::string mode = GENERATE("fast", "netfilter");
  Libcni libcni(2);
  PodOptions pod = on_uplink(2, "1.0.0", mode);
  pod.ipam = Ipam::stub;
  const std::string list = libcni.node().add_network(
      {"pods", pod, {R"({"type":"tuning","sysctl":{"net.ipv4.conf.eth0.there_is_none":"1"}})"}});
  const Namespace& container = libcni.container("c");
  const Outcome added = libcni.call("ADD", list, container);
  CHECK_FALSE(added.ok());
  CHECK_THAT(added.out, ContainsSubstring("there_is_none"));
  CHECK_FALSE(libcni.lab().leftovers().empty());
  libcni.require_call("DEL", list, container);
  const std::vector<std::string> calls = libcni.node().ipam_calls();
  REQUIRE(calls.size() == 2);
  CHECK_THAT(calls.back(), ContainsSubstring(R"("CNI_COMMAND":"DEL")") && !ContainsSubstring("prevResult"));
  libcni.close();
}

TEST_CASE("C4: of a list with cniVersions libcni 1.1 takes cniVersion, and the plugin serves that") {
  Libcni libcni(2);
  const std::string list = libcni.node().add_network({"pods", on_uplink(2, "0.4.0"), {}});
  value_of(write_file_atomically(
      list, value_of(merged(value_of(read_file(list)), R"({"cniVersions":["0.4.0","1.0.0","1.1.0"]})"))));
  const Namespace& container = libcni.container("c");
  libcni.require_call("ADD", list, container);
  libcni.node().require_result(libcni.cache(), libcni.pod_of(container));
  libcni.require_call("DEL", list, container);
  libcni.close();
}

TEST_CASE("C26 K3: libcni kills the plugin at the runtime's deadline; DEL follows") {
  Libcni libcni(2);
  PodOptions pod = on_uplink(2);
  pod.ipam = Ipam::stub;
  pod.patch = R"({"ipam":{"behave":{"ADD":"hang"}}})";
  const std::string list = libcni.node().add_network({"pods", pod, {}});
  const Namespace& container = libcni.container("c");
  const Outcome added = libcni.call("ADD", list, container, {"-timeout", "500ms"});
  CHECK_FALSE(added.ok());
  CHECK_THAT(added.out, ContainsSubstring("killed"));
  libcni.require_call("DEL", list, container);
  libcni.close();
}

TEST_CASE("F1 F2 D3: the code and text of an error reach libcni's caller; it cannot read a 1.1.0 result") {
  Libcni libcni(2);
  const Namespace& container = libcni.container("c");
  SECTION("an error of ours") {
    PodOptions pod = on_uplink(2);
    pod.patch = R"({"ipMasq":true})";
    const Outcome added = libcni.call("ADD", libcni.node().add_network({"pods", pod, {}}), container);
    CHECK_FALSE(added.ok());
    CHECK_THAT(added.out, ContainsSubstring(R"("code":2)") && ContainsSubstring("ipMasq"));
  }
  SECTION("an error of the IPAM plugin") {
    PodOptions pod = on_uplink(2);
    pod.ipam = Ipam::stub;
    pod.patch = R"({"ipam":{"behave":{"ADD":"fail"}}})";
    const Outcome added = libcni.call("ADD", libcni.node().add_network({"pods", pod, {}}), container);
    CHECK_THAT(added.out, ContainsSubstring(R"("code":111)") && ContainsSubstring("ipam stub-ipam:"));
  }
  SECTION("a configuration of 1.1.0: DEL, which the runtime sends then, takes back what ADD made") {
    const std::string list = libcni.node().add_network({"pods", on_uplink(2, "1.1.0"), {}});
    const Outcome added = libcni.call("ADD", list, container);
    CHECK_FALSE(added.ok());
    CHECK_THAT(added.out, ContainsSubstring("unsupported CNI result version"));
    CHECK_FALSE(libcni.lab().leftovers().empty());
    libcni.require_call("DEL", list, container);
  }
  libcni.close();
}
