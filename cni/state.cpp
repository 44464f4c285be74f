// SPDX-License-Identifier: Apache-2.0
#include "cni/state.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <utility>

#include "cni/external_pod.h"
#include "cni/first_error.h"
#include "loader/base/file.h"
#include "loader/base/log.h"
#include "loader/net/link.h"
#include "loader/net/route.h"
#include "maps/bpf.h"
#include "maps/paths.h"
#include "maps/podprog.h"

namespace poduplink {
namespace {

constexpr MacAddress host_mac(std::array<std::uint8_t, 6>(PDL_HOST_MAC));

// `folder`, or the nearest one above it that exists.
std::string existing_folder(std::string folder) {
  while (folder.size() > 1 && !list_directory(folder)) {
    const std::size_t slash = folder.find_last_of('/');
    folder = slash == 0 || slash == std::string::npos ? "/" : folder.substr(0, slash);
  }
  return folder;
}

CniError datapath_error(Error error, const std::string& pin_dir) {
  switch (error.code) {
    case EPROTO:
      return cni_error(cni_code::try_again, std::move(error));
    case ENOENT: {
      const auto bpffs = bpf::is_bpffs(existing_folder(pin_dir));
      if (bpffs && !*bpffs) {
        return {cni_code::datapath, formatted("pin directory {} is on no bpffs: none is mounted there", pin_dir),
                std::move(error.message)};
      }
      if (current_abi(pin_dir)) return {cni_code::datapath, "a pin is missing: " + error.message, {}};
      return {cni_code::agent_missing, formatted("nothing is pinned in {}: the agent has not run", pin_dir),
              std::move(error.message)};
    }
    case EPERM:
    case EACCES:
      return {cni_code::datapath,
              formatted("no access to the pinned maps in {}: CAP_BPF or CAP_SYS_ADMIN is missing", pin_dir),
              std::move(error.message)};
    default:
      return cni_error(cni_code::datapath, std::move(error));
  }
}

CniResult<PodTables> open_entries(const std::string& pin_dir) {
  auto tables = open_current_pod_tables(pin_dir);
  if (tables) return std::move(*tables);
  return CniFailure(datapath_error(std::move(tables.error()), pin_dir));
}

// The record that has this hash, whoever's it is. For messages and for dead holders: faults count as none.
std::optional<Record> record_of(const Options& options, std::uint64_t hash) {
  const auto text = read_file(record_path(options.run_dir, hash));
  if (!text) return std::nullopt;
  auto record = parse_record_text(*text);
  return record ? std::optional(std::move(*record)) : std::nullopt;
}

// Lets the record of an attachment that is gone forget an address which is another's from now on.
Result<> forget_address(const Options& options, std::uint64_t hash, const IpAddress& address) {
  auto record = record_of(options, hash);
  if (!record) return {};
  std::erase_if(record->addresses, [&](const RecordAddress& one) { return one.address.address() == address; });
  return store_record(options.run_dir, *record);
}

// What stands in the way of an address: a living holder is an error; a dead one's entry goes.
CniResult<> clear_address(Netlink& netlink, const Options& options, const PodTables& tables, std::uint64_t hash,
                          const IpAddress& address) {
  PDL_CNI_TRY_ASSIGN(const auto entry, with_code(cni_code::datapath, tables.pods.find(address)));
  if (!entry || entry->owner == hash) return {};
  PDL_CNI_TRY_ASSIGN(const bool alive, with_code(cni_code::container_link, is_owner_alive(netlink, *entry)));
  if (alive) {
    const auto holder = record_of(options, entry->owner);
    return cni_fail(cni_code::already_added, "address {} is held by {}", address.text(),
                    holder ? formatted("{} of container {} in network {}", holder->id.if_name, holder->id.container_id,
                                       holder->id.network)
                           : formatted("the pod behind veth {}", host_veth_name(entry->owner)));
  }
  PDL_CNI_TRY(with_code(cni_code::state, forget_address(options, entry->owner, address)));
  PDL_CNI_TRY(with_code(cni_code::datapath, tables.pods.erase(address)));
  return {};
}

CniResult<> check_home(const PodTables& tables, const RecordAddress& address) {
  const auto index = static_cast<std::uint32_t>(address.uplink_index);
  PDL_CNI_TRY_ASSIGN(const auto entry, with_code(cni_code::datapath, tables.uplinks.find(index)));
  if (entry && entry->role == PDL_ROLE_HOME) return {};
  return cni_fail(cni_code::uplink, "uplink {} is managed by the agent no longer", address.uplink_name);
}

// The version folder in force, whatever its ABI. Nothing: nothing is pinned.
std::optional<std::string> current_folder(const std::string& pin_dir) {
  const auto abi = current_abi(pin_dir);
  return abi ? std::optional(version_dir(pin_dir, *abi)) : std::nullopt;
}

// Addresses whose entries may be an attachment's: those of its record, or of the whole map without one.
Result<std::vector<IpAddress>> addresses_to_erase(const PodTables& tables, const std::optional<Record>& record,
                                                  std::uint64_t hash) {
  std::vector<IpAddress> addresses;
  if (record) {
    for (const RecordAddress& one : record->addresses) addresses.push_back(one.address.address());
    return addresses;
  }
  PDL_TRY_ASSIGN(const auto entries, tables.pods.entries());
  for (const auto& [address, entry] : entries) {
    if (entry.owner == hash) addresses.push_back(address);
  }
  return addresses;
}

// An address and the interface on which a proxy neighbour may stand for it.
using Proxy = std::pair<int, IpAddress>;

// The entries that the attachment owns, by their addresses.
Result<std::vector<std::pair<IpAddress, pdl_pod>>> owned_entries(const PodTables& tables,
                                                                 const std::optional<Record>& record,
                                                                 std::uint64_t hash) {
  PDL_TRY_ASSIGN(const auto addresses, addresses_to_erase(tables, record, hash));
  std::vector<std::pair<IpAddress, pdl_pod>> owned;
  for (const IpAddress& address : addresses) {
    PDL_TRY_ASSIGN(const auto entry, tables.pods.find(address));
    if (entry && entry->owner == hash) owned.emplace_back(address, *entry);
  }
  return owned;
}

// From now on nothing enters or leaves the pod: its entries bear no veth. They stay until the veth is gone, so that
// packets which the stack still holds leave by the pod's home as those before them did.
Result<> close_entries(const PodTables& tables, const std::optional<Record>& record, std::uint64_t hash) {
  PDL_TRY_ASSIGN(auto entries, owned_entries(tables, record, hash));
  for (auto& [address, entry] : entries) {
    entry.veth = 0;
    PDL_TRY(tables.pods.put(address, entry, bpf::Update::any));
  }
  return {};
}

// Erases what the attachment owns and adds what the entries tell of proxy neighbours.
Result<> erase_entries(const PodTables& tables, const std::optional<Record>& record, std::uint64_t hash,
                       std::set<Proxy>& proxies) {
  PDL_TRY_ASSIGN(const auto entries, owned_entries(tables, record, hash));
  for (const auto& [address, entry] : entries) {
    if (address.is_v6()) proxies.emplace(static_cast<int>(entry.home), address);
    PDL_TRY(tables.pods.erase(address));
  }
  return {};
}

// Leaves the proxy neighbour of an address that another attachment has by now.
Result<> remove_proxy_neighbours(Netlink& netlink, const std::optional<PodTables>& tables,
                                 const std::set<Proxy>& proxies) {
  for (const auto& [link, address] : proxies) {
    if (tables) {
      PDL_TRY_ASSIGN(const auto entry, tables->pods.find(address));
      if (entry) continue;
    }
    auto removed = delete_proxy_neighbour(netlink, link, address);
    // The uplink, and with it the entry, may be gone.
    if (removed || removed.error().code == ENOENT || removed.error().code == ENODEV) continue;
    return removed;
  }
  return {};
}

// The maps where they can be had. Maps that are missing are no error, nor are maps of another ABI or foreign
// pins in their place: no repetition of DEL would help, and the agent removes entries without a record.
std::optional<PodTables> tables_if_any(const Options& options, FirstError& errors) {
  auto tables = open_current_pod_tables(options.pin_dir);
  if (tables) return std::move(*tables);
  const int code = tables.error().code;
  if (code == EPROTO || code == EINVAL) {
    log_warning("{}: its entries are left to the agent", tables.error().message);
  } else if (code != ENOENT) {
    errors.keep(datapath_error(std::move(tables.error()), options.pin_dir));
  }
  return std::nullopt;
}

// Before the veth goes, under the global lock. Returns the record there was.
std::optional<Record> close_state(const Options& options, const AttachmentId& id, FirstError& errors) {
  const auto lock = GlobalLock::take(options.run_dir);
  if (!errors.note(cni_code::state, lock) && lock.error().code == EAGAIN) return std::nullopt;
  auto record = load_record(options.run_dir, id);
  if (!errors.note(cni_code::state, record)) return std::nullopt;
  if (*record && lock) {
    (*record)->state = RecordState::deleting;
    errors.note(cni_code::state, store_record(options.run_dir, **record));
  }
  if (const auto tables = tables_if_any(options, errors))
    errors.note(cni_code::datapath, close_entries(*tables, *record, attachment_hash(id)));
  return std::move(*record);
}

// After it, under the global lock. A veth that is still there keeps its program, which lets nothing out.
void release_state(Netlink& netlink, const Options& options, const AttachmentId& id,
                   const std::optional<Record>& record, bool veth_is_gone, FirstError& errors) {
  const auto lock = GlobalLock::take(options.run_dir);
  if (!errors.note(cni_code::state, lock) && lock.error().code == EAGAIN) return;
  const auto tables = tables_if_any(options, errors);
  std::set<Proxy> proxies;
  if (record) {
    for (const RecordAddress& one : record->addresses) {
      if (one.announced) proxies.emplace(one.uplink_index, one.address.address());
    }
  }
  if (tables) errors.note(cni_code::datapath, erase_entries(*tables, record, attachment_hash(id), proxies));
  const auto folder = current_folder(options.pin_dir);
  if (folder && veth_is_gone) errors.note(cni_code::datapath, detach_pod_program(*folder, host_veth_name(id)));
  errors.note(cni_code::container_link, remove_proxy_neighbours(netlink, tables, proxies));
}

// Our veth by name; recorded index or our MAC tell it from one that only happens to have the name.
Result<> delete_host_veth(Netlink& netlink, const AttachmentId& id, const std::optional<Record>& record) {
  const std::string name = host_veth_name(id);
  const auto link = find_link_by_name(netlink, name);
  if (!link && link.error().code == ENODEV) return {};
  if (!link) return Failure(link.error());
  const bool recorded = record && record->host_veth_index == link->index;
  if (link->name != name || link->kind != "veth" || (!recorded && link->mac != host_mac)) {
    log_warning("interface {} is not the veth that poduplink made: left alone", name);
    return {};
  }
  auto deleted = delete_link(netlink, link->index);
  if (deleted || deleted.error().code == ENODEV) return {};
  return deleted;
}

}  // namespace

CniResult<AttachmentLock> lock_attachment(const Options& options, const AttachmentId& id) {
  auto lock = AttachmentLock::take(options.run_dir, attachment_hash(id), options.lock_patience());
  if (lock) return std::move(*lock);
  const unsigned code = lock.error().code == EAGAIN ? cni_code::try_again : cni_code::state;
  return CniFailure(cni_error(code, std::move(lock.error()).within("attachment lock")));
}

CniResult<Tables> open_datapath(const std::string& pin_dir) {
  auto tables = open_current_tables(pin_dir);
  if (tables) return std::move(*tables);
  return CniFailure(datapath_error(std::move(tables.error()), pin_dir));
}

CniResult<AttachmentLock> lock_network(const Options& options, const std::string& network) {
  // No attachment has an empty container ID.
  return lock_attachment(options, {network, "", ""});
}

CniResult<> begin_attachment(const Options& options, const Record& record) {
  PDL_CNI_TRY_ASSIGN(const auto gate, lock_network(options, record.id.network));
  PDL_CNI_TRY_ASSIGN(const auto lock, with_code(cni_code::state, GlobalLock::take(options.run_dir)));
  PDL_CNI_TRY_ASSIGN(const auto known, with_code(cni_code::state, load_record(options.run_dir, record.id)));
  if (!known) return with_code(cni_code::state, store_record(options.run_dir, record));
  const AttachmentId& id = record.id;
  return cni_fail(cni_code::already_added,
                  "{} of container {} was added to network {} before: DEL has to come first (its record is {})",
                  id.if_name, id.container_id, id.network, record_path(options.run_dir, attachment_hash(id)));
}

CniResult<> claim(Netlink& netlink, const Options& options, const Record& record,
                  const std::vector<std::optional<pdl_pod>>& entries) {
  const std::uint64_t hash = attachment_hash(record.id);
  PDL_CNI_TRY_ASSIGN(const auto lock, with_code(cni_code::state, GlobalLock::take(options.run_dir)));
  // Opened anew: the agent may have switched versions while the IPAM plugin ran.
  PDL_CNI_TRY_ASSIGN(const PodTables tables, open_entries(options.pin_dir));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i]) {
      PDL_CNI_TRY(check_home(tables, record.addresses[i]));
    }
    PDL_CNI_TRY(clear_address(netlink, options, tables, hash, record.addresses[i].address.address()));
  }
  PDL_CNI_TRY(with_code(cni_code::state, store_record(options.run_dir, record)));
  if (std::ranges::none_of(entries, [](const auto& entry) { return entry.has_value(); })) return {};
  PDL_CNI_TRY(with_code(cni_code::datapath, attach_pod_program(netlink, tables.folder, record.host_veth,
                                                               record.host_veth_index, record.mode)));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i]) continue;
    pdl_pod entry = *entries[i];
    entry.owner = hash;
    entry.veth = static_cast<std::uint32_t>(record.host_veth_index);
    PDL_CNI_TRY(with_code(cni_code::datapath,
                          tables.pods.put(record.addresses[i].address.address(), entry, bpf::Update::create)));
  }
  // Other pods' flows to these addresses led out of the node until now.
  return with_code(cni_code::datapath, tables.generation.raise());
}

