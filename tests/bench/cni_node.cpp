// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/cni_node.h"

#include <chrono>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "cni/ipam/store.h"
#include "loader/base/file.h"
#include "loader/net/netns.h"
#include "loader/net/route.h"
#include "tests/bench/calls.h"
#include "tests/bench/full_node.h"
#include "tests/bench/must.h"

namespace poduplink::bench {
namespace {

using harness::Lab;
using harness::Namespace;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* peers_folder = "/usr/lib/cni";

// A plugin with one configuration.
struct Plugin {
  std::string variant;
  std::string path;      // of the plugin
  std::string cni_path;  // of its IPAM plugin
  std::string config;    // a file
};

std::string write_config(const Lab& lab, const std::string& variant, const Json& config) {
  std::string path = formatted("{}/{}.json", lab.folder(), variant);
  must(write_file_atomically(path, config.dump()));
  return path;
}

Call call_of(const Plugin& plugin, const std::string& verb, const Container& container) {
  return {.path = plugin.path,
          .environment = {"CNI_COMMAND=" + verb, "CNI_CONTAINERID=" + container.id,
                          "CNI_NETNS=" + container.space->path(), "CNI_IFNAME=eth0", "CNI_PATH=" + plugin.cni_path},
          .input = plugin.config};
}

// The time it took. Throws where it did not do what it was asked for.
double time_of(const Answer& answer, const Plugin& plugin, const std::string& verb) {
  const bool has_result = answer.out.find("\"ips\"") != std::string::npos;
  if (answer.status == 0 && has_result == (verb == "ADD")) return answer.us;
  throw std::runtime_error(formatted("{}: {} ended with {}: {}", plugin.variant, verb, answer.status, answer.out));
}

class PluginNode : public CniNode {
 public:
  PluginNode(const Namespace& node, Plugin plugin) : node_(node), plugin_(std::move(plugin)) {}

  Times run(const std::string& verb, const std::vector<Container>& containers) override {
    const NetnsScope scope = must(NetnsScope::enter(node_.fd()));
    Times times;
    for (const Container& container : containers) {
      const Answer answer = call(call_of(plugin_, verb, container));
      times[plugin_.variant].push_back(time_of(answer, plugin_, verb));
    }
    return times;
  }

  Times run_at_once(const std::string& verb, const std::vector<Container>& containers) override {
    const NetnsScope scope = must(NetnsScope::enter(node_.fd()));
    std::vector<Call> calls;
    calls.reserve(containers.size());
    for (const Container& container : containers) calls.push_back(call_of(plugin_, verb, container));
    Times times;
    for (const Answer& answer : call_at_once(calls)) times[plugin_.variant].push_back(time_of(answer, plugin_, verb));
    return times;
  }

 protected:
  [[nodiscard]] const Namespace& node() const { return node_; }

 private:
  const Namespace& node_;
  Plugin plugin_;
};

// ---- poduplink -------------------------------------------------------------------------------

// Attachments and, as its IPAM plugin has them, their reservations.
class Crowd {
 public:
  explicit Crowd(Lab& lab) : full_(lab), store_(data_dir(lab), "bench") { must(store_.create()); }

  static std::string data_dir(const Lab& lab) { return lab.ipam_dir("poduplink-ipam"); }

  void grow(unsigned attachments) {
    const Fd lock = must(store_.lock());
    for (; number_ < attachments; ++number_) {
      full_.add(number_, PDL_MODE_FAST);
      const ipam::Store::Draft draft = must(store_.draft(FullNode::id(number_)));
      must(store_.reserve(draft, full_.addresses(number_)));
    }
  }

 private:
  FullNode full_;
  ipam::Store store_;
  unsigned number_ = 0;
};

class PoduplinkNode final : public PluginNode {
 public:
  PoduplinkNode(const Lab& lab, Plugin plugin, std::shared_ptr<Crowd> crowd)
      : PluginNode(lab.node(), std::move(plugin)), crowd_(std::move(crowd)) {}

  void fill(unsigned attachments) override { crowd_->grow(attachments); }

