// SPDX-License-Identifier: Apache-2.0
#include "maps/tables.h"

#include <linux/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "maps/paths.h"

namespace poduplink {
namespace {

constexpr std::array<const char*, PDL_VERDICT_COUNT> verdict_names{
#define PDL_X(name, text) #name,
    PDL_VERDICTS(PDL_X)
#undef PDL_X
};

constexpr std::array<const char*, PDL_VERDICT_COUNT> verdict_texts{
#define PDL_X(name, text) text,
    PDL_VERDICTS(PDL_X)
#undef PDL_X
};

struct OpenedMap {
  Fd fd;
  std::uint32_t size = 0;
};

// Opens a pin and checks that it is the map that this build means.
Result<OpenedMap> open_map(const std::string& path, std::uint32_t type, std::size_t key_size, std::size_t value_size) {
  PDL_TRY_ASSIGN(Fd fd, bpf::open_pinned(path));
  auto info = bpf::known_map_info(fd.get());
  if (info && info->type == type && info->key_size == key_size && info->value_size == value_size) {
    return OpenedMap{std::move(fd), info->max_entries};
  }
  // Another map, or no map at all.
  if (info) {
    if (auto map = bpf::map_info(fd.get()); !map) info = std::move(map);
  }
  if (!info) return fail_within(std::move(info.error()), path);
  return fail_errno(EINVAL, "{} is another map: type {}, key {} and value {} octets; wanted type {}, {} and {}", path,
                    info->type, info->key_size, info->value_size, type, key_size, value_size);
}

template <typename Key>
constexpr std::uint32_t map_type() {
  const bool trie = std::is_same_v<Key, pdl_prefix4> || std::is_same_v<Key, pdl_prefix6>;
  return trie ? BPF_MAP_TYPE_LPM_TRIE : BPF_MAP_TYPE_HASH;
}

template <typename Key>
Key address_key(const IpAddress& address) {
  Key key{};
  std::ranges::copy(address.octets(), key.addr);
  return key;
}

IpAddress key_address(const pdl_addr4& key) { return IpAddress::v4(key.addr); }
IpAddress key_address(const pdl_addr6& key) { return IpAddress::v6(key.addr); }
IpAddress key_address(const pdl_prefix4& key) { return IpAddress::v4(key.addr); }
IpAddress key_address(const pdl_prefix6& key) { return IpAddress::v6(key.addr); }

template <typename Key>
Key prefix_key(const Prefix& prefix) {
  Key key = address_key<Key>(prefix.network());
  key.prefix_len = prefix.length();
  return key;
}

// Values of one key, one a CPU; each struct here is a multiple of eight octets, so slots have no padding.
template <typename Value>
Result<Value> summed(int map_fd, const void* key) {
  static_assert(sizeof(Value) % sizeof(std::uint64_t) == 0);
  PDL_TRY_ASSIGN(const unsigned cpus, bpf::possible_cpus());
  constexpr std::size_t counters = sizeof(Value) / sizeof(std::uint64_t);
  std::vector<std::uint64_t> slots(counters * cpus);
  PDL_TRY(bpf::lookup(map_fd, key, slots.data()));
  std::array<std::uint64_t, counters> sums{};
  for (std::size_t i = 0; i < slots.size(); ++i) sums[i % counters] += slots[i];
  Value value{};
  std::memcpy(&value, sums.data(), sizeof(value));
  return value;
}

// Hands all entries to `visit`, many with one call: keys, values and their number. Errors: see lookup_batch().
template <typename Key, typename Value, typename Visit>
Result<> each_batch(int map_fd, std::uint32_t size, Visit visit) {
  const std::uint32_t most = std::clamp<std::uint32_t>(size, 1, 1024);
  std::vector<Key> keys(most);
  std::vector<Value> values(most);
  std::array<std::uint8_t, std::max<std::size_t>(sizeof(Key), sizeof(std::uint32_t))> cursor{};
  bpf::Batch batch{.cursor = cursor, .keys = keys.data(), .values = values.data(), .most = most, .count = 0};
  bool more = true;
  for (bool first = true; more; first = false) {
    PDL_TRY_ASSIGN(more, bpf::lookup_batch(map_fd, first, batch));
    visit(keys, values, batch.count);
  }
  return {};
}

template <typename Key, typename Visit>
Result<> each_key(int map_fd, const std::string& name, Visit visit) {
  Key key{};
  const void* previous = nullptr;
  for (;;) {
    Key next{};
    const auto found = bpf::next_key(map_fd, previous, &next);
    if (!found && found.error().code == ENOENT) return {};
    if (!found) return fail_within(found.error(), name);
    PDL_TRY(visit(next));
    key = next;
    previous = &key;
  }
}

}  // namespace

// ---- Table -----------------------------------------------------------------------------------

template <typename Key, typename Value>
Result<Table<Key, Value>> Table<Key, Value>::open(const std::string& path, const std::string& name) {
  PDL_TRY_ASSIGN(OpenedMap map, open_map(path, map_type<Key>(), sizeof(Key), sizeof(Value)));
  return Table(std::move(map.fd), name, map.size);
}

template <typename Key, typename Value>
Result<std::optional<Value>> Table<Key, Value>::find(const Key& key) const {
  Value value{};
  auto found = bpf::lookup(fd(), &key, &value);
  if (found) return std::optional(value);
  if (found.error().code == ENOENT) return std::optional<Value>();
  return fail_within(std::move(found.error()), "map " + name_);
}

template <typename Key, typename Value>
Result<> Table<Key, Value>::put(const Key& key, const Value& value, bpf::Update how) const {
  auto written = bpf::update(fd(), &key, &value, how);
  if (written) return {};
  // Hash maps say E2BIG, tries ENOSPC.
  if (written.error().code == E2BIG || written.error().code == ENOSPC) {
    const auto info = bpf::map_info(fd());
    return fail_errno(ENOSPC, "map {} is full ({} entries)", name_, info ? info->max_entries : 0);
  }
  return fail_within(std::move(written.error()), "map " + name_);
}

template <typename Key, typename Value>
Result<bool> Table<Key, Value>::erase(const Key& key) const {
  auto erased = bpf::erase(fd(), &key);
  if (erased) return true;
  if (erased.error().code == ENOENT) return false;
  return fail_within(std::move(erased.error()), "map " + name_);
}

template <typename Key, typename Value>
Result<std::vector<std::pair<Key, Value>>> Table<Key, Value>::entries() const {
  std::vector<std::pair<Key, Value>> found;
  const auto quickly =
      each_batch<Key, Value>(fd(), size_, [&](const auto& keys, const auto& values, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) found.emplace_back(keys[i], values[i]);
      });
  if (quickly) return found;
  found.clear();
  PDL_TRY(each_key<Key>(fd(), "map " + name_, [&](const Key& key) -> Result<> {
    PDL_TRY_ASSIGN(const std::optional<Value> value, find(key));
    if (value) found.emplace_back(key, *value);
    return {};
  }));
  return found;
}

