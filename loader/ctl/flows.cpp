// SPDX-License-Identifier: Apache-2.0
// Tracked connections of pods. Direct traffic is not tracked: what is seen here goes through the host's stack, or did
// so once.
#include <algorithm>
#include <map>

#include "loader/ctl/commands.h"
#include "loader/net/conntrack.h"

namespace poduplink::ctl {
namespace {

struct Ways {
  std::map<IpAddress, pdl_pod> pods;
  std::map<IpAddress, pdl_node> nodes;
  std::vector<std::pair<Prefix, std::uint32_t>> exempt;
};

std::string protocol_name(std::uint8_t protocol) {
  switch (protocol) {
    case 1:
      return "icmp";
    case 6:
      return "tcp";
    case 17:
      return "udp";
    case 58:
      return "icmpv6";
    default:
      return std::to_string(protocol);
  }
}

// Which of the four ends is the pod; null: none.
const IpAddress* pod_of(const Ways& ways, const Connection& one) {
  for (const IpAddress* address :
       {&one.original.source, &one.original.destination, &one.reply.source, &one.reply.destination}) {
    if (ways.pods.contains(*address)) return address;
  }
  return nullptr;
}

// The way of its packets by the rules of docs/datapath.md, as far as addresses tell.
std::string way_of(const Ways& ways, const Connection& one, const IpAddress& pod) {
  if (one.is_nated()) return "stack: NATed";
  const IpAddress& peer = one.original.source == pod ? one.original.destination : one.original.source;
  if (ways.nodes.contains(peer)) return "stack: the node";
  if (peer.is_multicast()) return "stack: multicast";
  if (peer.is_link_local()) return "stack: link-local, unless its home claims it";
  if (std::ranges::any_of(ways.exempt, [&](const auto& entry) { return entry.first.contains(peer); }))
    return "stack: exempt";
  if (ways.pods.at(pod).mode == PDL_MODE_NETFILTER) return "stack: netfilter mode";
  if (one.original.protocol != 6 && one.original.protocol != 17 &&
      !protocol_name(one.original.protocol).starts_with("icmp"))
    return "stack: protocol";
  return "direct; this entry is not asked";
}

std::string end_text(const IpAddress& address, std::uint16_t port) {
  if (port == 0) return address.text();
  return address.is_v6() ? formatted("[{}]:{}", address.text(), port) : formatted("{}:{}", address.text(), port);
}

Json row_of(const Ways& ways, const Connection& one, const IpAddress& pod) {
  return {{"pod", pod.text()},
          {"protocol", protocol_name(one.original.protocol)},
          {"source", one.original.source.text()},
          {"sourcePort", one.original.source_port},
          {"destination", one.original.destination.text()},
          {"destinationPort", one.original.destination_port},
          {"replySource", one.reply.source.text()},
          {"replySourcePort", one.reply.source_port},
          {"replyDestination", one.reply.destination.text()},
          {"replyDestinationPort", one.reply.destination_port},
          {"nated", one.is_nated()},
          {"timeout", one.timeout},
          {"way", way_of(ways, one, pod)}};
}

Result<Ways> read_ways(const Tables& tables) {
  Ways ways;
  PDL_TRY_ASSIGN(const auto pods, tables.pods.entries());
  ways.pods.insert(pods.begin(), pods.end());
  PDL_TRY_ASSIGN(const auto nodes, tables.nodes.entries());
  ways.nodes.insert(nodes.begin(), nodes.end());
  PDL_TRY_ASSIGN(ways.exempt, tables.exempt.entries());
  return ways;
}

}  // namespace

Result<View> flows_view(const Settings& settings, const std::string& pod) {
  std::optional<IpAddress> only;
  if (!pod.empty()) {
    PDL_TRY_ASSIGN(only, IpAddress::parse(pod));
  }
  PDL_TRY_ASSIGN(const Tables tables, open_current_tables(settings.pin_dir));
  PDL_TRY_ASSIGN(const Ways ways, read_ways(tables));
  if (only && !ways.pods.contains(*only)) return fail("{} is no pod of this node", pod);
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open_netfilter());
  Section section{.columns = {{.title = "POD", .key = "pod"},
                              {.title = "PROTO", .key = "protocol"},
                              {.title = "FROM", .key = "from"},
                              {.title = "TO", .key = "to"},
                              {.title = "ANSWERS FROM", .key = "answersFrom"},
                              {.title = "ANSWERS TO", .key = "answersTo"},
                              {.title = "NAT", .key = "nated"},
                              {.title = "WAY", .key = "way"}},
                  .none = "no tracked connections of pods; direct traffic is not tracked"};
  View view;
  view.document = Json::array();
  PDL_TRY(each_connection(netlink, [&](const Connection& one) {
    const IpAddress* found = pod_of(ways, one);
    if (found == nullptr || (only && *found != *only)) return;
    view.document.push_back(row_of(ways, one, *found));
    Json row = view.document.back();
    row["from"] = end_text(one.original.source, one.original.source_port);
    row["to"] = end_text(one.original.destination, one.original.destination_port);
    row["answersFrom"] = end_text(one.reply.source, one.reply.source_port);
    row["answersTo"] = end_text(one.reply.destination, one.reply.destination_port);
    section.rows.push_back(std::move(row));
  }));
  view.sections.push_back(std::move(section));
  return view;
}

}  // namespace poduplink::ctl