 private:
  std::shared_ptr<Crowd> crowd_;
};

Json poduplink_config(const Lab& lab, bool dual_stack) {
  Json pools = Json::array();
  for (const unsigned number : lab.uplink_numbers()) {
    const harness::Uplink uplink = lab.uplink(number);
    Json pool = {{"uplink", uplink.name()}, {"prefix", 16}, {"gateway", uplink.gateway4().text()}};
    // The addresses of what is there already lie in it too.
    pool["ranges"] = {uplink.pod4(16, 1).text() + "-" + uplink.pod4(120, 254).text()};
    if (dual_stack) {
      pool["ranges"].push_back(uplink.pod6(16, 1).text() + "-" + uplink.pod6(16, 0xffff).text());
      pool["prefix6"] = 64;
      pool["gateway6"] = uplink.gateway6().text();
    }
    pools.push_back(pool);
  }
  return {{"cniVersion", "1.0.0"},
          {"name", "bench"},
          {"type", "poduplink"},
          {"pinDir", lab.pin_dir()},
          {"runDir", lab.run_dir()},
          {"ipam", {{"type", "poduplink-ipam"}, {"dataDir", Crowd::data_dir(lab)}, {"pools", pools}}}};
}

// ---- ptp and bridge --------------------------------------------------------------------------

// The n'th address from 0 of a peer's network; the first is the gateway's.
IpAddress peer_address(unsigned network, unsigned n) {
  return *IpAddress::parse(formatted("10.{}.{}.{}", network, n / 250, 1 + n % 250));
}

Json host_local_config(const Lab& lab, const std::string& type, unsigned network) {
  return {{"type", "host-local"},
          {"dataDir", lab.ipam_dir(type)},
          {"ranges", {{{{"subnet", formatted("10.{}.0.0/16", network)}}}}},
          {"routes", {{{"dst", "0.0.0.0/0"}}}}};
}

Json peer_config(const Lab& lab, const std::string& type, unsigned network) {
  Json config = {{"cniVersion", "1.0.0"}, {"name", type}, {"type", type}};
  if (type == "bridge") config.update({{"bridge", "cni0"}, {"isGateway", true}});
  config["ipam"] = host_local_config(lab, type, network);
  return config;
}

// A node with nothing but the settings of the lab's.
const Namespace& make_node(Lab& lab, const std::string& name) {
  const Namespace* made = must(lab.add_namespace(name));
  must(made->sysctl({"net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"}));
  return *made;
}

// A veth of a node that is up, its peer in a namespace of such peers.
class Veths {
 public:
  Veths(Lab& lab, const Namespace& node, const std::string& name)
      : peers_(must(lab.add_namespace(name + "-pods"))),
        host_(must(Netlink::open_in(node.fd()))),
        inside_(must(Netlink::open_in(peers_->fd()))) {}

  Link make(unsigned number) {
    const std::string name = formatted("veth{}", number);
    must(create_veth(host_, {.host_name = name,
                             .host_mac = must(random_mac()),
                             .peer_name = name,
                             .peer_mac = must(random_mac()),
                             .peer_netns_fd = peers_->fd(),
                             .mtu = 1500}));
    Link made = must(find_link_by_name(host_, name));
    must(set_link_up(host_, made.index));
    must(set_link_up(inside_, must(find_link_by_name(inside_, name)).index));
    return made;
  }
  Netlink& host() { return host_; }

 private:
  const Namespace* peers_;
  Netlink host_;
  Netlink inside_;
};

// ptp's veths have the gateway's address and a route to the pod, bridge's are ports of its bridge.
class PeerNode final : public PluginNode {
 public:
  PeerNode(Lab& lab, const Namespace& node, Plugin plugin, unsigned network)
      : PluginNode(node, plugin),
        veths_(lab, node, plugin.variant),
        network_(network),
        bridge_(plugin.variant == "bridge"),
        reservations_(formatted("{0}/{1}", lab.ipam_dir(plugin.variant), plugin.variant)) {
    must(make_directories(reservations_));
  }

  // Ports of a Linux bridge (BR_MAX_PORTS).
  [[nodiscard]] unsigned most() const override { return bridge_ ? 1023 : CniNode::most(); }

