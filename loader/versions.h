// SPDX-License-Identifier: Apache-2.0
// The version folders PIN_DIR/v<ABI> beside the one of this build: what an upgrade takes over from them, and how they
// go.
#pragma once

#include <string>
#include <vector>

#include "loader/base/result.h"
#include "loader/net/link.h"
#include "loader/net/netlink.h"
#include "loader/problems.h"
#include "loader/records.h"

namespace poduplink {

// "v" and a number.
bool is_version_name(const std::string& name);

// Folders PIN_DIR/v<number> other than `own`, by their paths.
Result<std::vector<std::string>> other_versions(const std::string& pin_dir, const std::string& own);

// Pins the links of one version under another as well, so that their programs can be switched in place.
Result<> carry_links(const std::string& from, const std::string& to);

// Puts the programs pinned under `folder` on every hook again that bears a program of ours: the way back of an upgrade
// that failed. Returns what could not be put back.
Problems restore_programs(Netlink& netlink, const std::string& folder, const Records& records,
                          const std::vector<Link>& links);

enum class Removal {
  retire,  // after an upgrade, or one that failed: every pin of a BPF object; links pinned elsewhere stay where they
           // are
  unload,  // what is ours by its name alone; links are detached
};

// Unpins what is pinned under a version's folder, and removes the folder. Returns what is left, and why.
Problems remove_version(const std::string& folder, Removal removal);

// Errors: errno. One that is gone, or not empty, is no error.
Result<> remove_folder(const std::string& folder);

}  // namespace poduplink
