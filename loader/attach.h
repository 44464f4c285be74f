// SPDX-License-Identifier: Apache-2.0
// The two uplink programs on the hooks of an interface: pinned tcx links, or filters under clsact where the
// kernel has no tcx. Foreign programs on the same hooks stay as they are: uplink_ingress stands behind them,
// uplink_egress before them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "loader/datapath.h"
#include "loader/memory.h"
#include "loader/net/netlink.h"
#include "loader/net/tc.h"

namespace poduplink {

struct UplinkHook {
  TcHook hook;
  const char* program;
  const char* suffix;  // of the pin's name
};
// In the order in which they are attached: what leaves is steered before anything is let in.
inline constexpr UplinkHook uplink_hooks[] = {{TcHook::egress, uplink_egress_program, "egress"},
                                              {TcHook::ingress, uplink_ingress_program, "ingress"}};

// Pins are named by index, because names change and may hold a dot, which bpffs refuses: "if7-ingress".
std::string uplink_link_name(int ifindex, const UplinkHook& hook);
// The index in such a name; 0 for any other.
int uplink_link_index(const std::string& name);

class Attachments {
 public:
  // `memory` learns on which links this made a clsact qdisc.
  Attachments(const Datapath& datapath, bool use_tcx, AgentMemory& memory)
      : datapath_(&datapath), use_tcx_(use_tcx), memory_(&memory) {}

  // Both programs of this build on one interface, once each, in their place. What is there already is
  // updated in place, without a packet passing in between. Errors name the hook; ENODEV, ENOLINK: it is gone.
  Result<> attach(Netlink& netlink, int ifindex);

  // How many programs attach() had to put back, into their place or under their pin, since the last call: those that it
  // had attached before.
  unsigned take_mended() { return std::exchange(mended_, 0); }

  // Takes ours away from an interface.
  Result<> detach(Netlink& netlink, int ifindex);

  // Foreign programs that see what arrives on an interface before uplink_ingress does, by name. One that ends the
  // chain (TC_ACT_OK and the like) keeps it from ours.
  Result<std::vector<std::string>> programs_before(Netlink& netlink, int ifindex) const;

  // Interfaces that bear one of ours, or whose pin is left: `candidates` are asked for filters.
  Result<std::set<int>> attached(Netlink& netlink, const std::set<int>& candidates);

 private:
  // True where it was not there as it should be.
  Result<bool> attach_link(int ifindex, const UplinkHook& hook);
  // A link whose pin went away under us, pinned anew. Nothing where none is held.
  Result<Fd> pin_held_link(int ifindex, const UplinkHook& hook, const std::string& path);
  Result<bool> restore_order(int ifindex, const UplinkHook& hook, const std::string& path);
  Result<> remove_links(int ifindex);
  Result<bool> attach_filter(Netlink& netlink, int ifindex, const UplinkHook& hook);

  const Datapath* datapath_;
  bool use_tcx_;
  AgentMemory* memory_;
  std::map<std::pair<int, TcHook>, Fd> links_;  // held, so that pins can be made again
  std::set<std::pair<int, TcHook>> known_;      // what was attached by this object
  unsigned mended_ = 0;
};

// Ours among the filters of a hook: by handle, priority and name.
bool is_our_filter(const TcFilter& filter, TcHook hook, const std::string& program);

// Removes our filters of a link; and its clsact where `made_by_us` and no filter is left under it.
Result<> remove_our_filters(Netlink& netlink, int ifindex, bool made_by_us);

}  // namespace poduplink
