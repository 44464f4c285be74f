// SPDX-License-Identifier: Apache-2.0
// Pods of the lab: their configuration, the plugin's verbs, and what has to be true after them.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "maps/abi.h"
#include "maps/paths.h"
#include "tests/harness/kernel_check.h"
#include "tests/harness/lab.h"

namespace poduplink::harness {
namespace {

using Json = nlohmann::json;

// Third octets of the pods' addresses, so that the three IPAMs never give out the same one.
constexpr unsigned pool_group = 1;
constexpr unsigned host_local_group = 2;
constexpr unsigned stub_group = 3;

const char* ipam_name(Ipam kind) {
  switch (kind) {
    case Ipam::poduplink:
      return "poduplink-ipam";
    case Ipam::host_local:
      return "host-local";
    case Ipam::stub:
      return "stub-ipam";
  }
  return "";
}

Json default_routes(const PodOptions& options) {
  Json routes = Json::array();
  if (options.v4) routes.push_back(Json::object({{"dst", "0.0.0.0/0"}}));
  if (options.v6) routes.push_back(Json::object({{"dst", "::/0"}}));
  return routes;
}

std::string span(const IpAddress& first, const IpAddress& last) { return first.text() + "-" + last.text(); }

Json pool(const Uplink& uplink, const PodOptions& options) {
  Json result = {{"uplink", uplink.name()}};
  Json ranges = Json::array();
  if (options.v4) {
    ranges.push_back(span(uplink.pod4(pool_group, 1), uplink.pod4(pool_group, 254)));
    result["prefix"] = 16;
    result["gateway"] = uplink.gateway4().text();
  }
  if (options.v6) {
    ranges.push_back(span(uplink.pod6(pool_group, 1), uplink.pod6(pool_group, 0xffff)));
    result["prefix6"] = 64;
    result["gateway6"] = uplink.gateway6().text();
  }
  result["ranges"] = ranges;
  return result;
}

Json host_local_range(const std::string& subnet, const IpAddress& first, const IpAddress& last,
                      const IpAddress& gateway) {
  return Json::array(
      {Json{{"subnet", subnet}, {"rangeStart", first.text()}, {"rangeEnd", last.text()}, {"gateway", gateway.text()}}});
}

Json host_local_ranges(const Uplink& uplink, const PodOptions& options) {
  Json ranges = Json::array();
  if (options.v4)
    ranges.push_back(host_local_range(uplink.subnet4(), uplink.pod4(host_local_group, 1),
                                      uplink.pod4(host_local_group, 254), uplink.gateway4()));
  if (options.v6)
    ranges.push_back(host_local_range(uplink.subnet6(), uplink.pod6(host_local_group, 1),
                                      uplink.pod6(host_local_group, 0xffff), uplink.gateway6()));
  return ranges;
}

// One link as `ip -j -d address show dev …` has it. Errors: there is none.
Result<Json> show_link(const Namespace& space, const std::string& name) {
  PDL_TRY_ASSIGN(const std::string text, space.run_ok({"ip", "-j", "-d", "address", "show", "dev", name}));
  Json list = Json::parse(text, nullptr, false);
  if (!list.is_array() || list.empty()) return fail("`ip address show dev {}` in {}: {}", name, space.name(), text);
  return list.front();
}

bool has_flag(const Json& link, const char* flag) {
  const Json flags = link.value("flags", Json::array());
  return std::ranges::any_of(flags, [&](const Json& entry) { return entry == flag; });
}

Result<> check_link(const Json& link, const std::string& name, const std::string& mac, unsigned mtu) {
  if (link.value("address", "") != mac) return fail("{} has MAC {}, not {}", name, link.value("address", ""), mac);
  if (link.value("mtu", 0U) != mtu) return fail("{} has MTU {}, not {}", name, link.value("mtu", 0U), mtu);
  if (!has_flag(link, "UP")) return fail("{} is down", name);
  return {};
}

unsigned uplink_of(const IpAddress& address) {
  // fd00:<number>: the digits are written as they are, so hexadecimal 9 is uplink 9.
  return address.is_v4() ? address.octets()[1] : address.octets()[3];
}

// Regular files below a folder that are a reservation, and none of an IPAM's own housekeeping.
void list_reservations(const std::string& folder, std::vector<std::string>& into) {
  std::error_code error;
  for (auto entry = std::filesystem::recursive_directory_iterator(folder, error);
       !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    const bool housekeeping = name == "lock" || name == ".index" || name.starts_with("last_reserved_ip") ||
                              name.starts_with(".last-") || name == "calls.jsonl";
    if (entry->is_regular_file(error) && !housekeeping)
      into.push_back("left behind: reservation " + entry->path().string());
  }
}

// Reads the answer of ADD into the pod.
Result<> take_result(Pod& pod, const PluginAnswer& answer) {
  if (!answer.ok() || !answer.result) return fail("ADD of pod {}: {}", pod.name, answer.text());
  pod.result = *answer.result;
  for (const ResultAddress& ip : pod.result.ips) {
    PDL_TRY_ASSIGN(const Prefix prefix, Prefix::parse(ip.address));
    std::optional<IpAddress>& slot = prefix.family() == Family::v4 ? pod.v4 : pod.v6;
    if (!slot) slot = prefix.address();
  }
  PDL_TRY_ASSIGN(pod.mac, MacAddress::parse(pod.result.interfaces.back().mac));
  if (pod.v4 || pod.v6) pod.uplink = uplink_of(pod.v4 ? *pod.v4 : *pod.v6);
  for (const ResultInterface& entry : pod.result.interfaces) {
    if (entry.sandbox.empty() && entry.name.starts_with("pdl")) pod.host_veth = entry.name;
  }
  if (pod.host_veth.empty()) return fail("the result of pod {} names no host veth: {}", pod.name, pod.result.json);
  return {};
}

}  // namespace

Result<> Lab::restore_pod(Pod pod, const std::string& result) {
  Outcome added;
  added.status = 0;
  added.out = result;
  PDL_TRY(take_result(pod, read_answer(invocation("ADD", pod), std::move(added))));
  keep_pod(std::move(pod));
  return {};
}

std::string Lab::stub_addresses(const PodOptions& options) {
  const Uplink home = uplink(options.uplink);
  const unsigned host = next_stub_host_++;
  Json ips = Json::array();
  const auto put = [&](const IpAddress& address, unsigned length, const IpAddress& gateway) {
    Json ip = {{"address", formatted("{}/{}", address.text(), length)}, {"gateway", gateway.text()}};
    if (options.version.starts_with("0.")) ip["version"] = address.is_v4() ? "4" : "6";
    ips.push_back(ip);
  };
  if (options.v4) put(home.pod4(stub_group + host / 250, 1 + host % 250), 16, home.gateway4());
  if (options.v6) put(home.pod6(stub_group, host), 64, home.gateway6());
  const Json result = {{"cniVersion", options.version},
                       {"interfaces", Json::array({Json{{"name", ""}, {"mac", home.mac().text()}}})},
                       {"ips", ips},
                       {"routes", default_routes(options)}};
  return result.dump();
}

std::string Lab::pod_config(const PodOptions& asked) {
  PodOptions options = asked;
  if (options.ipam != Ipam::poduplink && options.uplink == 0) options.uplink = 1;
  const std::string kind = ipam_name(options.ipam);
  const std::string derived = options.uplink == 0 ? kind : formatted("{}-eth{}", kind, options.uplink);
  Json config = {{"cniVersion", options.version},
                 {"name", options.network.empty() ? derived : options.network},
                 {"type", "poduplink"},
                 {"pinDir", pin_dir()},
                 {"runDir", run_dir()}};
  if (!options.mode.empty()) config["mode"] = options.mode;
  Json ipam = {{"type", kind}, {"dataDir", ipam_dir(kind)}};
  if (options.ipam == Ipam::poduplink) {
    Json pools = Json::array();
    for (unsigned i = 1; i <= options_.uplinks; ++i) {
      if (options.uplink == 0 || options.uplink == i) pools.push_back(pool(uplink(i), options));
    }
    ipam["pools"] = pools;
    ipam["routes"] = default_routes(options);
  } else if (options.ipam == Ipam::host_local) {
    ipam["ranges"] = host_local_ranges(uplink(options.uplink), options);
    ipam["routes"] = default_routes(options);
    config["uplink"] = uplink(options.uplink).name();
  } else {
    ipam["result"] =
        Json::parse(options.stub_result.empty() ? stub_addresses(options) : options.stub_result, nullptr, false);
    ipam["calls"] = ipam_dir(kind) + "/calls.jsonl";
  }
  config["ipam"] = ipam;
  if (!options.patch.empty()) config.merge_patch(Json::parse(options.patch, nullptr, false));
  return config.dump();
}

Result<Pod> Lab::make_pod(const std::string& name, const PodOptions& options) {
  if (name.empty() || name.size() > 64 ||
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos)
    return fail("pod name '{}': lower-case letters, digits and '-'", name);
  if (pods_.contains(name)) return fail_errno(EEXIST, "pod '{}'", name);
  if (name == "node" || name.starts_with("gw")) return fail("pod name '{}' would be taken for a part of the lab", name);
  if (options.uplink > options_.uplinks)
    return fail("uplink {}: the lab has 1 to {}", options.uplink, options_.uplinks);
  Pod pod;
  pod.name = name;
  pod.options = options;
  pod.container_id = formatted("{}-{}-{}", options_.name, name, next_container_++);
  pod.config = pod_config(options);
  pod.space = std::make_shared<Namespace>();
  PDL_TRY_ASSIGN(*pod.space, Namespace::create(namespace_name("pod-" + name)));
  return pod;
}

Invocation Lab::invocation(const std::string& verb, const Pod& pod) const {
  return {.verb = verb,
          .container_id = pod.container_id,
          .netns = pod.space->path(),
          .if_name = pod.options.if_name,
          .args = pod.options.args,
          .config = pod.config};
}

Result<Outcome> Lab::run_plugin(const std::vector<std::string>& environment, const std::string& input) const {
  return harness::run({.argv = {program_folder() + "/poduplink"},
                       .environment = environment,
                       .clean_environment = true,
                       .input = input,
                       .netns_fd = node_.fd()});
}

Result<PluginAnswer> Lab::invoke(const Invocation& asked, const std::vector<std::string>& more) const {
  std::vector<std::string> environment{"CNI_COMMAND=" + asked.verb, "CNI_CONTAINERID=" + asked.container_id,
                                       "CNI_NETNS=" + asked.netns,  "CNI_IFNAME=" + asked.if_name,
                                       "CNI_ARGS=" + asked.args,    "CNI_PATH=" + cni_path()};
  // What a sanitizer build and a test need to be told reaches the plugin too.
  for (const char* name : {"PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) environment.push_back(formatted("{}={}", name, value));
  }
  environment.insert(environment.end(), more.begin(), more.end());
  PDL_TRY_ASSIGN(Outcome outcome, harness::run({.argv = {program_folder() + "/" + asked.program},
                                                .environment = environment,
                                                .clean_environment = true,
                                                .input = asked.config,
                                                .netns_fd = node_.fd()}));
  PluginAnswer answer = read_answer(asked, std::move(outcome));
  if (answer.result && answer.faults.empty()) answer.faults = faults_against_kernel(node_, asked, *answer.result);
  return answer;
}

Result<PluginAnswer> Lab::call(const std::string& verb, const Pod& pod) const {
  Invocation invocation = this->invocation(verb, pod);
  // A runtime sends the result of ADD with later verbs, from 0.4.0 on.
  const bool with_result = verb != "ADD" && !pod.result.json.empty() && !pod.options.version.starts_with("0.3");
  if (with_result) {
    PDL_TRY_ASSIGN(invocation.config, with_previous_result(invocation.config, pod.result.json));
  }
  return invoke(invocation);
}

Result<> Lab::adopt(Pod& pod, const PluginAnswer& answer) const {
  PDL_TRY(take_result(pod, answer));
  PDL_TRY_ASSIGN(const Json outside, show_link(node_, pod.host_veth));
  const Json config = Json::parse(pod.config, nullptr, false);
  const unsigned mtu = config.value("mtu", uplink(pod.uplink).mtu);
  return check_link(outside, pod.host_veth, MacAddress(PDL_HOST_MAC).text(), mtu);
}

void Lab::keep_pod(Pod pod) { pods_[pod.name] = std::move(pod); }

Result<Pod> Lab::add_pod(const std::string& name, const PodOptions& options) {
  PDL_TRY_ASSIGN(Pod pod, make_pod(name, options));
  const auto answer = call("ADD", pod);
  Result<> adopted;
  if (answer) {
    adopted = adopt(pod, *answer);
  } else {
    adopted = Failure(answer.error());
  }
  if (!adopted) {
    // A runtime sends DEL after an ADD that failed.
    if (const auto deleted = call("DEL", pod); !deleted || !deleted->ok())
      adopted.error().message += "; then DEL: " + (deleted ? deleted->text() : deleted.error().message);
    if (const auto gone = pod.space->remove(); !gone) adopted.error().message += "; " + gone.error().message;
    return Failure(std::move(adopted.error()));
  }
  keep_pod(pod);
  return pod;
}

Result<> Lab::del_pod(const std::string& name) {
  const auto found = pods_.find(name);
  if (found == pods_.end()) return fail_errno(ENOENT, "pod '{}'", name);
  PDL_TRY_ASSIGN(const PluginAnswer answer, call("DEL", found->second));
  if (!answer.ok()) return fail("DEL of pod {}: {}", name, answer.text());
  if (show_link(*found->second.space, found->second.options.if_name))
    return fail("DEL of pod {}: its interface is still there", name);
  return forget_pod(name);
}

Result<> Lab::check_pod(const std::string& name) {
  const auto found = pods_.find(name);
  if (found == pods_.end()) return fail_errno(ENOENT, "pod '{}'", name);
  PDL_TRY_ASSIGN(const PluginAnswer answer, call("CHECK", found->second));
  if (!answer.ok()) return fail("CHECK of pod {}: {}", name, answer.text());
  return {};
}

Result<> Lab::forget_pod(const std::string& name) {
  const auto found = pods_.find(name);
  if (found == pods_.end()) return fail_errno(ENOENT, "pod '{}'", name);
  const std::shared_ptr<Namespace> space = found->second.space;
  pods_.erase(found);
  return space->remove();
}

std::vector<std::string> Lab::leftovers() const {
  std::vector<std::string> found;
  if (const auto now = take_snapshot(node_, uplink_names())) {
    found = differences(before_, *now);
    // Where the kernel has no tcx, uplinks bear the datapath on a clsact qdisc until it is unloaded.
    if (std::filesystem::exists(pin_dir()))
      std::erase_if(found, [](const std::string& line) { return line.starts_with("left behind: qdisc clsact on "); });
  } else {
    found.push_back(now.error().message);
  }
  if (std::filesystem::exists(current_link(pin_dir()))) {
    const auto maps = tables();
    const auto entries =
        maps ? maps->pods.entries() : Result<std::vector<std::pair<IpAddress, pdl_pod>>>(Failure(maps.error()));
    if (!entries) found.push_back("pod maps: " + entries.error().message);
    for (const auto& [address, pod] : entries.value_or(std::vector<std::pair<IpAddress, pdl_pod>>{}))
      found.push_back("left behind: pod entry " + address.text());
  }
  for (const std::string& record : list_directory(records_dir(run_dir())).value_or(std::vector<std::string>{}))
    found.push_back("left behind: record " + record);
  std::error_code error;
  for (auto entry = std::filesystem::recursive_directory_iterator(pin_dir(), error);
       !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.starts_with("pdl")) found.push_back("left behind: pin " + entry->path().string());
  }
  list_reservations(folder() + "/ipam", found);
  return found;
}

}  // namespace poduplink::harness
