// SPDX-License-Identifier: Apache-2.0
// pod_egress on the veths of all pods: switched to a new build's program, and put back where somebody took it away.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "loader/events.h"
#include "loader/records.h"
#include "maps/tables.h"

namespace poduplink {

class PodPrograms {
 public:
  // Puts the pinned program on the veth of every ready record and every entry, and removes the pins of links whose
  // veths are gone. The caller holds GlobalLock. Returns what failed, by veth.
  std::vector<std::string> switch_all(Netlink& netlink, const Tables& tables, const Records& records,
                                      const std::vector<Link>& links);

  // Puts it back where it is missing: pods with links are all looked at, those with filters where `news` says that
  // one may be gone. The caller holds GlobalLock. Returns what failed, by veth.
  std::vector<std::string> audit(Netlink& netlink, const Tables& tables, const Records& records, const PodVeths& veths,
                                 const Events::PodNews& news);

 private:
  Result<> audit_link(Netlink& netlink, const Tables& tables, const std::string& veth, int index);

  // Of pods whose program sits on a tcx link, by veth: held, so that a pin can be made again, and so that the program
  // stays where it is while bpffs is not mounted.
  struct Held {
    Fd fd;
    std::uint32_t id = 0;  // of the link; 0: none is held
  };
  std::map<std::string, Held> links_;
};

}  // namespace poduplink
