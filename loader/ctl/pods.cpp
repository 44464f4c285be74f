// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>

#include "loader/ctl/commands.h"
#include "loader/ctl/render.h"
#include "maps/attachment.h"

namespace poduplink::ctl {
namespace {

using Uplinks = std::map<std::uint32_t, pdl_uplink>;

// One pod address.
struct Line {
  IpAddress address;
  const pdl_pod* pod = nullptr;
  const Record* record = nullptr;    // null where there is none
  const pdl_uplink* home = nullptr;  // null: the uplink is missing
};

std::string label(const Record& record, const std::string& key) {
  const auto found = record.labels.find(key);
  return found == record.labels.end() ? std::string() : found->second;
}

// "namespace/name" as Kubernetes' runtimes pass it in CNI_ARGS. These are empty where nothing is known.
std::string pod_name(const Line& line) {
  if (line.record == nullptr) return {};
  static const std::string name_key = "K8S_POD_NAME";
  static const std::string space_key = "K8S_POD_NAMESPACE";
  const std::string name = label(*line.record, name_key);
  const std::string space = label(*line.record, space_key);
  return name.empty() || space.empty() ? name : space + "/" + name;
}

std::string gateway(const Line& line) {
  const auto gateway = pod_gateway(*line.pod);
  return gateway ? gateway->text() : std::string();
}

std::string mac_text(const MacAddress& mac) { return mac.is_zero() ? std::string() : mac.text(); }

std::string container(const Line& line) {
  return line.record == nullptr ? std::string() : line.record->id.container_id;
}

// Where it has vanished its name as the record has it, else its index.
std::string uplink(const Line& line) {
  if (line.home != nullptr) return line.home->name;
  if (line.record == nullptr) return uplink_name({}, line.pod->home);
  const auto found = std::ranges::find_if(
      line.record->addresses, [&](const RecordAddress& one) { return one.address.address() == line.address; });
  return found == line.record->addresses.end() ? "-" : found->uplink_name;
}

std::string uplink_state(const Line& line) { return line.home == nullptr ? "missing" : state_name(line.home->state); }

std::string veth(const Line& line) {
  return line.record != nullptr ? line.record->host_veth : host_veth_name(line.pod->owner);
}

bool on_primary(const Line& line) { return line.home != nullptr && (line.home->flags & PDL_UPLINK_PRIMARY) != 0; }

bool gateway_silent(const Line& line) { return (line.pod->flags & PDL_POD_GATEWAY_SILENT) != 0; }

using Records = std::vector<std::vector<Record>>;

// Thousands of files, in parts by as many threads as there are processors, up to four.
Records read_in_parts(const std::vector<std::string>& paths) {
  const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 4);
  const std::size_t size = paths.size() / threads + 1;
  std::vector<std::future<std::vector<Record>>> parts;
  for (std::size_t at = 0; at < paths.size(); at += size) {
    const std::span<const std::string> own(paths.data() + at, std::min(size, paths.size() - at));
    parts.push_back(std::async(std::launch::async, read_records, own));
  }
  Records records;
  for (auto& part : parts) records.push_back(part.get());
  return records;
}

Json text_or_null(std::string text) { return text.empty() ? Json(nullptr) : Json(std::move(text)); }

void add_fields(const Line& line, Fields& fields) {
  const pdl_pod& pod = *line.pod;
  const Record* record = line.record;
  const bool external = record != nullptr && record->external.has_value();
  fields.emplace_back("address", line.address.text());
  fields.emplace_back("pod", text_or_null(pod_name(line)));
  fields.emplace_back("uplink", uplink(line));
  fields.emplace_back("uplinkState", uplink_state(line));
  fields.emplace_back("gateway", text_or_null(gateway(line)));
  fields.emplace_back("gatewayMac", text_or_null(mac_text(to_mac(pod.gateway_mac))));
  fields.emplace_back("gatewaySilent", gateway_silent(line));
  fields.emplace_back("mode", mode_name(pod.mode));
  fields.emplace_back("onLink", (pod.flags & PDL_POD_ON_LINK) != 0);
  fields.emplace_back("prefixLength", pod.prefix_len);
  fields.emplace_back("mtu", pod.mtu);
  fields.emplace_back("podMac", text_or_null(mac_text(to_mac(pod.pod_mac))));
  fields.emplace_back("veth", veth(line));
  fields.emplace_back("vethIndex", pod.veth);
  fields.emplace_back("owner", hash_text(pod.owner));
  fields.emplace_back("network", record != nullptr ? Json(record->id.network) : Json(nullptr));
  fields.emplace_back("container", record != nullptr ? Json(record->id.container_id) : Json(nullptr));
  fields.emplace_back(
      "interface", record == nullptr ? Json(nullptr) : Json(external ? record->external->if_name : record->id.if_name));
  Json first_addresses = Json::array();
  if (external) {
    for (const IpAddress& one : record->external->first_addresses) first_addresses.push_back(one.text());
  }
  fields.emplace_back("firstAddresses", std::move(first_addresses));
}

struct TableColumn {
  const char* title;
  std::string (*cell)(const Line& line);
  Tone (*tone)(std::string_view value) = nullptr;
};

constexpr std::array<TableColumn, 9> table_columns{
    {{.title = "ADDRESS", .cell = [](const Line& line) { return line.address.text(); }},
     {.title = "POD", .cell = pod_name},
     {.title = "UPLINK", .cell = uplink},
     {.title = "STATE", .cell = uplink_state, .tone = tone_of_state},
     {.title = "GATEWAY", .cell = gateway},
     {.title = "GATEWAY MAC",
      .cell =
          [](const Line& line) { return gateway_silent(line) ? "silent" : mac_text(to_mac(line.pod->gateway_mac)); },
      .tone = tone_of_state},
     {.title = "MODE", .cell = [](const Line& line) { return std::string(mode_name(line.pod->mode)); }},
     {.title = "VETH", .cell = veth},
     // As runtimes show it to people.
     {.title = "CONTAINER", .cell = [](const Line& line) { return container(line).substr(0, 12); }}}};

// Part of a name or address, or the whole of what other rows share.
bool holds(const Line& line, const std::string& word) {
  return line.address.text().contains(word) || pod_name(line).contains(word) || container(line).contains(word) ||
         uplink(line) == word || gateway(line) == word || veth(line).contains(word) ||
         (line.record != nullptr && line.record->id.network == word);
}

class PodList : public List {
 public:
  using Entries = std::vector<std::pair<IpAddress, pdl_pod>>;

