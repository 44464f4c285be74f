// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/external_node.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "loader/base/file.h"
#include "tests/harness/capture.h"
#include "tests/harness/kernel_check.h"

namespace poduplink::harness {
namespace {

using Json = nlohmann::json;
using Catch::Matchers::Equals;

constexpr const char* network = "cluster";
constexpr const char* overlay = "vxlan0";
constexpr const char* underlay = "und0";

std::string pods4(unsigned number) { return formatted("10.244.{}.0/24", number); }
std::string pods6(unsigned number) { return formatted("fd00:244:{}::/64", number); }

// The bridge is there before the first pod and has a port, so that pods change nothing of it.
std::string bridge_setup(unsigned number) {
  return formatted(
      "link add cni0 address 02:00:00:00:f4:0{0} mtu 1500 type bridge\n"
      "link add cniport type veth peer name cniend\n"
      "link set cniport master cni0 up\nlink set cniend up\nlink set cni0 up\n"
      "address add 10.244.{0}.1/24 broadcast 10.244.{0}.255 dev cni0\naddress add fd00:244:{0}::1/64 dev cni0 nodad\n",
      number);
}

IpAddress address_of(const std::string& result, Family family, const std::string& interface) {
  const Json json = Json::parse(result);
  for (const Json& ip : json.at("ips")) {
    const Json& its = json.at("interfaces").at(ip.at("interface").get<std::size_t>());
    const auto prefix = Prefix::parse(ip.at("address").get<std::string>());
    if (its.at("name") == interface && prefix && prefix->family() == family) return prefix->address();
  }
  FAIL("no address of " << interface << " in " << result);
  return {};
}

}  // namespace

void require_settled(const Namespace& space) {
  REQUIRE(eventually(
      [&] { return value_of(space.run_ok({"ip", "address", "show"})).find("tentative") == std::string::npos; }));
}

// ---- the node ----------------------------------------------------------------------------------

ExternalNode::ExternalNode(unsigned number, const std::string& agent_patch) : number_(number) {
  lab_ = value_of(Lab::create({.name = number == 1 ? "lab" : formatted("lab{}", number),
                               .uplinks = external_uplink,
                               .node_setup = bridge_setup(number)}));
  const std::string config =
      value_of(merged(lab_->default_agent_config(), formatted(R"({{"exempt":{}}})", cluster_cidrs)));
  value_of(lab_->start_agent(value_of(merged(config, agent_patch))));
}

std::string ExternalNode::first_config(const ChainOptions& options) const {
  Json config = {{"cniVersion", options.version}, {"name", network}, {"type", options.first}, {"mtu", first_mtu}};
  config["ipam"] = {{"type", "host-local"},
                    {"dataDir", lab_->ipam_dir("first")},
                    {"ranges", Json::array({Json::array({Json{{"subnet", pods4(number_)}}}),
                                            Json::array({Json{{"subnet", pods6(number_)}}})})},
                    {"routes", Json::array({Json{{"dst", "0.0.0.0/0"}}, Json{{"dst", "::/0"}}})}};
  if (options.first == "bridge") config.update({{"bridge", "cni0"}, {"isGateway", true}});
  config.merge_patch(Json::parse(options.first_patch));
  return config.dump();
}

std::string ExternalNode::our_config(const ChainOptions& options) {
  const std::string external =
      formatted(R"({{"external":{{"ifName":"{}","clusterCIDRs":{}}}}})", external_name, cluster_cidrs);
  return lab_->pod_config({.ipam = options.ipam,
                           .uplink = external_uplink,
                           .mode = options.mode,
                           .version = options.version,
                           .network = network,
                           .patch = value_of(merged(external, options.patch))});
}

void ExternalNode::join(const ExternalNode& other) {
  const Namespace& node = lab_->node();
  value_of(node.ip(
      formatted("address add 192.168.77.{0}/24 dev {2}\nlink set {2} up\n"
                "link add {3} type vxlan id 42 dstport 4789 local 192.168.77.{0} remote 192.168.77.{1} dev {2}\n"
                "address add 192.168.78.{0}/24 dev {3}\naddress add fd00:78::{0}/64 dev {3} nodad\n"
                "link set {3} up\n"
                "route add {4} via 192.168.78.{1} dev {3}\nroute add {5} via fd00:78::{1} dev {3}",
                number_, other.number_, underlay, overlay, pods4(other.number_), pods6(other.number_))));
}

void ExternalNode::connect(ExternalNode& one, ExternalNode& other) {
  value_of(one->node().ip(formatted("link add {0} type veth peer name {0} netns {1}", underlay, other->node().name())));
  one.join(other);
  other.join(one);
  for (ExternalNode* node : {&one, &other}) {
    const auto is_up = [&] {
      const std::string text = value_of((*node)->node().run_ok({"ip", "address", "show", "dev", underlay}));
      return text.find("inet6 fe80") != std::string::npos && text.find("tentative") == std::string::npos;
    };
    REQUIRE(eventually(is_up));
    value_of((*node)->accept_changes({underlay, overlay, "192.168.7", "fd00:78:", "10.244.", "fd00:244:"}));
  }
}

std::size_t ExternalNode::first_reservations() const {
  const auto names = list_directory(lab_->ipam_dir("first") + "/" + network).value_or(std::vector<std::string>{});
  return static_cast<std::size_t>(std::ranges::count_if(names, [](const std::string& name) {
    return name.find_first_of(".:") != std::string::npos && !name.starts_with("last");
  }));
}

// ---- a pod -------------------------------------------------------------------------------------

ChainedPod::ChainedPod(ExternalNode& node, const std::string& name, ChainOptions options)
    : node_(node), options_(std::move(options)) {
  pod_ = value_of(node_->make_pod(name, {.version = options_.version, .network = network}));
  pod_.config = node_.our_config(options_);
  first_config_ = node_.first_config(options_);
}

std::string ChainedPod::run(const std::string& verb, const std::string& config) {
  std::string whole =
      value_of(merged(config, formatted(R"({{"cniVersion":"{}","name":"{}"}})", options_.version, network)));
  if (!result_.empty() && (verb != "DEL" || !options_.version.starts_with("0.3")))
    whole = value_of(with_previous_result(whole, result_));
  const std::string type = Json::parse(whole).at("type").get<std::string>();
  const Outcome outcome = value_of(harness::run(
      {.argv = {"/usr/lib/cni/" + type},
       .environment = {"CNI_COMMAND=" + verb, "CNI_CONTAINERID=" + pod_.container_id, "CNI_NETNS=" + pod_.space->path(),
                       "CNI_IFNAME=eth0", "CNI_PATH=/usr/lib/cni", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
       .clean_environment = true,
       .input = whole,
       .netns_fd = node_->node().fd()}));
  INFO(type << " " << verb << ": " << outcome.text());
  REQUIRE(outcome.ok());
  return outcome.out;
}

void ChainedPod::add_first() {
  result_.clear();
  take_first(run("ADD", first_config_));
}

void ChainedPod::take_first(const std::string& result) {
  result_ = result;
  require_settled(*pod_.space);
  value_of(disable_offloads(*pod_.space, "eth0"));
  before_ = value_of(take_snapshot(*pod_.space, {"eth0"}));
}

Invocation ChainedPod::asked(const std::string& verb) const {
  return {.verb = verb, .container_id = pod_.container_id, .netns = pod_.space->path(), .config = config()};
}

std::string ChainedPod::config() const {
  return result_.empty() ? pod_.config : value_of(with_previous_result(pod_.config, result_));
}

void ChainedPod::set_config(const std::string& patch) { pod_.config = value_of(merged(pod_.config, patch)); }

PluginAnswer ChainedPod::add() {
  if (result_.empty()) add_first();
  PluginAnswer answer = value_of(node_->invoke(asked("ADD")));
  if (!answer.ok() || !answer.result) return answer;
  result_ = answer.result->json;
  pod_.result = *answer.result;
  for (const ResultAddress& ip : answer.result->ips) {
    const Prefix prefix = value_of(Prefix::parse(ip.address));
    (prefix.family() == Family::v4 ? pod_.v4 : pod_.v6) = prefix.address();
  }
  if (answer.result->interfaces.empty()) return answer;
  pod_.host_veth = answer.result->interfaces.front().name;
  pod_.uplink = external_uplink;
  value_of(disable_offloads(*pod_.space, answer.result->interfaces.back().name));
  for (const std::string& other : options_.behind) result_ = run("ADD", other);
  return answer;
}

void ChainedPod::require_add() {
  const PluginAnswer answer = add();
  INFO(answer.text());
  REQUIRE(answer.ok());
  REQUIRE(has_external());
}

PluginAnswer ChainedPod::call(const std::string& verb) { return value_of(node_->invoke(asked(verb))); }

void ChainedPod::require_check() {
  const PluginAnswer answer = call("CHECK");
  INFO(answer.text());
  REQUIRE(answer.ok());
}

void ChainedPod::del_ours() {
  for (const std::string& other : std::views::reverse(options_.behind)) run("DEL", other);
  const PluginAnswer answer = call("DEL");
  INFO(answer.text());
  REQUIRE(answer.ok());
  pod_.v4.reset();
  pod_.v6.reset();
}

void ChainedPod::del_first() {
  run("DEL", first_config_);
  result_.clear();
}

void ChainedPod::del() {
  del_ours();
  require_unchanged();
  del_first();
  value_of(pod_.space->remove());
}

std::string ChainedPod::changes() const {
  return lines_of(differences(before_, value_of(take_snapshot(*pod_.space, {"eth0"}))));
}

void ChainedPod::require_unchanged() const { REQUIRE_THAT(changes(), Equals("")); }

IpAddress ChainedPod::first(Family family) const { return address_of(result_, family, "eth0"); }

IpAddress ChainedPod::external(Family family) const { return family == Family::v4 ? pod_.v4.value() : pod_.v6.value(); }

}  // namespace poduplink::harness
