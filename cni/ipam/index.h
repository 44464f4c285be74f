// SPDX-License-Identifier: Apache-2.0
// A copy of the names in a folder of reservations, so that a full one is not read name by name for each ADD and DEL.
// The names are the truth, the copy may be lost.
//
// It holds while nobody but its writer has changed the folder: whoever adds or removes a name makes the kernel set the
// folder's time of change, and the writer sets it, last of all, to a moment of its own that is in the copy. Half a
// copy, one that was overtaken, or one from before the machine started anew (the disk may have lost its content and not
// the time) is none.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cni/ipam/store.h"

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

// With or without the lock. Nothing: there is none that holds.
std::optional<std::vector<Reservation>> read_index(const std::string& folder);
// Under the lock, when all changes are made. Sorted by address. What fails is not reported: the next one reads the
// names.
void write_index(const std::string& folder, const std::vector<Reservation>& reservations);

}  // namespace poduplink::ipam
