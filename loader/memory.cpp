// SPDX-License-Identifier: Apache-2.0
#include "loader/memory.h"

#include <cerrno>

#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "loader/base/log.h"

namespace poduplink {
namespace {

using nlohmann::json;

std::string text_of(const json& document) {
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

template <typename T>
T value_or_throw(Result<T> result) {
  // Thrown and caught within parse_memory_text: nlohmann/json throws there anyway.
  if (!result) throw std::invalid_argument(result.error().message);
  return *std::move(result);
}

MacAddress mac_in(const json& document) {
  return value_or_throw(MacAddress::parse(document.at("mac").get<std::string>()));
}

KnownUplink known_in(const json& document) {
  KnownUplink known{document.at("name").get<std::string>(), mac_in(document), document.at("ifindex").get<int>()};
  for (const json& one : document.value("former", json::array()))
    known.former.push_back({one.at("name").get<std::string>(), mac_in(one)});
  return known;
}

json json_of(const KnownUplink& known) {
  json former = json::array();
  for (const UplinkIdentity& one : known.former) former.push_back({{"name", one.name}, {"mac", one.mac.text()}});
  return {{"name", known.name}, {"mac", known.mac.text()}, {"ifindex", known.index}, {"former", former}};
}

AgentMemory from_json(const json& document) {
  AgentMemory memory;
  for (const auto& [label, known] : document.at("uplinks").items()) memory.uplinks[label] = known_in(known);
  for (const json& saved : document.at("rpFilter"))
    memory.rp_filter[saved.at("ifindex").get<int>()] = {saved.at("name").get<std::string>(),
                                                        saved.at("value").get<int>()};
  memory.clsact = document.at("clsact").get<std::set<int>>();
  for (const json& one : document.at("neighbours"))
    memory.neighbours.insert({one.at("ifindex").get<int>(),
                              value_or_throw(IpAddress::parse(one.at("address").get<std::string>())), mac_in(one)});
  return memory;
}

}  // namespace

std::string agent_memory_path(const std::string& run_dir) { return run_dir + "/agent-memory.json"; }

std::string write_memory_text(const AgentMemory& memory) {
  json document = {{"uplinks", json::object()},
                   {"rpFilter", json::array()},
                   {"clsact", memory.clsact},
                   {"neighbours", json::array()}};
  for (const auto& [label, known] : memory.uplinks) document["uplinks"][label] = json_of(known);
  for (const auto& [index, saved] : memory.rp_filter)
    document["rpFilter"].push_back({{"ifindex", index}, {"name", saved.name}, {"value", saved.value}});
  for (const PermanentNeighbour& one : memory.neighbours)
    document["neighbours"].push_back({{"ifindex", one.link}, {"address", one.address.text()}, {"mac", one.mac.text()}});
  return text_of(document);
}

Result<AgentMemory> parse_memory_text(const std::string& text) {
  try {
    return from_json(json::parse(text));
  } catch (const std::exception& exception) {
    return fail("{}", exception.what());
  }
}

AgentMemory load_memory(const std::string& run_dir) {
  const std::string path = agent_memory_path(run_dir);
  const auto text = read_file(path);
  if (!text && text.error().code == ENOENT) return {};
  auto memory = text ? parse_memory_text(*text) : Result<AgentMemory>(Failure(text.error()));
  if (memory) return *std::move(memory);
  log_warning("{} cannot be read, starting without: {}", path, memory.error().message);
  return {};
}

Result<> store_memory(const std::string& run_dir, const AgentMemory& memory) {
  return write_file_atomically(agent_memory_path(run_dir), write_memory_text(memory));
}

}  // namespace poduplink
