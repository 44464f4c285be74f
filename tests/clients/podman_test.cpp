// SPDX-License-Identifier: Apache-2.0
// podman with its CNI backend. Debian 13's podman has none.
#include <catch2/generators/catch_generators.hpp>

#include "loader/base/file.h"
#include "tests/clients/client_node.h"
#include "tests/harness/outside.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

constexpr const char* image = "busybox";
constexpr const char* idle = "/bin/idle";

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream text(line);
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

class Podman {
 public:
  explicit Podman(unsigned uplinks) : node_(uplinks) {
    configure();
    const Outcome backend = call("info --format {{.Host.NetworkBackend}}");
    if (backend.text().find("cni support is not enabled") != std::string::npos)
      SKIP("this podman has no CNI backend any more: " << backend.err);
    INFO(backend.text());
    REQUIRE(backend.out == "cni\n");
    const std::string tar = node_.folder("image.tar");
    value_of(run_ok({.argv = {"tar", "-C", node_.image_folder(), "-cf", tar, "."}}));
    require("import -q " + tar + " " + image);
  }

  ClientNode& node() { return node_; }
  Lab& lab() { return *node_; }

  // `podman LINE`, in words.
  Outcome call(const std::string& line) {
    const std::vector<std::string> argv = words_of("podman " + line);
    return node_.run(argv, {"CONTAINERS_CONF=" + node_.folder("containers.conf"),
                            "CONTAINERS_STORAGE_CONF=" + node_.folder("storage.conf"), "HOME=" + node_.folder(),
                            "TMPDIR=" + node_.folder("tmp")});
  }

  std::string require(const std::string& line) {
    const Outcome outcome = call(line);
    INFO("podman " << line << ": " << outcome.text());
    REQUIRE(outcome.ok());
    return outcome.out.substr(0, outcome.out.find('\n'));
  }

  // `podman run` of a container that idles.
  Outcome run(const std::string& name, const std::string& options) {
    return call(formatted("run -d --name {} --cgroup-parent {} {} {} {}", name, node_.cgroup(), options, image, idle));
  }
  void require_run(const std::string& name, const std::string& options) {
    const Outcome outcome = run(name, options);
    INFO("podman run " << options << ": " << outcome.text());
    REQUIRE(outcome.ok());
  }
  void remove(const std::string& name) { require("rm -f -t 0 " + name); }

  Pod pod_of(const std::string& name, const std::string& if_name = "eth0") {
    return node_.pod_of(std::stoi(require("inspect --format {{.State.Pid}} " + name)), if_name);
  }

  void close() {
    node_.require_clean();
    REQUIRE_CLOSED(lab());
  }

 private:
  void configure() {
    std::string folders;
    for (const std::string& folder : node_.plugin_folders()) folders += "\"" + folder + "\",";
    for (const char* part : {"tmp", "volumes", "storage", "run"}) value_of(make_directories(node_.folder(part), 0700));
    value_of(write_file_atomically(
        node_.folder("containers.conf"),
        formatted("[containers]\ndefault_ulimits = []\n"
                  "[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n"
                  "tmp_dir = \"{0}tmp\"\nstatic_dir = \"{0}storage/libpod\"\nvolume_path = \"{0}volumes\"\n"
                  "[network]\nnetwork_backend = \"cni\"\nnetwork_config_dir = \"{1}\"\ncni_plugin_dirs = [{2}]\n",
                  node_.folder(), node_.net_d(), folders)));
    value_of(write_file_atomically(
        node_.folder("storage.conf"),
        formatted("[storage]\ndriver = \"vfs\"\nrunroot = \"{0}run\"\ngraphroot = \"{0}storage\"\n", node_.folder())));
  }

  ClientNode node_;
};

// By which a program leaves that asks for none.
std::string default_interface(const Pod& pod) {
  const std::string route = value_of(pod.space->run_ok({"ip", "route", "get", outside4}));
  std::istringstream words(route.substr(route.find(" dev ") + 5));
  std::string name;
  words >> name;
  return name;
}

Network network(const std::string& name, unsigned uplink, const std::string& patch = "{}") {
  Network result{.name = name, .pod = {}, .chained = {}};
  result.pod.uplink = uplink;
  result.pod.patch = patch;
  return result;
}

}  // namespace

TEST_CASE("C2 D2 K3: podman run and rm, in both modes and the versions that it knows") {
  Podman podman(2);
  for (const std::string version : {"0.3.1", "0.4.0", "1.0.0"}) {
    for (const std::string mode : {"fast", "netfilter"}) {
      INFO(version << " " << mode);
      Network pods = network("pods", 2);
      pods.pod.version = version;
      pods.pod.mode = mode;
      static_cast<void>(podman.node().add_network(pods));
      podman.require_run("web", "--network pods");
      {
        const Pod pod = podman.pod_of("web");
        podman.node().require_result(default_cache, pod);
        CHECK(pod.uplink == 2);
        podman.node().require_result(default_cache, pod);
        require_steered(podman.lab(), pod);
      }
      podman.require("exec web ping -c 1 -W 3 " + std::string(outside4));
      podman.remove("web");
      podman.node().require_clean();
    }
  }
  podman.close();
}