template <typename Key, typename Value>
Result<std::size_t> Table<Key, Value>::count() const {
  std::size_t number = 0;
  const auto add = [&](const auto&, const auto&, std::uint32_t count) { number += count; };
  if (each_batch<Key, Value>(fd(), size_, add)) return number;
  number = 0;
  PDL_TRY(each_key<Key>(fd(), "map " + name_, [&](const Key&) -> Result<> {
    ++number;
    return {};
  }));
  return number;
}

template class Table<pdl_addr4, pdl_pod>;
template class Table<pdl_addr6, pdl_pod>;
template class Table<pdl_addr4, pdl_node>;
template class Table<pdl_addr6, pdl_node>;
template class Table<pdl_prefix4, pdl_exempt>;
template class Table<pdl_prefix6, pdl_exempt>;
template class Table<std::uint32_t, pdl_uplink>;

// ---- AddressTable ----------------------------------------------------------------------------

template <typename Value>
Result<std::optional<Value>> AddressTable<Value>::find(const IpAddress& address) const {
  return address.is_v4() ? v4_.find(address_key<pdl_addr4>(address)) : v6_.find(address_key<pdl_addr6>(address));
}

template <typename Value>
Result<> AddressTable<Value>::put(const IpAddress& address, const Value& value, bpf::Update how) const {
  auto written = address.is_v4() ? v4_.put(address_key<pdl_addr4>(address), value, how)
                                 : v6_.put(address_key<pdl_addr6>(address), value, how);
  if (!written) return fail_within(std::move(written.error()), address.text());
  return {};
}