  void fill(unsigned attachments) override {
    std::string ports;
    for (; number_ < attachments; ++number_) {
      const Link veth = veths_.make(number_);
      const IpAddress address = peer_address(network_, number_ + 1);
      if (bridge_) {
        ports += formatted("link set {} master cni0\n", veth.name);
      } else {
        must(add_address(veths_.host(), veth.index, Prefix(peer_address(network_, 0), 32)));
        must(add_route(veths_.host(), host_route(address, veth.index)));
      }
      // As host-local writes it.
      must(write_file_atomically(formatted("{}/{}", reservations_, address.text()),
                                 formatted("pod-{}\r\neth0", number_), 0644));
    }
    if (!ports.empty()) must(node().ip(ports));
  }

 private:
  Veths veths_;
  unsigned network_;
  bool bridge_;
  std::string reservations_;
  unsigned number_ = 0;
};

std::unique_ptr<CniNode> peer_node(Lab& lab, const std::string& type, unsigned network) {
  const Namespace& node = make_node(lab, type);
  if (type == "bridge") must(node.ip(formatted("link add cni0 type bridge\nlink set cni0 up")));
  const Plugin plugin{.variant = type,
                      .path = formatted("{}/{}", peers_folder, type),
                      .cni_path = peers_folder,
                      .config = write_config(lab, type, peer_config(lab, type, network))};
  return std::make_unique<PeerNode>(lab, node, plugin, network);
}

// ---- the floor -------------------------------------------------------------------------------

class FloorNode final : public CniNode {
 public:
  FloorNode(Lab& lab, const Namespace& node)
      : node_(node),
        veths_(lab, node, "floor"),
        nothing_{.path = PODUPLINK_BENCH_NOTHING, .environment = {}, .input = "/dev/null"} {}

  void fill(unsigned attachments) override {
    for (; number_ < attachments; ++number_) veths_.make(number_);
  }

  Times run(const std::string& verb, const std::vector<Container>& containers) override {
    const NetnsScope scope = must(NetnsScope::enter(node_.fd()));
    Times times;
    for (const Container& container : containers) {
      const double request = verb == "ADD" ? make(container) : remove(container);
      double programs = 0;
      for (int i = 0; i < 2; ++i) programs += call(nothing_).us;
      times["kernel's request"].push_back(request);
      times["two programs' start"].push_back(programs);
      times["floor: request and programs"].push_back(request + programs);
    }
    return times;
  }

  Times run_at_once(const std::string& /*verb*/, const std::vector<Container>& /*containers*/) override { return {}; }

 private:
  static std::string name_of(const Container& container) { return "floor-" + container.id; }

  double make(const Container& container) {
    const VethRequest request{.host_name = name_of(container),
                              .host_mac = must(random_mac()),
                              .peer_name = "eth0",
                              .peer_mac = must(random_mac()),
                              .peer_netns_fd = container.space->fd(),
                              .mtu = 1500};
    const auto begin = Clock::now();
    must(create_veth(veths_.host(), request));
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }

  double remove(const Container& container) {
    const int index = must(find_link_by_name(veths_.host(), name_of(container))).index;
    const auto begin = Clock::now();
    must(delete_link(veths_.host(), index));
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }

  const Namespace& node_;
  Veths veths_;
  Call nothing_;
  unsigned number_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<CniNode>> poduplink_nodes(Lab& lab) {
  const auto crowd = std::make_shared<Crowd>(lab);
  std::vector<std::unique_ptr<CniNode>> nodes;
  for (const bool dual_stack : {false, true}) {
    const std::string variant = dual_stack ? "poduplink, IPv4 and IPv6" : "poduplink";
    const Plugin plugin{.variant = variant,
                        .path = harness::program_folder() + "/poduplink",
                        .cni_path = harness::program_folder(),
                        .config = write_config(lab, dual_stack ? "dual" : "single", poduplink_config(lab, dual_stack))};
    nodes.push_back(std::make_unique<PoduplinkNode>(lab, plugin, crowd));
  }
  return nodes;
}

std::unique_ptr<CniNode> ptp_node(Lab& lab) { return peer_node(lab, "ptp", 200); }

std::unique_ptr<CniNode> bridge_node(Lab& lab) { return peer_node(lab, "bridge", 201); }

std::unique_ptr<CniNode> floor_node(Lab& lab) { return std::make_unique<FloorNode>(lab, make_node(lab, "floor")); }

}  // namespace poduplink::bench
