// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/kernel_check.h"

#include <fcntl.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "loader/base/file.h"

namespace poduplink::harness {
namespace {

using Json = nlohmann::json;

class KernelCheck {
 public:
  KernelCheck(int node_fd, int container_fd, const AddResult& result)
      : node_fd_(node_fd), container_fd_(container_fd), result_(result), is_chained_(result.own != result.json) {}

  std::vector<std::string> run() {
    for (const ResultInterface& one : result_.interfaces) {
      const int netns = one.sandbox.empty() ? node_fd_ : container_fd_;
      // One interface and no list: lists are cut short while others come and go.
      const Json found = ip_list(netns, {"address", "show", "dev", one.name});
      if (found.empty()) continue;
      check_interface(one, found.front());
      if (!one.sandbox.empty()) check_addresses(found.front());
    }
    for (const char* family : {"-4", "-6"}) {
      check_container_routes(family, ip_list(container_fd_, {family, "route", "show", "table", "all"}));
      check_node_routes(family, ip_list(node_fd_, {family, "route", "show", "dev", result_.interfaces.front().name}));
    }
    return std::move(faults_);
  }

 private:
  void fault(std::string text) { faults_.push_back("kernel: " + std::move(text)); }

  Json ip_list(int netns, const std::vector<std::string>& arguments) {
    std::vector<std::string> argv{"ip", "-j", "-d"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const auto printed = run_ok({.argv = argv, .netns_fd = netns});
    Json list = printed ? Json::parse(printed->empty() ? "[]" : *printed, nullptr, false) : Json();
    if (list.is_array()) return list;
    fault(printed ? "`ip` printed no list: " + *printed : printed.error().message);
    return Json::array();
  }

  void check_interface(const ResultInterface& one, const Json& link) {
    const Json flags = link.value("flags", Json::array());
    if (std::ranges::find(flags, "UP") == flags.end()) fault(one.name + " is down");
    if (link.value("address", "") != one.mac)
      fault(formatted("{} has MAC {}, the result says {}", one.name, link.value("address", ""), one.mac));
    const unsigned mtu = link.value("mtu", 0U);
    if (one.mtu && *one.mtu != mtu) fault(formatted("{} has MTU {}, the result says {}", one.name, mtu, *one.mtu));
    if (mtu_ != 0 && mtu_ != mtu) fault(formatted("{} has MTU {}, the other end {}", one.name, mtu, mtu_));
    mtu_ = mtu;
  }

  void check_addresses(const Json& link) {
    std::vector<std::string> present;
    for (const Json& entry : link.value("addr_info", Json::array())) {
      // The kernel's own, which it makes and probes when it comes to it.
      if (entry.value("scope", "") == "link") continue;
      const std::string text = formatted("{}/{}", entry.value("local", ""), entry.value("prefixlen", 0));
      if (entry.value("tentative", false) || entry.value("dadfailed", false)) fault(text + " is tentative after ADD");
      present.push_back(text);
    }
    for (const ResultAddress& ip : result_.ips) {
      if (std::erase(present, ip.address) == 0) fault(ip.address + " is not on the container's interface");
    }
    for (const std::string& more : present) fault(more + " is on the container's interface and not in the result");
  }

  static std::string route_name(const std::string& prefix) {
    if (prefix == "0.0.0.0/0" || prefix == "::/0") return "default";
    const bool host = prefix.ends_with(prefix.find(':') == std::string::npos ? "/32" : "/128");
    return host ? prefix.substr(0, prefix.find('/')) : prefix;
  }

  void check_container_routes(const std::string& family, const Json& routes) {
    for (const Json& said : Json::parse(result_.own).value("routes", Json::array())) {
      const std::string dst = said.value("dst", "");
      if ((dst.find(':') == std::string::npos) != (family == "-4")) continue;
      const auto same = [&](const Json& route) {
        return route.value("dst", "") == route_name(dst) && route.value("gateway", "") == said.value("gw", "") &&
               // By the first network's interface the cluster is kept.
               (is_chained_ || route.value("dev", "") == result_.interfaces.back().name) &&
               (!said.contains("table") || route.value("table", "") == std::to_string(said["table"].get<unsigned>()));
      };
      if (std::ranges::none_of(routes, same)) fault("the container lacks the route " + said.dump());
    }
  }

  void check_node_routes(const std::string& family, const Json& routes) {
    for (const ResultAddress& ip : result_.ips) {
      if ((ip.address.find(':') == std::string::npos) != (family == "-4")) continue;
      const std::string host = ip.address.substr(0, ip.address.find('/'));
      const auto same = [&](const Json& route) { return route.value("dst", "") == host; };
      if (std::ranges::none_of(routes, same)) fault("the node lacks the route to " + host);
    }
  }

  int node_fd_;
  int container_fd_;
  const AddResult& result_;
  bool is_chained_ = false;
  unsigned mtu_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> faults_against_kernel(const Namespace& node, const Invocation& asked,
                                               const AddResult& result) {
  if (result.interfaces.size() < 2) return {"kernel: the result has not both ends of the veth"};
  const auto container = open_file(asked.netns, O_RDONLY);
  if (!container) return {"kernel: " + container.error().message};
  return KernelCheck(node.fd(), container->get(), result).run();
}

}  // namespace poduplink::harness
