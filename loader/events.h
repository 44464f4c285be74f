// SPDX-License-Identifier: Apache-2.0
// Netlink events, reduced to what they mean for the agent. Pods come and go all the time; their own veths,
// addresses and routes mean nothing here.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "loader/base/result.h"
#include "loader/net/netlink.h"
#include "loader/snapshot.h"

namespace poduplink {

enum class Change {
  none,
  neighbours,  // a neighbour on a managed interface: gateway MACs
  everything,
};

class Events {
 public:
  // Joined before the first snapshot is taken, so that nothing falls between. The namespace is the thread's.
  static Result<Events> open();

  [[nodiscard]] int fd() const { return netlink_.fd(); }

  // What the snapshot that is in force says: which links are pods' veths and which are managed. True where neighbours
  // of other links are followed than before: those of the snapshot may be out of date then.
  bool learn(const Snapshot& snapshot, std::set<int> managed);

  // As of the last read().
  [[nodiscard]] const PodVeths& pod_veths() const { return pod_veths_; }

  // What happened to pods' veths since the last call.
  struct PodNews {
    bool some_gone = false;
    bool some_new = false;
    bool all_suspect = false;  // events were lost
    std::set<int> suspect;     // a filter or a qdisc was taken away there

    [[nodiscard]] bool any() const { return some_gone || some_new || all_suspect || !suspect.empty(); }
  };
  PodNews take_pod_news() { return std::exchange(pod_news_, {}); }

  // Links of the last snapshot that have not gone since the last call; none where events were lost.
  std::set<int> take_lasting(const Snapshot& before);

  // How often events were lost since the start.
  [[nodiscard]] std::uint64_t times_lost() const { return times_lost_; }

  // Reads all that has arrived. Lost events (ENOBUFS) mean that everything may have changed.
  Change read();

 private:
  explicit Events(Netlink netlink) : netlink_(std::move(netlink)) {}
  Change meaning(const nlmsghdr* message);
  Change meaning_of_link(const Link& link, bool gone);
  Change meaning_of_tc(int link);

  Netlink netlink_;
  PodVeths pod_veths_;
  std::set<int> managed_;
  PodNews pod_news_;
  std::set<int> gone_;  // links, since the last take_lasting()
  bool lost_ = false;   // events, since then
  std::uint64_t times_lost_ = 0;
};

}  // namespace poduplink
