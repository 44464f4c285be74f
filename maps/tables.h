// SPDX-License-Identifier: Apache-2.0
// Typed access to the pinned maps. Callers that read, decide and write hold GlobalLock (maps/locks.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "maps/abi.h"
#include "maps/bpf.h"

namespace poduplink {

// One hash map or LPM trie with keys and values of the shapes of maps/abi.h.
template <typename Key, typename Value>
class Table {
 public:
  Table() = default;
  Table(Fd fd, std::string name, std::uint32_t size) : fd_(std::move(fd)), name_(std::move(name)), size_(size) {}

  // Opens a pin. Errors: ENOENT; EINVAL, with name, where what is pinned there has another type or size.
  static Result<Table> open(const std::string& path, const std::string& name);

  [[nodiscard]] Result<std::optional<Value>> find(const Key& key) const;
  // Errors: ENOSPC with the map's name and size where it is full; EEXIST and ENOENT as `how` has it.
  [[nodiscard]] Result<> put(const Key& key, const Value& value, bpf::Update how = bpf::Update::any) const;
  // False where there was none.
  [[nodiscard]] Result<bool> erase(const Key& key) const;
  // A copy of all entries. Entries changed meanwhile may be in it or not.
  [[nodiscard]] Result<std::vector<std::pair<Key, Value>>> entries() const;
  // Their number, without a copy of them.
  [[nodiscard]] Result<std::size_t> count() const;

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  Fd fd_;
  std::string name_;
  std::uint32_t size_ = 0;  // entries that it can have
};

// Pod entries and node addresses of both families under one key: the address.
template <typename Value>
class AddressTable {
 public:
  AddressTable() = default;
  AddressTable(Table<pdl_addr4, Value> v4, Table<pdl_addr6, Value> v6) : v4_(std::move(v4)), v6_(std::move(v6)) {}

  [[nodiscard]] Result<std::optional<Value>> find(const IpAddress& address) const;
  [[nodiscard]] Result<> put(const IpAddress& address, const Value& value, bpf::Update how = bpf::Update::any) const;
  [[nodiscard]] Result<bool> erase(const IpAddress& address) const;
  [[nodiscard]] Result<std::vector<std::pair<IpAddress, Value>>> entries() const;

  [[nodiscard]] const Table<pdl_addr4, Value>& v4() const { return v4_; }
  [[nodiscard]] const Table<pdl_addr6, Value>& v6() const { return v6_; }

 private:
  Table<pdl_addr4, Value> v4_;
  Table<pdl_addr6, Value> v6_;
};

using PodTable = AddressTable<pdl_pod>;
using NodeTable = AddressTable<pdl_node>;
using UplinkTable = Table<std::uint32_t, pdl_uplink>;

// The exempt prefixes of both families; keys are network addresses.
class ExemptTable {
 public:
  ExemptTable() = default;
  ExemptTable(Table<pdl_prefix4, pdl_exempt> v4, Table<pdl_prefix6, pdl_exempt> v6)
      : v4_(std::move(v4)), v6_(std::move(v6)) {}

  [[nodiscard]] Result<> put(const Prefix& prefix, std::uint32_t item) const;
  [[nodiscard]] Result<bool> erase(const Prefix& prefix) const;
  [[nodiscard]] Result<std::vector<std::pair<Prefix, std::uint32_t>>> entries() const;

  [[nodiscard]] const Table<pdl_prefix4, pdl_exempt>& v4() const { return v4_; }
  [[nodiscard]] const Table<pdl_prefix6, pdl_exempt>& v6() const { return v6_; }

 private:
  Table<pdl_prefix4, pdl_exempt> v4_;
  Table<pdl_prefix6, pdl_exempt> v6_;
};

// Counters summed over the CPUs.
class StatsTable {
 public:
  StatsTable() = default;
  StatsTable(Fd verdicts, Fd uplink_stats) : verdicts_(std::move(verdicts)), uplink_stats_(std::move(uplink_stats)) {}

  [[nodiscard]] Result<pdl_verdicts> verdicts() const;
  [[nodiscard]] Result<std::vector<std::pair<std::uint32_t, pdl_uplink_stats>>> uplinks() const;
  // The agent makes an uplink's entry; the programs only count in one that is there.
  [[nodiscard]] Result<> add_uplink(std::uint32_t ifindex) const;
  [[nodiscard]] Result<> remove_uplink(std::uint32_t ifindex) const;

 private:
  Fd verdicts_;
  Fd uplink_stats_;
};

// By what generation of the configuration the programs remember flows as judged.
class GenerationTable {
 public:
  GenerationTable() = default;
  explicit GenerationTable(Fd fd) : fd_(std::move(fd)) {}

  // From the moment this returns, every flow is judged anew. To be called after a change of what flows are judged by:
  // nodes, exempt prefixes, uplinks, programs, and pods that were not there. The caller holds GlobalLock.
  [[nodiscard]] Result<> raise() const;
  [[nodiscard]] Result<std::uint32_t> number() const;

 private:
  Fd fd_;
};

// What an attachment has entries in and leads to.
struct PodTables {
  std::string folder;  // PIN_DIR/v<ABI>
  PodTable pods;
  UplinkTable uplinks;
  GenerationTable generation;
};

// What lies under PIN_DIR/v<ABI>/, opened.
struct Tables : PodTables {
  NodeTable nodes;
  ExemptTable exempt;
  StatsTable stats;
};

// How full a map is.
struct Fill {
  std::string map;
  std::size_t entries = 0;
  std::uint32_t size = 0;
};
// Of all maps that can be full. Errors: errno of the kernel, with the map.
Result<std::vector<Fill>> fill_of_maps(const Tables& tables);

// Opens every map of one version folder. Errors: ENOENT naming the pin that is missing, EINVAL naming a
// pin that is something else than this build's map.
Result<Tables> open_tables(const std::string& version_folder);
// Those that a pod's attachment has to do with.
Result<PodTables> open_pod_tables(const std::string& version_folder);

// What PIN_DIR/current names. Errors: ENOENT where the agent never ran.
Result<unsigned> current_abi(const std::string& pin_dir);

// Maps of the version in force. Errors: as above; EPROTO where its ABI is not this build's.
Result<Tables> open_current_tables(const std::string& pin_dir);
Result<PodTables> open_current_pod_tables(const std::string& pin_dir);

// Name of an enumerator of pdl_verdict, and its text from PDL_VERDICTS.
std::string verdict_name(unsigned verdict);
std::string verdict_text(unsigned verdict);
// The program that counts it.
const char* verdict_program(unsigned verdict);
// What becomes of the packet in one word: "dropped", "stack" (left to the host's own routing), "passed" (an uplink's
// packet that was left as it was), "sent". A packet that is too big is dropped, but for IPv4 ones that may be
// fragmented.
const char* verdict_outcome(unsigned verdict);

// Next hop of a pod entry: gateway4 or gateway6, whichever is set.
std::optional<IpAddress> pod_gateway(const pdl_pod& pod);
void set_pod_gateway(pdl_pod& pod, const std::optional<IpAddress>& gateway);
MacAddress to_mac(const __u8 (&octets)[6]);
void set_mac(__u8 (&octets)[6], const MacAddress& mac);

}  // namespace poduplink