template <typename Value>
Result<bool> AddressTable<Value>::erase(const IpAddress& address) const {
  return address.is_v4() ? v4_.erase(address_key<pdl_addr4>(address)) : v6_.erase(address_key<pdl_addr6>(address));
}

template <typename Value>
Result<std::vector<std::pair<IpAddress, Value>>> AddressTable<Value>::entries() const {
  std::vector<std::pair<IpAddress, Value>> found;
  PDL_TRY_ASSIGN(const auto v4, v4_.entries());
  PDL_TRY_ASSIGN(const auto v6, v6_.entries());
  found.reserve(v4.size() + v6.size());
  for (const auto& [key, value] : v4) found.emplace_back(key_address(key), value);
  for (const auto& [key, value] : v6) found.emplace_back(key_address(key), value);
  return found;
}

template class AddressTable<pdl_pod>;
template class AddressTable<pdl_node>;

// ---- ExemptTable -----------------------------------------------------------------------------

Result<> ExemptTable::put(const Prefix& prefix, std::uint32_t item) const {
  const pdl_exempt value{item};
  auto written = prefix.family() == Family::v4 ? v4_.put(prefix_key<pdl_prefix4>(prefix), value)
                                               : v6_.put(prefix_key<pdl_prefix6>(prefix), value);
  if (!written) return fail_within(std::move(written.error()), prefix.text());
  return {};
}

Result<bool> ExemptTable::erase(const Prefix& prefix) const {
  return prefix.family() == Family::v4 ? v4_.erase(prefix_key<pdl_prefix4>(prefix))
                                       : v6_.erase(prefix_key<pdl_prefix6>(prefix));
}

Result<std::vector<std::pair<Prefix, std::uint32_t>>> ExemptTable::entries() const {
  std::vector<std::pair<Prefix, std::uint32_t>> found;
  PDL_TRY_ASSIGN(const auto v4, v4_.entries());
  PDL_TRY_ASSIGN(const auto v6, v6_.entries());
  for (const auto& [key, value] : v4) found.emplace_back(Prefix(key_address(key), key.prefix_len), value.item);
  for (const auto& [key, value] : v6) found.emplace_back(Prefix(key_address(key), key.prefix_len), value.item);
  return found;
}

// ---- StatsTable ------------------------------------------------------------------------------

Result<pdl_verdicts> StatsTable::verdicts() const {
  const std::uint32_t key = 0;
  auto sums = summed<pdl_verdicts>(verdicts_.get(), &key);
  if (!sums) return fail_within(std::move(sums.error()), "map verdicts");
  return sums;
}

Result<std::vector<std::pair<std::uint32_t, pdl_uplink_stats>>> StatsTable::uplinks() const {
  std::vector<std::pair<std::uint32_t, pdl_uplink_stats>> found;
  PDL_TRY(each_key<std::uint32_t>(uplink_stats_.get(), "map uplink_stats", [&](std::uint32_t ifindex) -> Result<> {
    auto sums = summed<pdl_uplink_stats>(uplink_stats_.get(), &ifindex);
    if (sums) {
      found.emplace_back(ifindex, *sums);
    } else if (sums.error().code != ENOENT) {
      return fail_within(std::move(sums.error()), "map uplink_stats");
    }
    return {};
  }));
  return found;
}

Result<> StatsTable::add_uplink(std::uint32_t ifindex) const {
  PDL_TRY_ASSIGN(const unsigned cpus, bpf::possible_cpus());
  const std::vector<pdl_uplink_stats> zeros(cpus);
  auto added = bpf::update(uplink_stats_.get(), &ifindex, zeros.data(), bpf::Update::create);
  if (added || added.error().code == EEXIST) return {};
  return fail_within(std::move(added.error()), "map uplink_stats");
}

Result<> StatsTable::remove_uplink(std::uint32_t ifindex) const {
  auto removed = bpf::erase(uplink_stats_.get(), &ifindex);
  if (removed || removed.error().code == ENOENT) return {};
  return fail_within(std::move(removed.error()), "map uplink_stats");
}

