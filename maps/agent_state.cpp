// SPDX-License-Identifier: Apache-2.0
#include "maps/agent_state.h"

#include <cerrno>

#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "maps/paths.h"

namespace poduplink {
namespace {

using Json = nlohmann::json;

constexpr unsigned readable_by_all = 0644;

Json uplink_json(const UplinkReport& line) {
  return {{"name", line.name}, {"configured", line.configured}, {"mac", line.mac}, {"ifindex", line.ifindex},
          {"role", line.role}, {"state", line.state},           {"how", line.how}, {"reason", line.reason}};
}

// These throw what nlohmann/json throws; parse_agent_state_text catches it. Plugin and agent may be of different
// builds: what is not decided by has a default.
UplinkReport parse_uplink_json(const Json& json) {
  const auto text = [&json](const char* key) { return json.value(key, std::string()); };
  return {.configured = text("configured"),
          .name = text("name"),
          .mac = text("mac"),
          .ifindex = json.value("ifindex", 0),
          .role = text("role"),
          .state = text("state"),
          .how = text("how"),
          .reason = text("reason")};
}

AgentState parse_state_json(const Json& json) {
  AgentState state;
  state.ready = json.at("ready").get<bool>();
  state.reasons = json.at("reasons").get<std::vector<std::string>>();
  state.warnings = json.value("warnings", std::vector<std::string>());
  state.pid = json.value("pid", 0);
  state.version = json.value("version", std::string());
  if (json.contains("uplinks")) {
    for (const Json& line : json["uplinks"]) state.uplinks.push_back(parse_uplink_json(line));
  }
  return state;
}

}  // namespace

std::string write_agent_state_text(const AgentState& state) {
  Json uplinks = Json::array();
  for (const UplinkReport& line : state.uplinks) uplinks.push_back(uplink_json(line));
  const Json document = {{"ready", state.ready}, {"reasons", state.reasons}, {"warnings", state.warnings},
                         {"pid", state.pid},     {"version", state.version}, {"uplinks", uplinks}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<AgentState> parse_agent_state_text(const std::string& text) {
  try {
    return parse_state_json(Json::parse(text));
  } catch (const Json::exception& error) {
    return fail("{}", error.what());
  }
}

Result<> store_agent_state(const std::string& run_dir, const AgentState& state) {
  return write_file_atomically(agent_state_path(run_dir), write_agent_state_text(state), readable_by_all);
}

Result<std::optional<AgentState>> load_agent_state(const std::string& run_dir) {
  const std::string path = agent_state_path(run_dir);
  const auto text = read_file(path);
  if (!text && text.error().code == ENOENT) return std::optional<AgentState>();
  if (!text) return Failure(text.error());
  auto state = parse_agent_state_text(*text);
  if (!state) return fail("{}: {}", path, state.error().message);
  return std::optional(std::move(*state));
}

}  // namespace poduplink
