// SPDX-License-Identifier: Apache-2.0
#include "maps/record.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "loader/base/log.h"
#include "maps/json_text.h"
#include "maps/paths.h"

namespace poduplink {
namespace {

using Json = nlohmann::json;

// Of the file's own form; readers refuse one they do not know.
constexpr int record_format = 1;
constexpr std::string_view record_suffix = ".json";
constexpr unsigned record_mode = 0600;
constexpr std::size_t record_limit = std::size_t{1} << 20;

constexpr std::array<std::pair<RecordState, const char*>, 3> state_names{
    {{RecordState::adding, "adding"}, {RecordState::ready, "ready"}, {RecordState::deleting, "deleting"}}};
constexpr std::array<std::pair<pdl_mode, const char*>, 2> mode_names{
    {{PDL_MODE_FAST, "fast"}, {PDL_MODE_NETFILTER, "netfilter"}}};

template <typename Names, typename Value>
const char* name_of(const Names& names, Value value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  return "";
}

template <typename Names>
auto value_at(const Names& names, const JsonValue& json, const char* key) -> Result<decltype(names[0].first)> {
  PDL_TRY_ASSIGN(const std::string_view text, json.text_at(key));
  for (const auto& [value, name] : names) {
    if (text == name) return value;
  }
  return fail("{}: '{}' is unknown", key, text);
}

Json address_json(const RecordAddress& address) {
  Json json = Json::object();
  json["address"] = address.address.text();
  json["onLink"] = address.on_link;
  json["announced"] = address.announced;
  if (address.gateway) json["gateway"] = address.gateway->text();
  if (!address.uplink_name.empty()) {
    json["uplink"] = address.uplink_name;
    json["uplinkMac"] = address.uplink_mac.text();
    json["uplinkIndex"] = address.uplink_index;
  }
  return json;
}

Result<RecordAddress> read_address(const JsonValue& json) {
  RecordAddress address;
  PDL_TRY_ASSIGN(address.address, json.parsed_at("address", Prefix::parse));
  PDL_TRY_ASSIGN(address.on_link, json.bool_at("onLink"));
  PDL_TRY_ASSIGN(address.announced, json.bool_at("announced"));
  if (json.contains("gateway")) {
    PDL_TRY_ASSIGN(address.gateway, json.parsed_at("gateway", IpAddress::parse));
  }
  if (json.contains("uplink")) {
    PDL_TRY_ASSIGN(address.uplink_name, json.text_at("uplink"));
    if (address.uplink_name.empty()) return fail("uplink: nothing");
    PDL_TRY_ASSIGN(address.uplink_mac, json.parsed_at("uplinkMac", MacAddress::parse));
    PDL_TRY_ASSIGN(address.uplink_index, json.index_at("uplinkIndex"));
  }
  return address;
}

Result<AttachmentId> read_id(const JsonValue& json) {
  AttachmentId id;
  PDL_TRY_ASSIGN(id.network, json.text_at("network"));
  PDL_TRY_ASSIGN(id.container_id, json.text_at("containerId"));
  PDL_TRY_ASSIGN(id.if_name, json.text_at("ifName"));
  return id;
}

Result<Record> read_record_fields(const JsonValue& json) {
  PDL_TRY_ASSIGN(const int format, json.index_at("format"));
  if (format != record_format) return fail("format: {} is unknown", format);
  Record record;
  PDL_TRY_ASSIGN(record.id, read_id(json));
  PDL_TRY_ASSIGN(record.state, value_at(state_names, json, "state"));
  PDL_TRY_ASSIGN(record.mode, value_at(mode_names, json, "mode"));
  PDL_TRY_ASSIGN(record.netns, json.text_at("netns"));
  PDL_TRY_ASSIGN(record.host_veth, json.text_at("hostVeth"));
  PDL_TRY_ASSIGN(record.host_veth_index, json.index_at("hostVethIndex"));
  PDL_TRY_ASSIGN(record.pod_mac, json.parsed_at("podMac", MacAddress::parse));
  PDL_TRY_ASSIGN(const std::uint64_t mtu, json.number_at("mtu", std::numeric_limits<unsigned>::max()));
  record.mtu = static_cast<unsigned>(mtu);
  PDL_TRY_ASSIGN(const auto addresses, json.items_at("addresses"));
  for (const JsonValue& address : addresses) {
    PDL_TRY_ASSIGN(RecordAddress read, read_address(address));
    record.addresses.push_back(std::move(read));
  }
  PDL_TRY_ASSIGN(record.labels, json.texts_at("labels"));
  if (json.contains("external")) {
    PDL_TRY_ASSIGN(const JsonValue external, json.at("external"));
    PDL_TRY_ASSIGN(record.external, read_external(external));
  }
  return record;
}

// All writers hold the global lock, so there is one temporary file at most, and its name needs no list to be found by.
std::string draft_path(const std::string& path) { return path + ".draft"; }

Result<> write_record(const std::string& path, const Record& record) {
  PDL_TRY_ASSIGN(StagedFile staged,
                 StagedFile::write_as(draft_path(path), path, write_record_text(record), record_mode));
  return staged.put_in_place();
}

}  // namespace

std::string record_path(const std::string& run_dir, std::uint64_t hash) {
  return records_dir(run_dir) + "/" + hash_text(hash) + ".json";
}

std::string write_record_text(const Record& record) {
  Json json = Json::object();
  json["format"] = record_format;
  json["network"] = record.id.network;
  json["containerId"] = record.id.container_id;
  json["ifName"] = record.id.if_name;
  json["state"] = name_of(state_names, record.state);
  json["mode"] = name_of(mode_names, record.mode);
  json["netns"] = record.netns;
  json["hostVeth"] = record.host_veth;
  json["hostVethIndex"] = record.host_veth_index;
  json["podMac"] = record.pod_mac.text();
  json["mtu"] = record.mtu;
  json["addresses"] = Json::array();
  for (const RecordAddress& address : record.addresses) json["addresses"].push_back(address_json(address));
  json["labels"] = record.labels;
  if (record.external) json["external"] = external_json(*record.external);
  // Names come from outside; octets that are no UTF-8 must not make the record unwritable.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Record> parse_record_text(std::string_view text) {
  const auto json = JsonText::parse(text);
  auto record = json ? read_record_fields(json->root()) : Result<Record>(Failure(json.error()));
  if (!record) return fail("no record: {}", one_line(record.error().message));  // it may quote any text of the file
  return record;
}

Result<std::optional<Record>> load_record(const std::string& run_dir, const AttachmentId& id) {
  const std::string path = record_path(run_dir, attachment_hash(id));
  auto text = read_file(path, record_limit);
  if (!text && text.error().code == ENOENT) return std::optional<Record>();
  if (!text) return Failure(std::move(text.error()));
  auto record = parse_record_text(*text);
  if (!record) {
    log_warning("{}: {}", path, record.error().message);
    return std::optional<Record>();
  }
  // Two attachments with one hash: the other's record is not this one's.
  if (record->id != id) return fail_errno(EEXIST, "{} belongs to container {}", path, record->id.container_id);
  return std::optional(std::move(*record));
}

Result<> store_record(const std::string& run_dir, const Record& record) {
  const std::string path = record_path(run_dir, attachment_hash(record.id));
  auto written = write_record(path, record);
  if (written || written.error().code != ENOENT) return written;
  PDL_TRY(make_directories(records_dir(run_dir)));
  return write_record(path, record);
}

Result<> remove_record(const std::string& run_dir, const AttachmentId& id) {
  const std::string path = record_path(run_dir, attachment_hash(id));
  PDL_TRY(remove_file(path));
  return remove_file(draft_path(path));
}

Result<> remove_record_drafts(const std::string& run_dir) {
  const auto names = list_directory(records_dir(run_dir));
  if (!names && names.error().code == ENOENT) return {};
  if (!names) return Failure(names.error());
  for (const std::string& name : *names) {
    if (!is_record_name(name)) PDL_TRY(remove_file(records_dir(run_dir) + "/" + name));
  }
  return {};
}

bool is_record_name(std::string_view name) { return name.ends_with(record_suffix); }

Result<Record> read_record(const std::string& path) {
  PDL_TRY_ASSIGN(const std::string text, read_file(path, record_limit));
  return parse_record_text(text);
}

Result<std::vector<std::string>> record_paths(const std::string& run_dir) {
  std::vector<std::string> paths;
  const auto names = list_directory(records_dir(run_dir));
  if (!names && names.error().code == ENOENT) return paths;
  if (!names) return Failure(names.error());
  for (const std::string& name : *names) {
    if (is_record_name(name)) paths.push_back(records_dir(run_dir) + "/" + name);
  }
  return paths;
}

std::vector<Record> read_records(std::span<const std::string> paths) {
  std::vector<Record> records;
  records.reserve(paths.size());
  for (const std::string& path : paths) {
    if (auto record = read_record(path)) {
      records.push_back(std::move(*record));
    } else {
      log_warning("{}: {}", path, record.error().message);
    }
  }
  return records;
}

Result<std::vector<Record>> load_records(const std::string& run_dir) {
  PDL_TRY_ASSIGN(const std::vector<std::string> paths, record_paths(run_dir));
  return read_records(paths);
}

}  // namespace poduplink
