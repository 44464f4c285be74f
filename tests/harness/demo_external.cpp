// SPDX-License-Identifier: Apache-2.0
// `demo external`: a pod with a cluster network of Debian's bridge and a second NIC for everything outside.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/harness/demo.h"
#include "tests/harness/isolate.h"
#include "tests/harness/lab.h"
#include "tests/harness/outside.h"

namespace poduplink::harness {
namespace {

using Json = nlohmann::json;

// The bridge has a port of its own, so that pods change nothing of it.
constexpr const char* setup =
    "link add cni0 address 02:00:00:00:f4:01 type bridge\nlink add cniport type veth peer name cniend\n"
    "link set cniport master cni0 up\nlink set cniend up\nlink set cni0 up\n"
    "address add 10.244.1.1/24 broadcast 10.244.1.255 dev cni0";
constexpr const char* external = R"({"external":{"ifName":"ext0","clusterCIDRs":["10.244.0.0/16","10.96.0.0/12"]}})";
constexpr const char* bridge =
    R"({"cniVersion":"1.0.0","name":"cluster","type":"bridge","bridge":"cni0","isGateway":true,
    "ipam":{"type":"host-local","ranges":[[{"subnet":"10.244.1.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}})";

void print(const std::string& line) { std::cout << line << "\n"; }

struct Member {
  Pod pod;
  std::string result;
  IpAddress first;
  IpAddress second;
};

class ExternalDemo {
 public:
  // Errors: a step could not be taken. True: every packet went where it was to go, and nothing was left.
  Result<bool> run() {
    PDL_TRY_ASSIGN(lab_, Lab::create({.name = "demo", .uplinks = 2, .node_setup = setup}));
    PDL_TRY(lab_->start_agent(
        R"({"uplinks":[{"name":"eth1"},{"name":"eth2"}],"exempt":["10.244.0.0/16","10.96.0.0/12"]})"));
    PDL_TRY_ASSIGN(Member web, add("web"));
    PDL_TRY_ASSIGN(Member db, add("db"));
    PDL_TRY_ASSIGN(const Outside outside, Outside::watch(*lab_));
    // What goes from pod to pod never comes up from the bridge.
    PDL_TRY_ASSIGN(const Capture bridge_side, Capture::start(lab_->node(), "cni0"));
    PDL_TRY_ASSIGN(const Capture db_side, Capture::start(*db.pod.space, "eth0"));
    PDL_TRY(show(web));
    PDL_TRY(lab_->gateway(1).ip("route add 10.244.0.0/16 via 10.1.0.10 dev eth0"));
    print("\nWHAT                                        FROM          eth1  cni0  eth2   VERDICT");
    PDL_TRY_ASSIGN(const EchoServer server, EchoServer::start(*db.pod.space, {{db.first, echo_port}}));
    PDL_TRY_ASSIGN(const EchoServer own, EchoServer::start(*web.pod.space, {{web.first, echo_port}}));
    bool good = true;
    const auto row = [&](const std::string& what, const IpAddress& from, bool answered, std::array<bool, 3> wanted) {
      const FrameTest test = received_from(from);
      const auto on_bridge = [&](const Frame& frame) { return frame.packet.is_ip() && frame.packet.source == from; };
      const std::array<std::size_t, 3> seen{outside.at(1).count(test),
                                            bridge_side.count(on_bridge) + db_side.count(on_bridge),
                                            outside.at(2).count(test)};
      bool right = answered;
      for (std::size_t i = 0; i < seen.size(); ++i) right = right && (seen[i] > 0) == wanted[i];
      print(formatted("{:<43} {:<12} {:>5} {:>5} {:>5}   {}", what, from.text(), seen[0], seen[1], seen[2],
                      right ? "ok" : "WRONG"));
      good = good && right;
    };
    const bool out = exchange_udp(*web.pod.space, {.to = Outside::echo(Family::v4)}).has_value();
    row("web calls the outside", web.second, out, {false, false, true});
    const bool in = exchange_udp(*web.pod.space, {.to = {db.first, echo_port}}).has_value();
    row("web calls db by the cluster network", web.first, in, {false, true, false});
    const bool answer = exchange_udp(lab_->gateway(1), {.to = {web.first, echo_port}}).has_value();
    row("web answers a client outside of the node", web.first, answer, {true, true, false});
    for (Member* member : {&db, &web}) PDL_TRY(remove(*member, good));
    for (const std::string& line : lab_->close()) {
      print("WRONG: " + line);
      good = false;
    }
    print(good ? "\nThe cluster by the first network, everything outside by eth2; nothing is left." : "\nFAILED");
    return good;
  }

 private:
  Result<std::string> call_bridge(const std::string& verb, const Pod& pod, const std::string& previous) {
    PDL_TRY_ASSIGN(std::string config,
                   merged(bridge, formatted(R"({{"ipam":{{"dataDir":"{}"}}}})", lab_->ipam_dir("first"))));
    if (!previous.empty()) {
      PDL_TRY_ASSIGN(config, with_previous_result(config, previous));
    }
    return run_ok({.argv = {"/usr/lib/cni/bridge"},
                   .environment = {"CNI_COMMAND=" + verb, "CNI_CONTAINERID=" + pod.container_id,
                                   "CNI_NETNS=" + pod.space->path(), "CNI_IFNAME=eth0", "CNI_PATH=/usr/lib/cni"},
                   .input = config,
                   .netns_fd = lab_->node().fd()});
  }

  Result<PluginAnswer> call(const std::string& verb, const Member& member) {
    PDL_TRY_ASSIGN(const std::string config, with_previous_result(member.pod.config, member.result));
    return lab_->invoke(
        {.verb = verb, .container_id = member.pod.container_id, .netns = member.pod.space->path(), .config = config});
  }

  Result<Member> add(const std::string& name) {
    Member member;
    PDL_TRY_ASSIGN(member.pod,
                   lab_->make_pod(name, {.uplink = 2, .v6 = false, .network = "cluster", .patch = external}));
    PDL_TRY_ASSIGN(member.result, call_bridge("ADD", member.pod, ""));
    PDL_TRY_ASSIGN(const PluginAnswer answer, call("ADD", member));
    if (!answer.ok() || !answer.result) return fail("ADD of {}: {}", name, answer.text());
    member.result = answer.result->json;
    const Json ips = Json::parse(member.result).at("ips");
    PDL_TRY_ASSIGN(const Prefix first, Prefix::parse(ips.front().at("address").get<std::string>()));
    PDL_TRY_ASSIGN(const Prefix second, Prefix::parse(ips.back().at("address").get<std::string>()));
    member.first = first.address();
    member.second = second.address();
    return member;
  }

  static Result<> show(const Member& member) {
    for (const std::vector<std::string>& argv :
         {std::vector<std::string>{"ip", "-br", "-4", "address"}, {"ip", "route"}, {"ip", "rule"}}) {
      std::string line = "pod web$";
      for (const std::string& word : argv) line.append(" ").append(word);
      PDL_TRY_ASSIGN(const std::string text, member.pod.space->run_ok(argv));
      print(formatted("{}\n{}", line, text));
    }
    return {};
  }

  Result<> remove(const Member& member, bool& good) {
    PDL_TRY_ASSIGN(const PluginAnswer answer, call("DEL", member));
    if (!answer.ok()) return fail("DEL: {}", answer.text());
    PDL_TRY_ASSIGN(const std::string route, member.pod.space->run_ok({"ip", "route", "show", "default"}));
    const bool back = route.find("dev eth0") != std::string::npos;
    print(formatted("after DEL of {}: {}", member.pod.name,
                    back ? route.substr(0, route.find('\n')) : "WRONG: " + route));
    good = good && back;
    PDL_TRY(call_bridge("DEL", member.pod, member.result));
    return member.pod.space->remove();
  }

  std::unique_ptr<Lab> lab_;
};

}  // namespace

int run_external_demo() {
  isolate(true);
  const auto good = ExternalDemo().run();
  if (!good) std::cerr << "demo: error: " << good.error().message << "\n";
  return good && *good ? 0 : 1;
}

}  // namespace poduplink::harness