// ---- Opening ---------------------------------------------------------------------------------

// ---- GenerationTable -------------------------------------------------------------------------

Result<std::uint32_t> GenerationTable::number() const {
  const std::uint32_t key = 0;
  pdl_generation value{};
  auto read = bpf::lookup(fd_.get(), &key, &value);
  if (!read) return fail_within(std::move(read.error()), "map generation");
  return value.number;
}

Result<> GenerationTable::raise() const {
  PDL_TRY_ASSIGN(const std::uint32_t before, number());
  const std::uint32_t key = 0;
  const pdl_generation value{.number = before + 1};
  auto written = bpf::update(fd_.get(), &key, &value, bpf::Update::any);
  if (!written) return fail_within(std::move(written.error()), "map generation");
  return {};
}

namespace {

template <typename T>
Result<T> open_table(const std::string& folder, const char* name) {
  return T::open(map_pin(folder, name), name);
}

template <typename Value>
Result<AddressTable<Value>> open_address_table(const std::string& folder, const char* name4, const char* name6) {
  PDL_TRY_ASSIGN(auto v4, (open_table<Table<pdl_addr4, Value>>(folder, name4)));
  PDL_TRY_ASSIGN(auto v6, (open_table<Table<pdl_addr6, Value>>(folder, name6)));
  return AddressTable<Value>(std::move(v4), std::move(v6));
}

Result<StatsTable> open_stats(const std::string& folder) {
  PDL_TRY_ASSIGN(OpenedMap verdicts, open_map(map_pin(folder, "verdicts"), BPF_MAP_TYPE_PERCPU_ARRAY,
                                              sizeof(std::uint32_t), sizeof(pdl_verdicts)));
  PDL_TRY_ASSIGN(OpenedMap uplinks, open_map(map_pin(folder, "uplink_stats"), BPF_MAP_TYPE_PERCPU_HASH,
                                             sizeof(std::uint32_t), sizeof(pdl_uplink_stats)));
  return StatsTable(std::move(verdicts.fd), std::move(uplinks.fd));
}

}  // namespace

Result<PodTables> open_pod_tables(const std::string& version_folder) {
  PodTables tables;
  tables.folder = version_folder;
  PDL_TRY_ASSIGN(tables.pods, open_address_table<pdl_pod>(version_folder, "pods4", "pods6"));
  PDL_TRY_ASSIGN(tables.uplinks, open_table<UplinkTable>(version_folder, "uplinks"));
  PDL_TRY_ASSIGN(OpenedMap generation, open_map(map_pin(version_folder, "generation"), BPF_MAP_TYPE_ARRAY,
                                                sizeof(std::uint32_t), sizeof(pdl_generation)));
  tables.generation = GenerationTable(std::move(generation.fd));
  return tables;
}

Result<Tables> open_tables(const std::string& version_folder) {
  Tables tables;
  PDL_TRY_ASSIGN(static_cast<PodTables&>(tables), open_pod_tables(version_folder));
  PDL_TRY_ASSIGN(tables.nodes, open_address_table<pdl_node>(version_folder, "nodes4", "nodes6"));
  PDL_TRY_ASSIGN(auto exempt4, (open_table<Table<pdl_prefix4, pdl_exempt>>(version_folder, "exempt4")));
  PDL_TRY_ASSIGN(auto exempt6, (open_table<Table<pdl_prefix6, pdl_exempt>>(version_folder, "exempt6")));
  tables.exempt = ExemptTable(std::move(exempt4), std::move(exempt6));
  PDL_TRY_ASSIGN(tables.stats, open_stats(version_folder));
  return tables;
}

namespace {

template <typename Key, typename Value>
Result<> add_fill(std::vector<Fill>& fills, const Table<Key, Value>& table) {
  PDL_TRY_ASSIGN(const std::size_t entries, table.count());
  PDL_TRY_ASSIGN(const bpf::MapInfo info, bpf::map_info(table.fd()));
  fills.push_back({table.name(), entries, info.max_entries});
  return {};
}

}  // namespace

