// SPDX-License-Identifier: Apache-2.0
#include "loader/pods.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "loader/base/log.h"
#include "maps/attachment.h"

namespace poduplink {
namespace {

bool differs(const pdl_pod& one, const pdl_pod& other) { return std::memcmp(&one, &other, sizeof(pdl_pod)) != 0; }

// Whether veths live. Events may come late, so one that they do not know is asked for: an ADD may have made it since.
class Veths {
 public:
  Veths(Netlink& netlink, const PodVeths& known) : netlink_(netlink), known_(known) {}

  [[nodiscard]] bool lives(int index, const std::string& name) const {
    if (index <= 0) return false;
    const auto found = known_.find(index);
    if (found != known_.end()) return found->second == name;
    const auto fresh = find_link(netlink_, index);
    return fresh && fresh->name == name;
  }

 private:
  Netlink& netlink_;
  const PodVeths& known_;
};

bool is_silent(const pdl_pod& pod) { return (pod.flags & PDL_POD_GATEWAY_SILENT) != 0; }

// What the kernel knows of the gateway. Once asked for in vain it counts as silent until it answers: each packet
// makes the kernel ask again, and a neighbour that is being asked for, or was forgotten, says nothing new.
void set_gateway_state(pdl_pod& pod, const Snapshot& snapshot, bool was_silent) {
  const std::optional<IpAddress> gateway = pod_gateway(pod);
  const Neighbour* known = gateway ? snapshot.find_neighbour(static_cast<int>(pod.home), *gateway) : nullptr;
  const bool resolved = known != nullptr && known->is_resolved();
  const bool failed = known != nullptr && known->has_failed();
  set_mac(pod.gateway_mac, resolved ? known->mac.value_or(MacAddress{}) : MacAddress{});
  const bool silent = failed || (was_silent && !resolved);
  pod.flags = static_cast<__u8>(silent ? pod.flags | PDL_POD_GATEWAY_SILENT : pod.flags & ~PDL_POD_GATEWAY_SILENT);
}

void note_silent(SilentGateways& silent, const pdl_pod& pod) {
  const std::optional<IpAddress> gateway = pod_gateway(pod);
  if (gateway && is_silent(pod)) silent.emplace(static_cast<int>(pod.home), *gateway);
}

// Whether another entry of the address stood for the same gateway on the same uplink.
bool same_gateway(const pdl_pod& one, const pdl_pod& other) {
  return one.home == other.home && pod_gateway(one) == pod_gateway(other);
}

// What the ready records of living pods want, by address.
struct Wanted {
  std::map<IpAddress, pdl_pod> entries;
  std::set<std::uint64_t> owners;  // of records whose entries are not to be touched as leftovers
};

Wanted wanted_entries(const Records& records, const std::map<IpAddress, pdl_pod>& present, const Desired& desired,
                      const Snapshot& snapshot, const Veths& veths) {
  Wanted wanted;
  for (const auto& [name, file] : records.files()) {
    if (!file.readable) continue;
    const Record& record = file.record;
    const std::uint64_t owner = attachment_hash(record.id);
    const bool living = veths.lives(record.host_veth_index, record.host_veth);
    // A dead pod's entry goes; its record stays for DEL and GC, which give its address back.
    if (record.state != RecordState::ready || living) wanted.owners.insert(owner);
    if (record.state != RecordState::ready || !living) continue;
    for (const RecordAddress& address : record.addresses) {
      const auto old = present.find(address.address.address());
      const auto entry = entry_of(record, address, desired, snapshot, old == present.end() ? nullptr : &old->second);
      if (entry) wanted.entries.emplace(address.address.address(), *entry);
    }
  }
  return wanted;
}

// An entry that no record knows is a leftover, unless its owner's veth is alive: then the records were lost,
// and the pod keeps its traffic.
bool is_leftover(const pdl_pod& pod, const Wanted& wanted, const Veths& veths) {
  return !wanted.owners.contains(pod.owner) && !veths.lives(static_cast<int>(pod.veth), host_veth_name(pod.owner));
}

// Another living attachment's entry is never overwritten from a record.
bool may_write(const pdl_pod* present, const pdl_pod& entry, const Wanted& wanted, const Veths& veths) {
  return present == nullptr || present->owner == entry.owner || is_leftover(*present, wanted, veths);
}

}  // namespace

bool same_entries(const PodEntries& one, const PodEntries& other) {
  return std::ranges::equal(
      one, other, [](const auto& a, const auto& b) { return a.first == b.first && !differs(a.second, b.second); });
}

const DesiredUplink* uplink_of(const Desired& desired, const RecordAddress& address) {
  const UplinkIdentity then{address.uplink_name, address.uplink_mac};
  const DesiredUplink* by_mac = nullptr;
  const DesiredUplink* by_former = nullptr;
  const DesiredUplink* by_name = nullptr;
  unsigned with_mac = 0;
  for (const DesiredUplink& uplink : desired.uplinks) {
    if (!uplink.is_home()) continue;
    const bool same_mac = !address.uplink_mac.is_zero() && to_mac(uplink.value.mac) == address.uplink_mac;
    const bool same_name = uplink.name() == address.uplink_name;
    if (same_mac && same_name) return &uplink;
    if (same_mac) {
      by_mac = &uplink;
      ++with_mac;
    }
    if (std::ranges::find(uplink.former, then) != uplink.former.end()) by_former = &uplink;
    if (same_name) by_name = &uplink;
  }
  if (with_mac == 1) return by_mac;
  return by_former != nullptr ? by_former : by_name;
}

std::optional<pdl_pod> entry_of(const Record& record, const RecordAddress& address, const Desired& desired,
                                const Snapshot& snapshot, const pdl_pod* present) {
  if (address.uplink_name.empty() || !address.gateway) return std::nullopt;
  pdl_pod pod{};
  pod.owner = attachment_hash(record.id);
  pod.veth = static_cast<__u32>(record.host_veth_index);
  if (const DesiredUplink* uplink = uplink_of(desired, address)) {
    pod.home = static_cast<__u32>(uplink->index);
    pod.mtu = uplink->value.mtu;
  }
  // A vanished uplink has no MTU; the last one known is as good as any, since nothing leaves by it.
  if (pod.mtu == 0) pod.mtu = present != nullptr && present->mtu != 0 ? present->mtu : record.mtu;
  set_pod_gateway(pod, address.gateway);
  set_mac(pod.pod_mac, record.pod_mac);
  pod.prefix_len = static_cast<__u8>(address.address.length());
  pod.mode = record.mode;
  pod.flags = address.on_link ? PDL_POD_ON_LINK : 0;
  set_gateway_state(pod, snapshot, present != nullptr && is_silent(*present) && same_gateway(pod, *present));
  return pod;
}

Result<PodRepairs> reconcile_pods(Netlink& netlink, const Tables& tables, const PodEntries& entries,
                                  const Records& records, const Desired& desired, const Snapshot& snapshot,
                                  const PodVeths& known) {
  const Veths veths(netlink, known);
  const std::map<IpAddress, pdl_pod> present(entries.begin(), entries.end());
  const Wanted wanted = wanted_entries(records, present, desired, snapshot, veths);
  PodRepairs repairs;
  for (const auto& [address, entry] : wanted.entries) {
    const auto old = present.find(address);
    const pdl_pod* current = old == present.end() ? nullptr : &old->second;
    if (!may_write(current, entry, wanted, veths)) {
      log_warning("{} belongs to another living attachment than record {} says", address.text(),
                  hash_text(entry.owner));
      continue;
    }
    note_silent(repairs.silent, entry);
    if (current != nullptr && !differs(*current, entry)) continue;
    PDL_TRY(tables.pods.put(address, entry));
    ++(current == nullptr ? repairs.made : repairs.changed);
  }
  for (const auto& [address, pod] : present) {
    if (wanted.entries.contains(address) || !is_leftover(pod, wanted, veths)) continue;
    PDL_TRY(tables.pods.erase(address));
    ++repairs.erased;
  }
  return repairs;
}

Result<PodRepairs> refresh_pods(const Tables& tables, const Desired& desired, const Snapshot& snapshot) {
  PDL_TRY_ASSIGN(const auto entries, tables.pods.entries());
  PodRepairs repairs;
  for (const auto& [address, pod] : entries) {
    pdl_pod fresh = pod;
    const DesiredUplink* uplink = desired.find(static_cast<int>(pod.home));
    if (uplink != nullptr && uplink->present) fresh.mtu = uplink->value.mtu;
    set_gateway_state(fresh, snapshot, is_silent(pod));
    note_silent(repairs.silent, fresh);
    if (!differs(pod, fresh)) continue;
    PDL_TRY(tables.pods.put(address, fresh, bpf::Update::replace));
    ++repairs.changed;
  }
  return repairs;
}

}  // namespace poduplink