TEST_CASE("O5 O6 P3 P4: podman's --ip, --ip6 and --mac-address, as capabilities and by CNI_ARGS") {
  Podman podman(3);
  static_cast<void>(podman.node().add_network(network("declared", 3, R"({"capabilities":{"ips":true,"mac":true}})")));
  static_cast<void>(podman.node().add_network(network("undeclared", 3)));
  for (const std::string name : {"declared", "undeclared"}) {
    INFO(name);
    podman.require_run("web",
                       "--network " + name + " --ip 10.3.1.77 --ip6 fd00:3::1:77 --mac-address 02:0a:0b:0c:0d:0e");
    {
      const Pod pod = podman.pod_of("web");
      podman.node().require_result(default_cache, pod);
      CHECK(pod.v4->text() == "10.3.1.77");
      CHECK(pod.v6->text() == "fd00:3::1:77");
      CHECK(pod.mac.text() == "02:0a:0b:0c:0d:0e");
      podman.node().require_result(default_cache, pod);
      require_steered(podman.lab(), pod);
      // The address is held: nobody else gets it.
      const Outcome second = podman.run("other", "--network " + name + " --ip 10.3.1.77");
      CHECK_FALSE(second.ok());
      CHECK_THAT(second.err, ContainsSubstring("10.3.1.77"));
      podman.remove("other");
      require_steered(podman.lab(), pod);
    }
    podman.remove("web");
    podman.node().require_clean();
  }
  podman.close();
}

TEST_CASE("J15 N2: podman with two networks, a third one connected and one disconnected") {
  Podman podman(3);
  for (const unsigned uplink : {1U, 2U, 3U})
    static_cast<void>(podman.node().add_network(network(formatted("net{}", uplink), uplink)));
  podman.require_run("web", "--network net2:interface_name=eth0 --network net3:interface_name=eth1");
  // From an interface of its own each, by a program in the container.
  const auto require_ping = [&](const std::string& if_name, unsigned uplink) {
    INFO(if_name);
    const Pod pod = podman.pod_of("web", if_name);
    CHECK(pod.uplink == uplink);
    podman.node().require_result(default_cache, pod);
    const Outside outside = value_of(Outside::watch(podman.lab()));
    for (const Family family : {Family::v4, Family::v6}) {
      podman.require("exec web ping -c 1 -W 3 -I " + if_name + " " + Outside::address(family).text());
      CHECK_THAT(lines_of(outside.faults_from(family == Family::v4 ? *pod.v4 : *pod.v6, podman.lab().uplink(uplink))),
                 Equals(""));
    }
  };
  // podman adds them in any order; the first one has the default route.
  require_steered(podman.lab(), podman.pod_of("web", default_interface(podman.pod_of("web"))));
  require_ping("eth0", 2);
  require_ping("eth1", 3);
  podman.require("network connect net1 web");
  require_ping("eth2", 1);
  require_ping("eth0", 2);
  podman.require("network disconnect net3 web");
  require_ping("eth0", 2);
  require_ping("eth2", 1);
  CHECK_FALSE(podman.lab().leftovers().empty());
  podman.remove("web");
  podman.close();
}

TEST_CASE("N2 E11: podman -p with portmap behind; a podman pod with two containers") {
  Podman podman(3);
  Network ports = network("ports", 3, R"({"capabilities":{"portMappings":true}})");
  ports.chained = {R"({"type":"portmap","capabilities":{"portMappings":true}})"};
  static_cast<void>(podman.node().add_network(ports));
  SECTION("run -p") {
    podman.require_run("web", "--network ports -p 8080:7 -p 8080:7/udp");
    const Pod pod = podman.pod_of("web");
    podman.node().require_result(default_cache, pod);
    const EchoServer server = value_of(EchoServer::start(*pod.space, {{*pod.v4, 7}, {*pod.v6, 7}}));
    for (const unsigned number : podman.lab().uplink_numbers()) {
      INFO("from gateway " << number);
      const Uplink uplink = podman.lab().uplink(number);
      for (const IpAddress& node : {uplink.node4(), uplink.node6()}) {
        CHECK(value_of(exchange_tcp(podman.lab().gateway(number), {.to = {node, 8080}})) == "poduplink");
        CHECK(value_of(exchange_udp(podman.lab().gateway(number), {.to = {node, 8080}})) == "poduplink");
      }
    }
    require_steered(podman.lab(), pod);
  }
  SECTION("pod create") {
    podman.require(formatted(
        "pod create --name group --network ports -p 8080:7 --cgroup-parent {} --infra-image {} --infra-command {}",
        podman.node().cgroup(), image, idle));
    podman.require(formatted("run -d --name web --pod group {} {}", image, idle));
    podman.require(formatted("run -d --name db --pod group {} {}", image, idle));
    const Pod pod = podman.pod_of("web");
    podman.node().require_result(default_cache, pod);
    CHECK(podman.pod_of("db").v4 == pod.v4);
    const EchoServer server = value_of(EchoServer::start(*pod.space, {{*pod.v4, 7}}));
    CHECK(value_of(exchange_tcp(podman.lab().gateway(1), {.to = {podman.lab().uplink(1).node4(), 8080}})) ==
          "poduplink");
    require_steered(podman.lab(), pod);
    // One container of it goes, and the pod keeps its network.
    podman.remove("db");
    require_steered(podman.lab(), pod);
  }
  podman.call("pod rm -f -t 0 group");
  podman.call("rm -f -t 0 web");
  podman.close();
}

