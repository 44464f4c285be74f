// SPDX-License-Identifier: Apache-2.0
// The verdict is the program's own; what is said around it are the facts that it decided by, read from the maps.
#include <linux/pkt_cls.h>

#include <algorithm>

#include "loader/ctl/explain_packet.h"
#include "loader/ctl/explain_stack.h"
#include "loader/ctl/explain_story.h"
#include "loader/ctl/program_run.h"
#include "maps/podprog.h"

namespace poduplink::ctl {
namespace {

// What the maps say of the pod's peer, in the order in which the programs ask.
Result<std::string> describe_peer(const ExplainNode& node, const Subject& subject) {
  const IpAddress& address = subject.peer;
  PDL_TRY_ASSIGN(const auto own, node.tables.nodes.find(address));
  if (own) return formatted("the node's own address on {}", uplink_name(node.uplinks, own->ifindex));
  if (address.is_loopback() || address.is_unspecified()) return std::string("the node itself");
  if (address.is_link_local()) return std::string("link-local");
  if (address.is_multicast()) return std::string("multicast");
  PDL_TRY_ASSIGN(const auto exempt, node.tables.exempt.entries());
  const std::pair<Prefix, std::uint32_t>* longest = nullptr;
  for (const auto& entry : exempt) {
    if (entry.first.contains(address) && (longest == nullptr || entry.first.length() > longest->first.length()))
      longest = &entry;
  }
  if (longest != nullptr)
    return formatted("exempt by {} (item {} of the configuration)", longest->first.text(), longest->second);
  PDL_TRY_ASSIGN(const auto other, node.tables.pods.find(address));
  if (other) return formatted("a pod of this node in {} mode, veth index {}", mode_name(other->mode), other->veth);
  if (!subject.pod) return std::string("outside");
  const Prefix subnet(subject.self, subject.pod->prefix_len);
  if (!subnet.contains(address)) return std::string("outside");
  return formatted("in the pod's subnet {}{}", subnet.subnet().text(),
                   pod_next_hop(*subject.pod, subject.self, address).direct ? ", its own next hop" : "");
}

void tell_home(Story& story, const ExplainNode& node, const pdl_pod& pod) {
  const auto home = node.uplinks.find(pod.home);
  if (home == node.uplinks.end()) {
    story.say("home", pod.home == 0 ? "missing: the uplink is gone" : formatted("missing: index {}", pod.home),
              Tone::bad);
    return;
  }
  story.set("home", home->second.name);
  story.set("mtu", home->second.mtu);
  story.say("home",
            formatted("{} (index {}): {}, MTU {}, when down: {}", home->second.name, home->first,
                      state_name(home->second.state), home->second.mtu,
                      home->second.when_down == PDL_WHEN_DOWN_STACK ? "stack" : "drop"),
            home->second.state == PDL_STATE_UP ? Tone::plain : Tone::bad);
}

// Empty: the interface runs the program that explain runs.
Result<std::string> program_missing(ExplainNode& node, const Subject& subject) {
  if (!subject.inbound)
    return check_pod_program(node.netlink, node.tables.folder, subject.link.name, subject.link.index,
                             subject.pod->mode);
  if (std::ranges::count(programs_on(node.netlink, subject.link.index, TcHook::ingress), "uplink_ingress") != 0)
    return std::string();
  return formatted("uplink_ingress is not attached to {}", subject.link.name);
}

// Endings of pod_egress and uplink_ingress that are no drop and that the host's routing has no part in. False: it has.
bool tell_own_ending(Story& story, ExplainNode& node, const Subject& subject, unsigned verdict) {
  switch (verdict) {
    case PDL_VERDICT_redirected:
    case PDL_VERDICT_gateway_silent:
      tell_way_by_home(story, node, *subject.pod, subject.probe);
      return true;
    case PDL_VERDICT_to_pod:
    case PDL_VERDICT_in_redirected:
    case PDL_VERDICT_in_other_uplink:
      story.delivered(subject.probe.destination.text());
      story.say("delivered", "straight into the pod");
      return true;
    case PDL_VERDICT_neighbour:
      story.answered("with the MAC of the pod's gateway");
      return true;
    case PDL_VERDICT_in_neighbour:
      story.answered("with the MAC of " + subject.link.name);
      return true;
    case PDL_VERDICT_not_ip:
    case PDL_VERDICT_in_not_ip:
      story.stays("the host answers, or nobody");
      return true;
    case PDL_VERDICT_vlan:
    case PDL_VERDICT_in_vlan:
      story.stays(formatted("unless the host has a VLAN device on {}", subject.link.name));
      return true;
    default:
      return false;
  }
}

Result<> tell_verdict(Story& story, ExplainNode& node, const Subject& subject) {
  PDL_TRY_ASSIGN(const auto frame, probe_frame(subject.probe));
  PDL_TRY_ASSIGN(const ProgramRun run,
                 run_program(node.tables.folder, subject.program(), frame, subject.link.index, 0));
  story.set("program", subject.program());
  story.set("verdict", verdict_name(run.verdict));
  story.say(subject.program(), formatted("{}, {}", verdict_name(run.verdict), verdict_text(run.verdict)));
  if (tell_own_ending(story, node, subject, run.verdict)) return {};
  if (run.action == TC_ACT_UNSPEC) return follow_stack(story, node, subject);
  if (run.action == TC_ACT_SHOT) {
    story.dropped(verdict_text(run.verdict));
  } else {
    story.answered("the pod is told the MTU of its home by ICMP");
    story.lost(verdict_text(run.verdict));
  }
  return {};
}

}  // namespace

Result<View> explain_view(const Settings& settings, const ExplainQuestion& question) {
  PDL_TRY_ASSIGN(Tables tables, open_current_tables(settings.pin_dir));
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open());
  PDL_TRY_ASSIGN(auto uplinks, uplinks_by_index(tables));
  ExplainNode node{.tables = std::move(tables), .netlink = std::move(netlink), .uplinks = std::move(uplinks)};
  PDL_TRY_ASSIGN(const Subject subject, find_subject(node, question));
  Story story;
  story.say("packet", packet_text(subject, question));
  if (subject.inbound) story.say("arrives on", formatted("{} (index {})", subject.link.name, subject.link.index));
  if (subject.pod)
    story.say("pod", formatted("{}, {} mode",
                               subject.inbound ? formatted("veth index {}", subject.pod->veth)
                                               : formatted("veth {} (index {})", subject.link.name, subject.link.index),
                               mode_name(subject.pod->mode)));
  const auto missing = program_missing(node, subject);
  if (!missing || !missing->empty())
    story.lost("its packets do not meet the program: " + (missing ? *missing : missing.error().message));
  PDL_TRY_ASSIGN(const std::string peer, describe_peer(node, subject));
  story.say(subject.inbound ? "peer" : "destination", peer);
  if (subject.pod) tell_home(story, node, *subject.pod);
  PDL_TRY(tell_verdict(story, node, subject));
  return std::move(story).finish();
}

}  // namespace poduplink::ctl
