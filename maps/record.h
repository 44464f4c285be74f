// SPDX-License-Identifier: Apache-2.0
// The record of an attachment: RUN_DIR/attachments/<hash>.json. It outlives the plugin and the maps, which
// can always be rebuilt from the ready records. It changes in the same hold of GlobalLock as its map entries.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/result.h"
#include "maps/abi.h"
#include "maps/attachment.h"
#include "maps/record_external.h"

namespace poduplink {

enum class RecordState { adding, ready, deleting };

// One pod address and how its packets leave.
struct RecordAddress {
  Prefix address;                    // the pod's address in its subnet on the uplink
  std::optional<IpAddress> gateway;  // next hop; none for a plain pod
  std::string uplink_name;           // empty for a plain pod (requireUplink false)
  MacAddress uplink_mac;             // how the uplink is found again after removal and rename
  int uplink_index = 0;
  bool on_link = true;
  bool announced = false;  // a proxy neighbour for it stands on the uplink

  friend bool operator==(const RecordAddress&, const RecordAddress&) = default;
};

struct Record {
  AttachmentId id;
  RecordState state = RecordState::adding;
  pdl_mode mode = PDL_MODE_FAST;
  std::string netns;  // CNI_NETNS as given
  std::string host_veth;
  int host_veth_index = 0;
  MacAddress pod_mac;
  unsigned mtu = 0;
  std::vector<RecordAddress> addresses;
  std::map<std::string, std::string> labels;  // of CNI_ARGS: K8S_POD_NAME, K8S_POD_NAMESPACE, K8S_POD_UID
  std::optional<RecordExternal> external;     // of an attachment that is the pod's way out of the cluster

  friend bool operator==(const Record&, const Record&) = default;
};

std::string record_path(const std::string& run_dir, std::uint64_t hash);

std::string write_record_text(const Record& record);
// Errors: text that is no record, with what is wrong.
Result<Record> parse_record_text(std::string_view text);

// Callers hold GlobalLock for these.
// Nothing where there is no record, or one that is empty or cut short (a crash before its fsync).
Result<std::optional<Record>> load_record(const std::string& run_dir, const AttachmentId& id);
Result<> store_record(const std::string& run_dir, const Record& record);
// With what writers of it that were killed left behind.
Result<> remove_record(const std::string& run_dir, const AttachmentId& id);
// One file of records_dir(), whatever its name. Errors: errno of reading; text that is no record.
Result<Record> read_record(const std::string& path);
// A name in records_dir() that is a record's, not a temporary file of a writer that was killed.
bool is_record_name(std::string_view name);
// What killed writers of any record left behind.
Result<> remove_record_drafts(const std::string& run_dir);
// The files of all records, in the folder's order; none where there is no folder.
Result<std::vector<std::string>> record_paths(const std::string& run_dir);
// Those that can be read; a file that cannot is logged and passed over.
std::vector<Record> read_records(std::span<const std::string> paths);
// Both.
Result<std::vector<Record>> load_records(const std::string& run_dir);

}  // namespace poduplink
