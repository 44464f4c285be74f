// SPDX-License-Identifier: Apache-2.0
// A copy of the names in a folder of reservations, so that a full one is not read name by name for each ADD and DEL.
// The names are the truth, the copy may be lost.
//
// It holds while nobody but its writer has changed the folder: whoever adds or removes a name makes the kernel set the
// folder's time of change, and the writer sets it, last of all, to a moment of its own that is in the copy. Half a
// copy, one that was overtaken, or one from before the machine started anew (the disk may have lost its content and not
// the time) is none.
#pragma once

#include <cstddef>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cni/ipam/reservation.h"
#include "loader/base/fd.h"

namespace poduplink::ipam {

inline constexpr std::string_view index_name = ".index";

struct Index {
  std::string boot;                       // the kernel's boot ID
  timespec stamp{};                       // the folder's time of change for which it holds
  std::vector<Reservation> reservations;  // sorted by address
};

// The content of the file, and back. Nothing: such a text is no index.
std::string index_text(const Index& index);
std::optional<Index> parse_index(std::string_view text);

// A copy, with or without the lock. Nothing: there is no index that holds.
std::optional<std::vector<Reservation>> read_index(const std::string& folder);

// All reservations of a folder and the index of them, for a holder of the lock who changes both: first a name, then the
// same here, and settle() last. Until then, and where it is not called, there is no index that holds. The file is
// changed in place: what an ADD or DEL does to it does not grow with the number of reservations.
class Ledger {
 public:
  // By the index. Nothing: there is none that holds.
  static std::optional<Ledger> open(const std::string& folder);
  // By the names; sorted by address.
  Ledger(std::string folder, std::vector<Reservation> reservations)
      : folder_(std::move(folder)), copy_(std::move(reservations)) {}
  Ledger(Ledger&& other) noexcept;
  Ledger& operator=(Ledger&&) = delete;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  ~Ledger();

  // Sorted by address.
  [[nodiscard]] std::span<const Reservation> all() const;
  void insert(const Reservation& reservation);
  void erase(const Reservation& reservation);
  // What fails is not reported: the next one reads the names.
  void settle();

 private:
  Ledger(std::string folder, Fd file, void* map, std::size_t map_size)
      : folder_(std::move(folder)), file_(std::move(file)), map_(map), map_size_(map_size) {}
  void leave_the_map();

  std::string folder_;
  Fd file_;
  void* map_ = nullptr;  // of the file, with room for some more; null: they are in copy_
  std::size_t map_size_ = 0;
  std::vector<Reservation> copy_;
};

}  // namespace poduplink::ipam
