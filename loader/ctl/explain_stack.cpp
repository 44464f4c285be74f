// SPDX-License-Identifier: Apache-2.0
#include "loader/ctl/explain_stack.h"

#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include <algorithm>

#include "loader/ctl/program_run.h"
#include "loader/net/conntrack.h"
#include "loader/net/route.h"

namespace poduplink::ctl {
namespace {

// Who the packet goes to on an interface.
struct Way {
  int link = 0;
  std::string interface;
  std::optional<IpAddress> hop;  // absent: no neighbour is asked for
  bool direct = false;           // the hop is the destination
  bool silent = false;           // the agent knows that it does not answer
};

void tell_way(Story& story, ExplainNode& node, const Way& way) {
  story.leaves(way.interface);
  if (!way.hop) {
    story.say("leaves by", way.interface);
    return;
  }
  story.set("nextHop", way.hop->text());
  const auto neighbour = find_neighbour(node.netlink, way.link, *way.hop);
  const bool resolved = neighbour && neighbour->is_resolved() && neighbour->mac;
  const bool failed = neighbour && neighbour->has_failed();
  if (resolved) story.set("nextHopMac", neighbour->mac->text());
  std::string reached = "whose MAC the kernel will ask for";
  if (resolved) reached = "MAC " + neighbour->mac->text();
  if (failed) reached = "which does not answer";
  story.say("leaves by", formatted("{} to {} {}, {}", way.interface, way.direct ? "the destination" : "gateway",
                                   way.hop->text(), reached));
  if (failed || way.silent)
    story.lost(formatted("{} does not answer on {}: the kernel drops the packet unless that changes", way.hop->text(),
                         way.interface));
}

// The node's own packet, by the uplink of its source address.
void tell_way_by_node(Story& story, ExplainNode& node, const pdl_node& own, const Probe& probe) {
  Way way{.link = static_cast<int>(own.ifindex), .interface = uplink_name(node.uplinks, own.ifindex)};
  way.direct = Prefix(probe.source, own.prefix_len).contains(probe.destination);
  const IpAddress gateway4 = IpAddress::v4(own.gateway4);
  way.hop = probe.source.is_v4() && !gateway4.is_unspecified() ? gateway4 : IpAddress::v6(own.gateway6);
  if (way.direct) way.hop = probe.destination;
  tell_way(story, node, way);
}

// By the host's own route.
void tell_way_by_route(Story& story, ExplainNode& node, const Link& out, const NextHop& hop, const Probe& probe) {
  tell_way(story, node,
           {.link = out.index,
            .interface = out.name,
            .hop = hop.gateway ? hop.gateway : std::optional(probe.destination),
            .direct = !hop.gateway});
}

bool is_tuple_of(const Probe& probe, const ConnectionTuple& tuple) {
  return tuple.protocol == probe.protocol && tuple.source == probe.source && tuple.destination == probe.destination &&
         tuple.source_port == probe.source_port && tuple.destination_port == probe.destination_port;
}

// What it becomes where the host NATs its flow: the other direction's tuple turned round.
Result<Probe> translated(Story& story, const Probe& probe) {
  Probe after = probe;
  if ((probe.protocol != IPPROTO_TCP && probe.protocol != IPPROTO_UDP) || probe.quote || probe.piece != Piece::whole)
    return after;
  PDL_TRY_ASSIGN(Netlink netfilter, Netlink::open_netfilter());
  PDL_TRY(each_connection(netfilter, [&](const Connection& one) {
    if (!one.is_nated()) return;
    const bool asks = is_tuple_of(probe, one.original);
    if (!asks && !is_tuple_of(probe, one.reply)) return;
    const ConnectionTuple& other = asks ? one.reply : one.original;
    after.source = other.destination;
    after.source_port = other.destination_port;
    after.destination = other.source;
    after.destination_port = other.source_port;
  }));
  if (after.source != probe.source || after.destination != probe.destination ||
      after.source_port != probe.source_port || after.destination_port != probe.destination_port)
    story.say("NAT",
              formatted("by its tracked connection it becomes one from {} to {}, port {} to {}", after.source.text(),
                        after.destination.text(), after.source_port, after.destination_port));
  return after;
}

// Why the stack neither takes nor forwards it, whatever routing says; empty: it may.
std::string refused_by_stack(const Subject& subject, bool for_host) {
  const Probe& probe = subject.probe;
  const bool to_group = probe.destination_mac.is_multicast();
  if (!to_group && probe.destination_mac != subject.link.mac.value_or(MacAddress()))
    return "its destination MAC is not this host's: the stack leaves it alone";
  if (for_host) return {};
  if (to_group) return "its destination MAC is a group's: the stack does not forward it";
  if (probe.source.is_v6() && (probe.source.is_link_local() || probe.source.is_unspecified()))
    return formatted("no router forwards IPv6 from {}", probe.source.text());
  if (probe.destination.is_v6() && probe.destination.is_link_local())
    return formatted("{} is meant for this link: no router forwards it", probe.destination.text());
  return {};
}

// Delivered by the host's route to a pod's veth. False: it is none.
Result<bool> reaches_pod(Story& story, const ExplainNode& node, const Link& out, const Probe& probe) {
  PDL_TRY_ASSIGN(const auto pod, node.tables.pods.find(probe.destination));
  if (!pod || static_cast<int>(pod->veth) != out.index) return false;
  story.delivered(probe.destination.text());
  story.say("delivered", formatted("by the host's route into the pod, by {}", out.name));
  return true;
}

// As uplink_egress sees it on the interface that the host's routing sends it out of.
Result<> leave_by_uplink(Story& story, ExplainNode& node, const Probe& probe, const Link& out, const NextHop& hop,
                         int incoming) {
  PDL_TRY_ASSIGN(const auto frame, probe_frame(probe));
  PDL_TRY_ASSIGN(const ProgramRun run, run_program(node.tables.folder, "uplink_egress", frame, out.index, incoming));
  story.set("lateVerdict", verdict_name(run.verdict));
  story.say("uplink_egress",
            formatted("on {}: {}, {}", out.name, verdict_name(run.verdict), verdict_text(run.verdict)));
  if (std::ranges::count(programs_on(node.netlink, out.index, TcHook::egress), "uplink_egress") == 0)
    story.lost(formatted("uplink_egress is not attached to {}: its packets do not meet it", out.name));
  PDL_TRY_ASSIGN(const auto pod, node.tables.pods.find(probe.source));
  PDL_TRY_ASSIGN(const auto own, node.tables.nodes.find(probe.source));
  switch (run.verdict) {
    case PDL_VERDICT_late_redirected:
    case PDL_VERDICT_late_gateway_silent:
      if (pod) tell_way_by_home(story, node, *pod, probe);
      return {};
    case PDL_VERDICT_late_node:
      if (own) tell_way_by_node(story, node, *own, probe);
      return {};
    default:
      break;
  }
  if (run.action == TC_ACT_SHOT) {
    story.dropped(verdict_text(run.verdict));
  } else if (run.action == TC_ACT_UNSPEC) {
    tell_way_by_route(story, node, out, hop, probe);
  } else {
    story.answered("by ICMP with the MTU of the home");
    story.lost(verdict_text(run.verdict));
  }
  return {};
}

Result<> forward(Story& story, ExplainNode& node, const Subject& subject, const Probe& after, const Route& route) {
  const NextHop& hop = route.next_hops.front();
  PDL_TRY_ASSIGN(const Link out, find_link(node.netlink, hop.link));
  story.say("stack",
            formatted("the host's rules for forwarded packets, which may change it, then its route: {}", out.name));
  if (const std::string why = refused_by_stack(subject, false); !why.empty()) {
    story.dropped(why);
    return {};
  }
  if (after.hop_limit <= 1) {
    after.quote ? story.dropped("TTL or hop limit is used up, and nobody answers an ICMP error")
                : story.answered("by ICMP: time exceeded");
    if (!after.quote) story.lost("TTL or hop limit is used up");
    return {};
  }
  Probe later = after;
  --later.hop_limit;
  if (later.size > out.mtu) {
    if (later.source.is_v6() || later.dont_fragment) {
      story.answered("by ICMP: the MTU of " + out.name);
      story.lost(formatted("larger than {}'s MTU {}", out.name, out.mtu));
      return {};
    }
    story.say("stack", formatted("fragments it to {}'s MTU {}", out.name, out.mtu));
    later.size = out.mtu;
    if (later.piece == Piece::whole) later.piece = Piece::first_fragment;
  }
  PDL_TRY_ASSIGN(const bool pod, reaches_pod(story, node, out, later));
  if (pod) return {};
  if (node.uplinks.contains(static_cast<std::uint32_t>(out.index)))
    return leave_by_uplink(story, node, later, out, hop, subject.link.index);
  tell_way_by_route(story, node, out, hop, later);
  return {};
}

}  // namespace

void tell_way_by_home(Story& story, ExplainNode& node, const pdl_pod& pod, const Probe& probe) {
  const PodNextHop hop = pod_next_hop(pod, probe.source, probe.destination);
  tell_way(story, node,
           {.link = static_cast<int>(pod.home),
            .interface = uplink_name(node.uplinks, pod.home),
            .hop = hop.address,
            .direct = hop.direct,
            .silent = !hop.direct && (pod.flags & PDL_POD_GATEWAY_SILENT) != 0});
}

Result<> follow_stack(Story& story, ExplainNode& node, const Subject& subject) {
  if (subject.probe.piece != Piece::whole)
    story.say("stack", "where the host tracks connections, all fragments of a packet have to come");
  // Of IPv6 groups the kernel's routing cannot be asked.
  if (subject.probe.destination.is_multicast()) {
    story.stays("multicast, for who listens on the host itself");
    return {};
  }
  PDL_TRY_ASSIGN(const Probe after, translated(story, subject.probe));
  // Routing sees the destination as it is translated, and the source as it came.
  const auto route = find_route(
      node.netlink, {.destination = after.destination, .source = subject.probe.source, .incoming = subject.link.index});
  if (!route) {
    story.dropped("the host has no way for it: " + route.error().message);
    return {};
  }
  if (route->type == RTN_UNICAST && !route->next_hops.empty()) return forward(story, node, subject, after, *route);
  if (const std::string why = refused_by_stack(subject, true); !why.empty()) {
    story.dropped(why);
  } else {
    story.stays("on this host");
  }
  return {};
}

}  // namespace poduplink::ctl