  PodList(Entries entries, Uplinks uplinks, Records records)
      : entries_(std::move(entries)), uplinks_(std::move(uplinks)), records_(std::move(records)) {
    std::unordered_map<std::uint64_t, const Record*> by_owner;
    for (const auto& part : records_) {
      for (const Record& record : part) by_owner.emplace(attachment_hash(record.id), &record);
    }
    lines_.reserve(entries_.size());
    for (const auto& [address, pod] : entries_) {
      const auto record = by_owner.find(pod.owner);
      const auto home = uplinks_.find(pod.home);
      lines_.push_back({.address = address,
                        .pod = &pod,
                        .record = record == by_owner.end() ? nullptr : record->second,
                        .home = home == uplinks_.end() ? nullptr : &home->second});
    }
    // Those of the primary uplink first, then by address.
    std::ranges::sort(lines_, [](const Line& one, const Line& other) {
      return on_primary(one) != on_primary(other) ? on_primary(one) : one.address < other.address;
    });
  }

  void keep_those_with(const std::string& word) {
    std::erase_if(lines_, [&](const Line& line) { return !holds(line, word); });
  }

  [[nodiscard]] std::size_t size() const override { return lines_.size(); }
  void row(std::size_t number, Fields& fields) const override { add_fields(lines_[number], fields); }
  [[nodiscard]] std::string cell(std::size_t number, std::size_t column) const override {
    std::string text = table_columns.at(column).cell(lines_[number]);
    if (text.empty()) text = "-";
    return text;
  }

 private:
  Entries entries_;
  Uplinks uplinks_;
  Records records_;
  std::vector<Line> lines_;  // of what stands above
};

}  // namespace

Result<View> pods_view(const Settings& settings, const std::string& word) {
  PDL_TRY_ASSIGN(const Tables tables, open_current_tables(settings.pin_dir));
  PDL_TRY_ASSIGN(auto entries, tables.pods.entries());
  PDL_TRY_ASSIGN(auto uplinks, uplinks_by_index(tables));
  PDL_TRY_ASSIGN(const std::vector<std::string> paths, record_paths(settings.run_dir));
  const auto list = std::make_shared<PodList>(std::move(entries), std::move(uplinks), read_in_parts(paths));
  if (!word.empty()) list->keep_those_with(word);

  Section section{.of_list = true, .none = word.empty() ? "no pods" : "no pod matches '" + word + "'"};
  for (const TableColumn& column : table_columns)
    section.columns.push_back({.title = column.title, .tone = column.tone});
  View view;
  view.list = list;
  view.well = word.empty() || list->size() > 0;
  view.sections.push_back(std::move(section));
  return view;
}

}  // namespace poduplink::ctl
