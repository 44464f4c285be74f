// SPDX-License-Identifier: Apache-2.0
// Routing rules by source address, for use inside a container alone: on the node poduplink makes none.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/result.h"
#include "loader/net/netlink.h"

namespace poduplink {

struct Rule {
  Prefix from;
  std::uint32_t table = 0;
  std::uint32_t preference = 0;

  friend bool operator==(const Rule&, const Rule&) = default;
};

// Errors: EEXIST where the same rule is there, EOPNOTSUPP where the kernel has no rules.
Result<> add_rule(Netlink& netlink, const Rule& rule);
// Errors: ENOENT where it is gone.
Result<> delete_rule(Netlink& netlink, const Rule& rule);
// Of both families. Rules that select by more than the source are in it too, by what they have of these fields.
Result<std::vector<Rule>> dump_rules(Netlink& netlink);

}  // namespace poduplink
