// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "loader/ctl/commands.h"
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

Json gateway_state(const pdl_pod& pod) {
  if ((pod.flags & PDL_POD_GATEWAY_SILENT) != 0) return "silent";
  return mac_or_null(to_mac(pod.gateway_mac));
}

// How the record calls the uplink of an address whose uplink has vanished.
std::string recorded_uplink(const Record& record, const IpAddress& address) {
  const auto found = std::ranges::find_if(record.addresses,
                                          [&](const RecordAddress& one) { return one.address.address() == address; });
  return found == record.addresses.end() ? "-" : found->uplink_name;
}

Json row_of(const IpAddress& address, const pdl_pod& pod, const Record* record,
            const std::map<std::uint32_t, pdl_uplink>& uplinks) {
  const auto gateway = pod_gateway(pod);
  const auto home = uplinks.find(pod.home);
  const bool missing = home == uplinks.end();
  Json row;
  row["address"] = address.text();
  row["pod"] = record != nullptr ? text_or_null(pod_name(*record)) : Json(nullptr);
  row["uplink"] = missing && record != nullptr ? recorded_uplink(*record, address) : uplink_name(uplinks, pod.home);
  row["uplinkState"] = missing ? "missing" : state_name(home->second.state);
  row["gateway"] = gateway ? Json(gateway->text()) : Json(nullptr);
  row["gatewayMac"] = mac_or_null(to_mac(pod.gateway_mac));
  row["gatewaySilent"] = (pod.flags & PDL_POD_GATEWAY_SILENT) != 0;
  row["mode"] = mode_name(pod.mode);
  row["onLink"] = (pod.flags & PDL_POD_ON_LINK) != 0;
  row["prefixLength"] = pod.prefix_len;
  row["mtu"] = pod.mtu;
  row["podMac"] = mac_or_null(to_mac(pod.pod_mac));
  row["veth"] = record != nullptr ? record->host_veth : host_veth_name(pod.owner);
  row["vethIndex"] = pod.veth;
  row["owner"] = hash_text(pod.owner);
  row["network"] = record != nullptr ? Json(record->id.network) : Json(nullptr);
  row["container"] = record != nullptr ? Json(record->id.container_id) : Json(nullptr);
  const bool external = record != nullptr && record->external.has_value();
  row["interface"] =
      record == nullptr ? Json(nullptr) : Json(external ? record->external->if_name : record->id.if_name);
  row["firstAddresses"] = Json::array();
  if (external) {
    for (const IpAddress& one : record->external->first_addresses) row["firstAddresses"].push_back(one.text());
  }
  return row;
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
  PDL_TRY_ASSIGN(const std::vector<Record> records, load_records(settings.run_dir));
  std::map<std::uint64_t, const Record*> by_owner;
  for (const Record& record : records) by_owner.emplace(attachment_hash(record.id), &record);
  // Those of the primary uplink first, then by address.
  std::ranges::sort(entries, {},
                    [&](const auto& entry) { return std::pair(!is_primary(uplinks, entry.second.home), entry.first); });

  Section section{.columns = {{.title = "ADDRESS", .key = "address"},
                              {.title = "POD", .key = "pod"},
                              {.title = "UPLINK", .key = "uplink"},
                              {.title = "STATE", .key = "uplinkState", .tone = tone_of_state},
                              {.title = "GATEWAY", .key = "gateway"},
                              {.title = "GATEWAY MAC", .key = "gatewayState", .tone = tone_of_state},
                              {.title = "MODE", .key = "mode"},
                              {.title = "VETH", .key = "veth"},
                              {.title = "CONTAINER", .key = "shortContainer"}},
                  .none = word.empty() ? "no pods" : "no pod matches '" + word + "'"};
  View view;
  view.document = Json::array();
  for (const auto& [address, pod] : entries) {
    const auto record = by_owner.find(pod.owner);
    Json row = row_of(address, pod, record == by_owner.end() ? nullptr : record->second, uplinks);
    if (!word.empty() && !holds(row, word)) continue;
    view.document.push_back(row);
    row["gatewayState"] = gateway_state(pod);
    row["shortContainer"] =
        row["container"].is_null() ? Json(nullptr) : Json(row["container"].get<std::string>().substr(0, 12));
    section.rows.push_back(std::move(row));
  }
  view.well = word.empty() || !view.document.empty();
  view.sections.push_back(std::move(section));
  return view;
}

}  // namespace poduplink::ctl
