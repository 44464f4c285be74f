// SPDX-License-Identifier: Apache-2.0
// pod_egress on the veths of all pods: switched to a new build's program, and put back where somebody took it away.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "loader/events.h"
#include "loader/folder_stamp.h"
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
  // one may be gone. `same_pods`: the records are those of the last call. The caller holds GlobalLock. Returns what
  // failed, by veth.
  std::vector<std::string> audit(Netlink& netlink, const Tables& tables, const Records& records, const PodVeths& veths,
                                 const Events::PodNews& news, bool same_pods);

  // How many audit() has put back, or pinned again, since the last call.
  unsigned take_mended() { return std::exchange(mended_, 0); }

 private:
  // Attaches the program where it is not.
  Result<> put_back(Netlink& netlink, const Tables& tables, const std::string& veth, int index, pdl_mode mode);

  struct Held {
    Fd fd;
    std::uint32_t program = 0;  // that the link bore when it was last looked at in full

    [[nodiscard]] bool is_in_place(int index) const;
  };
  Result<> audit_link(Netlink& netlink, const Tables& tables, const std::string& veth, int index, bool look_at_pin);
  Result<Held> take_up(Netlink& netlink, const Tables& tables, const std::string& veth, int index);

  // Of pods whose program sits on a tcx link, by the veth's index: held, so that a pin can be made again, and so that
  // the program stays where it is while bpffs is not mounted.
  std::map<int, Held> links_;
  FolderStamp pins_;
  bool complete_ = false;  // the last audit left nothing to be done
  unsigned mended_ = 0;
};

}  // namespace poduplink
