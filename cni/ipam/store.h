// SPDX-License-Identifier: Apache-2.0
// Reservations on disk: DATA_DIR/NETWORK/ADDRESS@OWNER, one file an address, OWNER being the hash of the
// attachment. The name alone says what is taken and by whom, so that thousands are listed without being opened; the
// file holds the attachment in full. A file comes into being by a hard link to one that is complete and
// synced, so a reservation is there entirely or not at all, whenever the process dies.
//
// Drafts lie in a folder of their own, DATA_DIR/NETWORK/.drafts, and DATA_DIR/NETWORK/.index is a copy of the names
// (index.h), so that neither the number of reservations nor other processes make a verb slower.
//
// Invariants: names are added and removed under Lock only; DATA_DIR/NETWORK/lock is never unlinked; nothing else is
// run and nothing is waited for while it is held.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "cni/ipam/index.h"
#include "cni/ipam/reservation.h"
#include "loader/base/address.h"
#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "maps/attachment.h"

namespace poduplink::ipam {

// A reservation's file: its name and what is in it, and back. Nothing: such a file is none of ours.
std::string reservation_name(const Reservation& reservation);
std::optional<Reservation> parse_reservation_name(const std::string& name);
std::string owner_text(const AttachmentId& id);
std::optional<AttachmentId> parse_owner_text(const std::string& text);

class Store {
 public:
  // A file with the owner's names, written and synced, that has no reservation's name yet. Unlinked with it.
  class Draft {
   public:
    Draft(std::string path, std::uint64_t owner) : path_(std::move(path)), owner_(owner) {}
    Draft(Draft&& other) noexcept : path_(std::move(other.path_)), owner_(other.owner_) { other.path_.clear(); }
    Draft& operator=(Draft&&) = delete;
    ~Draft();

   private:
    friend class Store;
    std::string path_;
    std::uint64_t owner_;
  };

  Store(const std::string& data_dir, const std::string& network) : folder_(data_dir + "/" + network) {}

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] bool exists() const;
  // Makes the folders.
  Result<> create() const;

  // Waits for every other process that holds it. Released with the descriptor.
  [[nodiscard]] Result<Fd> lock() const;

  // All reservations, sorted by address; an absent folder has none. Files of other names are no reservations.
  [[nodiscard]] Result<std::vector<Reservation>> list() const;
  // The same, for a holder of the lock who is going to change them.
  [[nodiscard]] Result<Ledger> ledger() const;

  // The attachment that a reservation's file names; nothing where the file is empty, cut short or names another one
  // than its name's hash: such a reservation counts as absent.
  [[nodiscard]] std::optional<AttachmentId> owner_of(const Reservation& reservation) const;
  // When the file became a reservation.
  [[nodiscard]] std::optional<timespec> reserved_at(const Reservation& reservation) const;

  // Not under the lock: syncing may take long.
  [[nodiscard]] Result<Draft> draft(const AttachmentId& id) const;
  // Under the lock: gives the draft the names of these reservations, all or none.
  Result<> reserve(const Draft& draft, const std::vector<IpAddress>& addresses) const;
  // Under the lock. One that is gone is no error.
  Result<> release(const Reservation& reservation) const;
  // Under the lock: drops drafts that a killed process has left: the owner's, or all that are older than ten minutes.
  void drop_drafts(std::optional<std::uint64_t> owner) const;

  // The address handed out last of a run of addresses, to begin behind it the next time. Only a hint:
  // it may be lost.
  [[nodiscard]] std::optional<IpAddress> last_handed_out(const std::string& run) const;
  void set_last_handed_out(const std::string& run, const IpAddress& address) const;

 private:
  [[nodiscard]] std::string path_of(const Reservation& reservation) const;
  [[nodiscard]] std::string drafts_folder() const { return folder_ + "/.drafts"; }

  std::string folder_;
};

}  // namespace poduplink::ipam
