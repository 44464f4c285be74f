// SPDX-License-Identifier: Apache-2.0
#include "cni/ipam/verbs.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <iterator>
#include <span>

#include "cni/ipam/choose.h"
#include "cni/ipam/ipam_config.h"
#include "cni/ipam/store.h"
#include "loader/base/log.h"

namespace poduplink::ipam {
namespace {

using Reservations = std::vector<Reservation>;

// The reservations that this attachment holds; ones whose file is damaged have only the hash to go by.
Reservations held_by(const Store& store, std::span<const Reservation> reservations, const AttachmentId& id,
                     bool damaged_count) {
  const std::uint64_t hash = attachment_hash(id);
  Reservations held;
  for (const Reservation& reservation : reservations) {
    if (reservation.owner != hash) continue;
    const auto owner = store.owner_of(reservation);
    if (owner ? *owner == id : damaged_count) held.push_back(reservation);
  }
  return held;
}

// Releases those whose file is damaged; whoever held them cannot be told. Only looked for when it matters,
// because it opens every file. Returns whether there were any.
bool drop_damaged(const Store& store, Ledger& ledger) {
  const Reservations all(ledger.all().begin(), ledger.all().end());
  bool dropped = false;
  for (const Reservation& reservation : all) {
    if (store.owner_of(reservation)) continue;
    log_warning("reservation of {} is damaged and counts as absent", reservation.address.text());
    if (!store.release(reservation)) continue;
    ledger.erase(reservation);
    dropped = true;
  }
  return dropped;
}

CniResult<> check_requested(const Store& store, Ledger& ledger, const std::vector<IpAddress>& requested) {
  for (const IpAddress& address : requested) {
    const auto all = ledger.all();
    const auto found = std::ranges::find(all, address, &Reservation::address);
    if (found == all.end()) continue;
    const Reservation damaged = *found;
    if (const auto owner = store.owner_of(*found)) {
      return cni_fail(cni_code::address_refused, "requested address {} is held by container {}, interface {}",
                      address.text(), owner->container_id, owner->if_name);
    }
    PDL_CNI_TRY(with_code(cni_code::state, store.release(damaged)));
    ledger.erase(damaged);
  }
  return {};
}

// Everything of ADD that happens under the lock.
CniResult<Choice> reserve(const Store& store, const IpamConfig& config, const AttachmentId& id,
                          const std::vector<IpAddress>& requested) {
  PDL_CNI_TRY_ASSIGN(const auto draft, with_code(cni_code::state, store.draft(id)));
  PDL_CNI_TRY_ASSIGN(const Fd lock, with_code(cni_code::state, store.lock()));
  PDL_CNI_TRY_ASSIGN(Ledger ledger, with_code(cni_code::state, store.ledger()));
  const auto held = held_by(store, ledger.all(), id, false);
  if (!held.empty()) {
    return cni_fail(cni_code::already_added, "container {}, interface {} holds {} already", id.container_id, id.if_name,
                    held.front().address.text());
  }
  PDL_CNI_TRY(check_requested(store, ledger, requested));
  const Hints hints = [&store](const std::string& run) { return store.last_handed_out(run); };
  auto choice = choose(config.pools, ledger.all(), requested, hints);
  if (!choice && choice.error().code == cni_code::no_address && drop_damaged(store, ledger)) {
    choice = choose(config.pools, ledger.all(), requested, hints);
  }
  if (!choice) return choice;

  std::vector<IpAddress> addresses;
  for (const Pick& pick : choice->picks) addresses.push_back(pick.address.address());
  PDL_CNI_TRY(with_code(cni_code::state, store.reserve(draft, addresses)));
  for (const Pick& pick : choice->picks) {
    if (!pick.requested) store.set_last_handed_out(pick.run, pick.address.address());
  }
  for (const IpAddress& address : addresses) ledger.insert({address, attachment_hash(id)});
  ledger.settle();
  return choice;
}

// The folder that exists of a path, or would be the first to be made.
std::string existing_part(std::string path) {
  while (path.size() > 1 && ::access(path.c_str(), F_OK) != 0) {
    path.resize(std::max<std::size_t>(path.rfind('/'), 1));
  }
  return path;
}

bool is_later(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

}  // namespace

CniResult<AddResult> add(const Invocation& invocation, FindUplink find) {
  PDL_CNI_TRY_ASSIGN(const auto config, parse_ipam_config(invocation.config));
  PDL_CNI_TRY_ASSIGN(const auto requested, requested_addresses(invocation.config, invocation.environment.args));
  const Store store(config.data_dir, invocation.config.name());
  PDL_CNI_TRY(with_code(cni_code::state, store.create()));
  PDL_CNI_TRY_ASSIGN(const Choice choice, reserve(store, config, invocation.attachment(), requested));

  AddResult result;
  const UplinkIdentity uplink = find(choice.pool->uplink);
  result.interfaces.push_back({uplink.name, uplink.mac, {}, 0, {}, {}});
  for (const Pick& pick : choice.picks) {
    result.ips.push_back({pick.address, choice.pool->gateway(pick.address.family()), 0});
  }
  result.routes = config.routes;
  return result;
}

CniResult<> del(const Invocation& invocation) {
  const Store store(data_dir_of(invocation.config), invocation.config.name());
  if (!store.exists()) return {};
  const AttachmentId id = invocation.attachment();
  PDL_CNI_TRY_ASSIGN(const Fd lock, with_code(cni_code::state, store.lock()));
  PDL_CNI_TRY_ASSIGN(Ledger ledger, with_code(cni_code::state, store.ledger()));
  const auto held = held_by(store, ledger.all(), id, true);
  for (const Reservation& reservation : held) {
    PDL_CNI_TRY(with_code(cni_code::state, store.release(reservation)));
    ledger.erase(reservation);
  }
  store.drop_drafts(attachment_hash(id));
  if (!held.empty()) ledger.settle();
  return {};
}

CniResult<> check(const Invocation& invocation) {
  PDL_CNI_TRY_ASSIGN(const auto config, parse_ipam_config(invocation.config));
  PDL_CNI_TRY_ASSIGN(const auto previous, previous_result(invocation.config));
  const Store store(config.data_dir, invocation.config.name());
  const AttachmentId id = invocation.attachment();
  PDL_CNI_TRY_ASSIGN(const auto reservations, with_code(cni_code::state, store.list()));
  const auto held = held_by(store, reservations, id, false);
  if (held.empty()) {
    return cni_fail(cni_code::check_failed, "container {}, interface {} holds no address", id.container_id, id.if_name);
  }
  for (const ResultIp& ip : previous ? previous->ips : std::vector<ResultIp>()) {
    const IpAddress& address = ip.address.address();
    const bool ours =
        std::ranges::any_of(config.pools, [&](const Pool& pool) { return pool.range_of(address) != nullptr; });
    if (ours && std::ranges::find(held, address, &Reservation::address) == held.end()) {
      return cni_fail(cni_code::check_failed, "container {}, interface {} does not hold {}", id.container_id,
                      id.if_name, address.text());
    }
  }
  return {};
}

CniResult<> gc(const Invocation& invocation) {
  timespec began{};
  (void)::clock_gettime(CLOCK_REALTIME, &began);
  PDL_CNI_TRY_ASSIGN(const auto valid, valid_attachments(invocation.config));
  const Store store(data_dir_of(invocation.config), invocation.config.name());
  if (!valid || !store.exists()) return {};

  std::vector<std::uint64_t> owners;
  for (const AttachmentId& id : *valid) owners.push_back(attachment_hash(id));
  std::ranges::sort(owners);
  PDL_CNI_TRY_ASSIGN(const Fd lock, with_code(cni_code::state, store.lock()));
  PDL_CNI_TRY_ASSIGN(const auto reservations, with_code(cni_code::state, store.list()));
  // First all are looked at: releasing one of a pair changes the time of the other, which is the same file.
  Reservations stale;
  Reservations kept;
  std::ranges::partition_copy(reservations, std::back_inserter(stale), std::back_inserter(kept),
                              [&](const Reservation& reservation) {
                                if (std::ranges::binary_search(owners, reservation.owner)) return false;
                                // What came after the list was made is not in it for that reason alone.
                                const auto at = store.reserved_at(reservation);
                                return !at || !is_later(*at, began);
                              });
  std::string failures;
  for (const Reservation& reservation : stale) {
    if (const auto released = store.release(reservation); !released) {
      failures += (failures.empty() ? "" : "; ") + released.error().message;
    }
  }
  store.drop_drafts(std::nullopt);
  if (!failures.empty()) return cni_fail(cni_code::state, "{}", failures);
  if (!stale.empty()) Ledger(store.folder(), std::move(kept)).settle();
  return {};
}

CniResult<> status(const Invocation& invocation) {
  PDL_CNI_TRY_ASSIGN(const auto config, parse_ipam_config(invocation.config));
  const Store store(config.data_dir, invocation.config.name());
  const std::string folder = existing_part(store.folder());
  // "/." asks of a file whether it is a folder.
  if (::access((folder + "/.").c_str(), W_OK | X_OK) != 0) {
    return cni_fail(cni_code::not_available, "key 'ipam.dataDir': {}: {}", folder, errno_text(errno));
  }
  PDL_CNI_TRY_ASSIGN(const auto reservations, with_code(cni_code::not_available, store.list()));
  auto choice = choose(config.pools, reservations, {}, [](const std::string&) { return std::nullopt; });
  if (!choice) {
    choice.error().code = cni_code::not_available;
    return CniFailure(std::move(choice.error()));
  }
  return {};
}

}  // namespace poduplink::ipam
