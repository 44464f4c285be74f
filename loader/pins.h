// SPDX-License-Identifier: Apache-2.0
// Names under PIN_DIR: what lies behind a pin, and changes that a reader sees either before or after. bpffs
// allows no dot in a name, so temporary names here begin with "new-".
#pragma once

#include <string>

#include "loader/base/fd.h"
#include "loader/base/result.h"

namespace poduplink {

enum class PinKind { absent, map, program, link, folder, symlink, other };

// Errors: errno of the kernel, other than ENOENT.
Result<PinKind> pin_kind(const std::string& path);
const char* pin_kind_name(PinKind kind);

// What an open descriptor of a BPF object is.
PinKind descriptor_kind(int fd);

// Pins under a temporary name and renames: what was pinned there before is replaced atomically.
Result<> replace_pin(int fd, const std::string& path);

// The same for a symlink.
Result<> replace_symlink(const std::string& target, const std::string& path);

// Takes a link's program off its hook before this returns; removing the pin alone does so some time later.
// One whose device is gone is no error.
Result<> detach_link(int fd);

}  // namespace poduplink