Result<std::vector<Fill>> fill_of_maps(const Tables& tables) {
  std::vector<Fill> fills;
  PDL_TRY(add_fill(fills, tables.pods.v4()));
  PDL_TRY(add_fill(fills, tables.pods.v6()));
  PDL_TRY(add_fill(fills, tables.nodes.v4()));
  PDL_TRY(add_fill(fills, tables.nodes.v6()));
  PDL_TRY(add_fill(fills, tables.uplinks));
  PDL_TRY(add_fill(fills, tables.exempt.v4()));
  PDL_TRY(add_fill(fills, tables.exempt.v6()));
  return fills;
}

Result<unsigned> current_abi(const std::string& pin_dir) {
  const std::string path = current_link(pin_dir);
  std::array<char, 64> target{};
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) return fail_errno(errno, "{}", path);
  const std::string_view text(target.data(), static_cast<std::size_t>(size));
  unsigned abi = 0;
  const auto* const end = text.data() + text.size();
  if (text.empty() || text.front() != 'v' ||
      std::from_chars(text.data() + 1, end, abi) != std::from_chars_result{end, std::errc{}}) {
    return fail_errno(EPROTO, "{} names '{}', which is no version", path, text);
  }
  return abi;
}

namespace {

// The version folder in force. Errors: see open_current_tables().
Result<std::string> current_known_folder(const std::string& pin_dir) {
  PDL_TRY_ASSIGN(const unsigned abi, current_abi(pin_dir));
  if (abi != PDL_ABI_VERSION) {
    return fail_errno(EPROTO, "the maps under {} have ABI {}, this build knows {}", pin_dir, abi, PDL_ABI_VERSION);
  }
  return version_dir(pin_dir, abi);
}

}  // namespace

Result<Tables> open_current_tables(const std::string& pin_dir) {
  PDL_TRY_ASSIGN(const std::string folder, current_known_folder(pin_dir));
  return open_tables(folder);
}

Result<PodTables> open_current_pod_tables(const std::string& pin_dir) {
  PDL_TRY_ASSIGN(const std::string folder, current_known_folder(pin_dir));
  return open_pod_tables(folder);
}

// ---- Values ----------------------------------------------------------------------------------

std::string verdict_name(unsigned verdict) {
  return verdict < verdict_names.size() ? verdict_names[verdict] : formatted("verdict {}", verdict);
}

std::string verdict_text(unsigned verdict) { return verdict < verdict_texts.size() ? verdict_texts[verdict] : ""; }

const char* verdict_program(unsigned verdict) {
  const std::string name = verdict_name(verdict);
  if (name.starts_with("late_")) return "uplink_egress";
  return name.starts_with("in_") || verdict == PDL_VERDICT_martian ? "uplink_ingress" : "pod_egress";
}

const char* verdict_outcome(unsigned verdict) {
  const std::string text = verdict_text(verdict);
  if (text.starts_with("dropped:") || verdict == PDL_VERDICT_too_big) return "dropped";
  if (text.starts_with("to the stack:")) return "stack";
  return text.starts_with("passed:") ? "passed" : "sent";
}

std::optional<IpAddress> pod_gateway(const pdl_pod& pod) {
  const IpAddress v4 = IpAddress::v4(pod.gateway4);
  if (!v4.is_unspecified()) return v4;
  const IpAddress v6 = IpAddress::v6(pod.gateway6);
  if (!v6.is_unspecified()) return v6;
  return std::nullopt;
}

void set_pod_gateway(pdl_pod& pod, const std::optional<IpAddress>& gateway) {
  std::ranges::fill(pod.gateway4, __u8{0});
  std::ranges::fill(pod.gateway6, __u8{0});
  if (!gateway) return;
  std::ranges::copy(gateway->octets(), gateway->is_v4() ? pod.gateway4 : pod.gateway6);
}

MacAddress to_mac(const __u8 (&octets)[6]) {
  std::array<std::uint8_t, 6> mac{};
  std::ranges::copy(octets, mac.begin());
  return MacAddress(mac);
}

void set_mac(__u8 (&octets)[6], const MacAddress& mac) { std::ranges::copy(mac.octets(), octets); }

}  // namespace poduplink