TEST_CASE("K3 F1: a network of podman that cannot be added: the reason is said, its DEL has no result, nothing stays") {
  Podman podman(2);
  std::string reason;
  std::size_t dels = 1;
  Network pods = network("pods", 2);
  pods.pod.ipam = Ipam::stub;
  SECTION("the IPAM plugin fails") {
    pods.pod.patch = R"({"ipam":{"behave":{"ADD":"fail"}}})";
    reason = "ipam stub-ipam: stub-ipam: told to fail";
    dels = 2;  // that of the roll-back, and podman's
  }
  SECTION("a plugin behind it fails") {
    pods.chained = {R"({"type":"tuning","sysctl":{"net.ipv4.conf.eth0.there_is_none":"1"}})"};
    reason = "there_is_none";
  }
  static_cast<void>(podman.node().add_network(pods));
  const Outcome outcome = podman.run("web", "--network pods");
  CHECK_FALSE(outcome.ok());
  CHECK_THAT(outcome.err, ContainsSubstring(reason));
  podman.node().require_clean();
  std::vector<std::string> calls;
  for (const std::string& call : podman.node().ipam_calls()) {
    if (call.find(R"("CNI_COMMAND":"DEL")") != std::string::npos) calls.push_back(call);
  }
  REQUIRE(calls.size() == dels);
  for (const std::string& call : calls) CHECK_THAT(call, !ContainsSubstring("prevResult"));
  podman.remove("web");
  podman.close();
}

TEST_CASE("N2 K3: podman runs a chain of bridge and an external network, and both go with the container") {
  Podman podman(2);
  Lab& lab = podman.lab();
  const std::string ours =
      lab.pod_config({.uplink = 2,
                      .network = "cluster",
                      .patch = R"({"external":{"ifName":"ext0","clusterCIDRs":["10.244.0.0/16"]}})"});
  const std::string first =
      formatted(R"({{"type":"bridge","bridge":"cni0","isGateway":true,"ipam":{{"type":"host-local",
      "dataDir":"{}","ranges":[[{{"subnet":"10.244.1.0/24"}}]],"routes":[{{"dst":"0.0.0.0/0"}}]}}}})",
                lab.ipam_dir("first"));
  value_of(write_file_atomically(
      podman.node().net_d() + "/cluster.conflist",
      formatted(R"({{"cniVersion":"1.0.0","name":"cluster","plugins":[{},{}]}})", first, ours), 0644));
  podman.require_run("web", "--network cluster");
  {
    const Pod pod = podman.pod_of("web", "ext0");
    CHECK(default_interface(pod) == "ext0");
    const std::string of_first = value_of(pod.space->run_ok({"ip", "route", "get", "10.244.1.1"}));
    CHECK_THAT(of_first, ContainsSubstring("dev eth0"));
    // What podman shows as the container's address is still the first network's.
    CHECK_THAT(podman.require("inspect --format {{.NetworkSettings.Networks.cluster.IPAddress}} web"),
               StartsWith("10.244.1."));
    const Outside outside = value_of(Outside::watch(lab));
    podman.require("exec web ping -c 1 -W 3 " + Outside::address(Family::v4).text());
    podman.require("exec web ping -c 1 -W 3 10.244.1.1");
    CHECK_THAT(lines_of(outside.faults_from(*pod.v4, lab.uplink(2))), Equals(""));
  }
  podman.remove("web");
  // bridge leaves its bridge and what it set.
  value_of(lab.node().run_ok({"ip", "link", "del", "cni0"}));
  podman.close();
}

TEST_CASE("D3: podman refuses a 1.1.0 network, and nothing stays") {
  Podman podman(2);
  Network pods = network("pods", 2);
  pods.pod.version = "1.1.0";
  static_cast<void>(podman.node().add_network(pods));
  const Outcome outcome = podman.run("web", "--network pods");
  CHECK_FALSE(outcome.ok());
  CHECK_THAT(outcome.err, ContainsSubstring("1.1.0"));
  podman.call("rm -f -t 0 web");
  podman.close();
}
