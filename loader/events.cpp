// SPDX-License-Identifier: Apache-2.0
#include "loader/events.h"

#include <linux/rtnetlink.h>

#include <algorithm>

#include "loader/base/log.h"
#include "loader/net/tc.h"

namespace poduplink {

Result<Events> Events::open() {
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open());
  for (const int group : {RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE,
                          RTNLGRP_IPV6_ROUTE, RTNLGRP_NEIGH, RTNLGRP_TC})
    PDL_TRY(netlink.join(group));
  return Events(std::move(netlink));
}

bool Events::learn(const Snapshot& snapshot, std::set<int> managed) {
  pod_veths_.clear();
  for (const Link& link : snapshot.links) {
    if (is_pod_veth(link)) pod_veths_.emplace(link.index, link.name);
  }
  if (managed_ == managed) return false;
  managed_ = std::move(managed);
  // The neighbours on pods' veths change all the time, and there are thousands of them.
  netlink_.only_neighbours_of(managed_);
  return true;
}

Change Events::read() {
  Change all = Change::none;
  const auto read = netlink_.receive([&](const nlmsghdr* message) { all = std::max(all, meaning(message)); });
  if (read) return all;
  pod_news_.all_suspect = true;
  lost_ = true;
  ++times_lost_;
  log_info("netlink events were lost ({}), looking at everything anew", read.error().message);
  return Change::everything;
}

std::set<int> Events::take_lasting(const Snapshot& before) {
  std::set<int> lasting;
  for (const Link& link : before.links) {
    if (!lost_ && !gone_.contains(link.index)) lasting.insert(link.index);
  }
  gone_.clear();
  lost_ = false;
  return lasting;
}

Change Events::meaning_of_link(const Link& link, bool gone) {
  if (gone) gone_.insert(link.index);
  if (!is_pod_veth(link)) {
    // One that was a pod's veth and is renamed.
    if (pod_veths_.erase(link.index) > 0) pod_news_.some_gone = true;
    return Change::everything;
  }
  if (gone) {
    pod_veths_.erase(link.index);
    pod_news_.some_gone = true;
  } else {
    std::string& name = pod_veths_[link.index];
    if (name != link.name) pod_news_.some_new = true;
    name = link.name;
  }
  return Change::none;
}

// Programs of ours may have gone with it. On a pod's veth that is looked at with the next audit.
Change Events::meaning_of_tc(int link) {
  if (pod_veths_.contains(link)) pod_news_.suspect.insert(link);
  return managed_.contains(link) ? Change::everything : Change::none;
}

Change Events::meaning(const nlmsghdr* message) {
  const auto of_pod = [&](int link) { return pod_veths_.contains(link); };
  switch (message->nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      return meaning_of_link(parse_link(message), message->nlmsg_type == RTM_DELLINK);
    case RTM_NEWADDR:
    case RTM_DELADDR:
      return of_pod(parse_address(message).link) ? Change::none : Change::everything;
    case RTM_NEWROUTE:
    case RTM_DELROUTE: {
      const Route route = parse_route(message);
      const bool pods_alone = !route.next_hops.empty() && std::ranges::all_of(route.next_hops, [&](const NextHop& hop) {
        return of_pod(hop.link);
      });
      return is_main_unicast(route) && !pods_alone ? Change::everything : Change::none;
    }
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH:
      return managed_.contains(parse_neighbour(message).link) ? Change::neighbours : Change::none;
    case RTM_DELTFILTER:
    case RTM_DELQDISC:
      return meaning_of_tc(parse_tc_link(message));
    default:
      return Change::none;
  }
}

}  // namespace poduplink
