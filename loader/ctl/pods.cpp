// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <future>
#include <iterator>
#include <map>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>

#include "loader/ctl/commands.h"
#include "loader/ctl/render.h"
#include "maps/attachment.h"

namespace poduplink::ctl {
namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json mac_or_null(const MacAddress& mac) { return mac.is_zero() ? Json(nullptr) : Json(mac.text()); }

std::string label(const Record& record, const char* key) {
  const auto found = record.labels.find(key);
  return found == record.labels.end() ? std::string() : found->second;
}

// "namespace/name" as Kubernetes' runtimes pass it in CNI_ARGS.
std::string pod_name(const Record& record) {
  const std::string name = label(record, "K8S_POD_NAME");
  const std::string space = label(record, "K8S_POD_NAMESPACE");
  return name.empty() || space.empty() ? name : space + "/" + name;
}

std::string gateway_state(const Json& row) {
  return row.at("gatewaySilent").get<bool>() ? "silent" : cell_text(row.at("gatewayMac"));
}

// As runtimes show it to people.
std::string short_container(const Json& row) { return cell_text(row.at("container")).substr(0, 12); }

// How the record calls the uplink of an address whose uplink has vanished.
std::string recorded_uplink(const Record& record, const IpAddress& address) {
  const auto found = std::ranges::find_if(record.addresses,
                                          [&](const RecordAddress& one) { return one.address.address() == address; });
  return found == record.addresses.end() ? "-" : found->uplink_name;
}

// Thousands of files, in parts by as many threads as there are processors, up to four.
std::vector<Record> read_in_parts(const std::vector<std::string>& paths) {
  const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 4);
  const std::size_t size = paths.size() / threads + 1;
  std::vector<std::future<std::vector<Record>>> parts;
  for (std::size_t at = 0; at < paths.size(); at += size) {
    const std::span<const std::string> own(paths.data() + at, std::min(size, paths.size() - at));
    parts.push_back(std::async(std::launch::async, read_records, own));
  }
  std::vector<Record> records;
  records.reserve(paths.size());
  for (auto& part : parts) std::ranges::move(part.get(), std::back_inserter(records));
  return records;
}

// Keys are as they were put in, and none twice: thousands of rows are not searched for each.
class Row {
 public:
  explicit Row(std::size_t keys) { values_.reserve(keys); }
  void add(const char* key, Json value) { values_.emplace_back(key, std::move(value)); }
  Json take() { return std::move(values_); }

 private:
  Json::object_t values_;
};

Json row_of(const IpAddress& address, const pdl_pod& pod, const Record* record,
            const std::map<std::uint32_t, pdl_uplink>& uplinks) {
  const auto gateway = pod_gateway(pod);
  const auto home = uplinks.find(pod.home);
  const bool missing = home == uplinks.end();
  Row row(19);
  row.add("address", address.text());
  row.add("pod", record != nullptr ? text_or_null(pod_name(*record)) : Json(nullptr));
  row.add("uplink", missing && record != nullptr ? recorded_uplink(*record, address) : uplink_name(uplinks, pod.home));
  row.add("uplinkState", missing ? "missing" : state_name(home->second.state));
  row.add("gateway", gateway ? Json(gateway->text()) : Json(nullptr));
  row.add("gatewayMac", mac_or_null(to_mac(pod.gateway_mac)));
  row.add("gatewaySilent", (pod.flags & PDL_POD_GATEWAY_SILENT) != 0);
  row.add("mode", mode_name(pod.mode));
  row.add("onLink", (pod.flags & PDL_POD_ON_LINK) != 0);
  row.add("prefixLength", pod.prefix_len);
  row.add("mtu", pod.mtu);
  row.add("podMac", mac_or_null(to_mac(pod.pod_mac)));
  row.add("veth", record != nullptr ? record->host_veth : host_veth_name(pod.owner));
  row.add("vethIndex", pod.veth);
  row.add("owner", hash_text(pod.owner));
  row.add("network", record != nullptr ? Json(record->id.network) : Json(nullptr));
  row.add("container", record != nullptr ? Json(record->id.container_id) : Json(nullptr));
  const bool external = record != nullptr && record->external.has_value();
  row.add("interface",
          record == nullptr ? Json(nullptr) : Json(external ? record->external->if_name : record->id.if_name));
  Json first_addresses = Json::array();
  if (external) {
    for (const IpAddress& one : record->external->first_addresses) first_addresses.push_back(one.text());
  }
  row.add("firstAddresses", std::move(first_addresses));
  return row.take();
}

// Part of a name or address, or the whole of what other rows share.
bool holds(const Json& row, const std::string& word) {
  const auto has = [&](const char* key, bool whole) {
    const Json& value = row.at(key);
    if (!value.is_string()) return false;
    const auto& text = value.get_ref<const std::string&>();
    return whole ? text == word : text.contains(word);
  };
  return has("address", false) || has("pod", false) || has("container", false) || has("uplink", true) ||
         has("gateway", true) || has("veth", true) || has("network", true);
}

}  // namespace

Result<View> pods_view(const Settings& settings, const std::string& word) {
  PDL_TRY_ASSIGN(const Tables tables, open_current_tables(settings.pin_dir));
  PDL_TRY_ASSIGN(auto entries, tables.pods.entries());
  PDL_TRY_ASSIGN(const auto uplinks, uplinks_by_index(tables));
  PDL_TRY_ASSIGN(const std::vector<std::string> paths, record_paths(settings.run_dir));
  const std::vector<Record> records = read_in_parts(paths);
  std::unordered_map<std::uint64_t, const Record*> by_owner;
  for (const Record& record : records) by_owner.emplace(attachment_hash(record.id), &record);
  // Those of the primary uplink first, then by address.
  std::ranges::sort(entries, {},
                    [&](const auto& entry) { return std::pair(!is_primary(uplinks, entry.second.home), entry.first); });

  Section section{.columns = {{.title = "ADDRESS", .key = "address"},
                              {.title = "POD", .key = "pod"},
                              {.title = "UPLINK", .key = "uplink"},
                              {.title = "STATE", .key = "uplinkState", .tone = tone_of_state},
                              {.title = "GATEWAY", .key = "gateway"},
                              {.title = "GATEWAY MAC", .tone = tone_of_state, .cell = gateway_state},
                              {.title = "MODE", .key = "mode"},
                              {.title = "VETH", .key = "veth"},
                              {.title = "CONTAINER", .cell = short_container}},
                  .of_document = true,
                  .none = word.empty() ? "no pods" : "no pod matches '" + word + "'"};
  View view;
  Json::array_t rows;
  rows.reserve(entries.size());
  for (const auto& [address, pod] : entries) {
    const auto record = by_owner.find(pod.owner);
    Json row = row_of(address, pod, record == by_owner.end() ? nullptr : record->second, uplinks);
    if (word.empty() || holds(row, word)) rows.push_back(std::move(row));
  }
  view.document = std::move(rows);
  view.well = word.empty() || !view.document.empty();
  view.sections.push_back(std::move(section));
  return view;
}

}  // namespace poduplink::ctl
