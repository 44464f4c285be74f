// SPDX-License-Identifier: Apache-2.0
// RUN/lab.json: what a later process has to know to go on with a lab.
#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "tests/harness/lab.h"

namespace poduplink::harness {
namespace {

using Json = nlohmann::json;

Json write_options(const LabOptions& options) {
  Json mtu = Json::object();
  for (const auto& [number, octets] : options.mtu) mtu[std::to_string(number)] = octets;
  return {{"uplinks", options.uplinks},
          {"unlistedDefault", options.unlisted_default},
          {"addressless", options.addressless},
          {"mtu", mtu}};
}

void read_options(const Json& json, LabOptions& options) {
  options.uplinks = json.value("uplinks", 0U);
  options.unlisted_default = json.value("unlistedDefault", false);
  options.addressless = json.value("addressless", false);
  const Json mtu = json.value("mtu", Json::object());
  for (const auto& [number, octets] : mtu.items())
    options.mtu[static_cast<unsigned>(std::stoul(number))] = octets.get<unsigned>();
}

Json write_pod(const Pod& pod) {
  const Json result = Json::parse(pod.result.json, nullptr, false);
  return {{"name", pod.name},
          {"containerId", pod.container_id},
          {"config", Json::parse(pod.config, nullptr, false)},
          {"ipam", static_cast<int>(pod.options.ipam)},
          {"uplink", pod.options.uplink},
          {"ifName", pod.options.if_name},
          {"version", pod.options.version},
          {"args", pod.options.args},
          {"result", result}};
}

Result<Pod> read_pod(const Json& json, const std::string& namespace_name) {
  Pod pod;
  pod.name = json.value("name", "");
  pod.container_id = json.value("containerId", "");
  pod.config = json.value("config", Json::object()).dump();
  pod.options.ipam = static_cast<Ipam>(json.value("ipam", 0));
  pod.options.uplink = json.value("uplink", 0U);
  pod.options.if_name = json.value("ifName", "");
  pod.options.version = json.value("version", "");
  pod.options.args = json.value("args", "");
  pod.result.json = json.value("result", Json::object()).dump();
  pod.space = std::make_shared<Namespace>();
  PDL_TRY_ASSIGN(*pod.space, Namespace::open(namespace_name + pod.name));
  return pod;
}

}  // namespace

Result<> Lab::save() const {
  Json state = write_options(options_);
  state["before"] = before_.items;
  state["nextStubHost"] = next_stub_host_;
  state["nextContainer"] = next_container_;
  state["agentLog"] = folder() + "/agent.log";
  if (agent_.running()) {
    PDL_TRY_ASSIGN(const unsigned long long start, process_start_time(agent_.pid()));
    state["agent"] = Json{{"pid", agent_.pid()}, {"startTime", start}};
  }
  Json namespaces = Json::array();
  for (const auto& [name, space] : others_) namespaces.push_back(name);
  state["namespaces"] = namespaces;
  Json pods = Json::array();
  for (const auto& [name, pod] : pods_) pods.push_back(write_pod(pod));
  state["pods"] = pods;
  return write_file_atomically(folder() + "/lab.json", state.dump(2) + "\n", 0600);
}

Result<> Lab::release() {
  PDL_TRY(save());
  agent_.release();
  closed_ = true;
  return {};
}

Result<> Lab::load() {
  auto text = read_file(folder() + "/lab.json");
  if (!text) {
    if (text.error().code == ENOENT) return fail_errno(ENOENT, "no lab '{}' is up", options_.name);
    return Failure(std::move(text.error()));
  }
  try {
    const Json state = Json::parse(*text);
    read_options(state, options_);
    before_.items = state.at("before").get<std::map<std::string, std::string>>();
    next_stub_host_ = state.value("nextStubHost", 1U);
    next_container_ = state.value("nextContainer", 1U);
    PDL_TRY_ASSIGN(node_, Namespace::open(namespace_name("node")));
    for (const unsigned number : uplink_numbers()) {
      PDL_TRY_ASSIGN(gateways_[number], Namespace::open(namespace_name(formatted("gw{}", number))));
    }
    for (const Json& name : state.at("namespaces")) {
      PDL_TRY_ASSIGN(others_[name.get<std::string>()], Namespace::open(namespace_name(name.get<std::string>())));
    }
    for (const Json& entry : state.at("pods")) {
      PDL_TRY_ASSIGN(Pod pod, read_pod(entry, namespace_name("pod-")));
      const std::string result = pod.result.json;
      PDL_TRY(restore_pod(std::move(pod), result));
    }
  } catch (const std::exception& error) {
    return fail("{}/lab.json: {}", folder(), error.what());
  }
  return load_agent();
}

Result<> Lab::load_agent() {
  PDL_TRY_ASSIGN(const std::string text, read_file(folder() + "/lab.json"));
  const Json state = Json::parse(text, nullptr, false);
  if (!state.is_object() || !state.contains("agent")) return {};
  agent_.adopt(state["agent"].value("pid", 0), state["agent"].value("startTime", 0ULL), state.value("agentLog", ""));
  return {};
}

}  // namespace poduplink::harness