CniResult<> mark_ready(const Options& options, Record record) {
  record.state = RecordState::ready;
  PDL_CNI_TRY_ASSIGN(const auto lock, with_code(cni_code::state, GlobalLock::take(options.run_dir)));
  return with_code(cni_code::state, store_record(options.run_dir, record));
}

CniResult<> take_down(const Options& options, const AttachmentId& id) {
  FirstError errors;
  auto netlink = Netlink::open();
  if (!errors.note(cni_code::container_link, netlink)) return std::move(errors).result();
  const auto record = close_state(options, id, errors);
  if (record) restore_first_network(*record, errors);
  const bool gone = errors.note(cni_code::container_link, delete_host_veth(*netlink, id, record));
  release_state(*netlink, options, id, record, gone, errors);
  return std::move(errors).result();
}

CniResult<> forget(const Options& options, const AttachmentId& id) {
  PDL_CNI_TRY_ASSIGN(const auto lock, with_code(cni_code::state, GlobalLock::take(options.run_dir)));
  return with_code(cni_code::state, remove_record(options.run_dir, id));
}

Result<bool> is_owner_alive(Netlink& netlink, const pdl_pod& entry) {
  if (entry.veth == 0) return false;  // being deleted
  const auto link = find_link(netlink, static_cast<int>(entry.veth));
  if (link) return link->name == host_veth_name(entry.owner);
  if (link.error().code == ENODEV) return false;
  return Failure(link.error());
}

}  // namespace poduplink
