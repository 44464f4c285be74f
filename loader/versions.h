// SPDX-License-Identifier: Apache-2.0
// The version folders PIN_DIR/v<ABI> beside the one of this build: what an upgrade takes over from them, and how they
// go.
#pragma once

#include <string>
#include <vector>

#include "loader/base/result.h"
#include "loader/net/link.h"
#include "loader/net/netlink.h"
#include "loader/records.h"

namespace poduplink {

// Folders PIN_DIR/v<number> other than `own`, by their paths.
Result<std::vector<std::string>> other_versions(const std::string& pin_dir, const std::string& own);

// Pins the links of one version under another as well, so that their programs can be switched in place.
Result<> carry_links(const std::string& from, const std::string& to);

// Puts the programs pinned under `folder` on every hook again that bears a program of ours: the way back of an upgrade
// that failed. Returns what could not be put back.
std::vector<std::string> restore_programs(Netlink& netlink, const std::string& folder, const Records& records,
                                          const std::vector<Link>& links);

// Unpins what is pinned under a version's folder, and removes the folder. Links that are pinned elsewhere as well stay
// where they are. Returns what is left, since it is no pin of a BPF object or could not be removed.
std::vector<std::string> retire_version(const std::string& folder);

}  // namespace poduplink
