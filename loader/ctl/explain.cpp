// SPDX-License-Identifier: Apache-2.0
// The verdict is the program's own; what is said around it are the facts that it decided by, read from the maps.
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include <algorithm>
#include <map>
#include <set>

#include "loader/ctl/commands.h"
#include "loader/ctl/probe.h"
#include "loader/net/link.h"
#include "loader/net/route.h"
#include "maps/podprog.h"

namespace poduplink::ctl {
namespace {

struct Node {
  Tables tables;
  Netlink netlink;
  std::map<std::uint32_t, pdl_uplink> uplinks;
};

struct Subject {
  Probe probe;
  pdl_pod pod{};
  Link veth;
};

// Steps for people, and the outcome for programs.
class Story {
 public:
  void say(const std::string& title, const std::string& text, Tone tone = Tone::plain) {
    view_.remarks.push_back({tone, formatted("{:<13} {}", title, text)});
    steps_.push_back({{"step", title}, {"text", text}});
  }
  void set(const char* key, Json value) { outcome_[key] = std::move(value); }
  void lost(const std::string& why) {
    say("lost", why, Tone::bad);
    outcome_["lost"] = true;
    view_.well = false;
  }
  View finish() && {
    view_.document = {{"steps", steps_}};
    view_.document.update(outcome_);
    return std::move(view_);
  }

 private:
  View view_;
  Json steps_ = Json::array();
  Json outcome_{{"lost", false},       {"verdict", nullptr}, {"lateVerdict", nullptr},
                {"leavesBy", nullptr}, {"nextHop", nullptr}, {"nextHopMac", nullptr}};
};

Result<std::uint8_t> parse_protocol(const std::string& text, Family family) {
  if (text == "udp") return std::uint8_t{IPPROTO_UDP};
  if (text == "tcp") return std::uint8_t{IPPROTO_TCP};
  if (text == "icmp")
    return family == Family::v4 ? std::uint8_t{IPPROTO_ICMP} : static_cast<std::uint8_t>(IPPROTO_ICMPV6);
  return fail("protocol '{}': udp, tcp or icmp", text);
}

Result<Probe> make_probe(const ExplainQuestion& question) {
  Probe probe;
  PDL_TRY_ASSIGN(probe.source, IpAddress::parse(question.pod));
  PDL_TRY_ASSIGN(probe.destination, IpAddress::parse(question.destination));
  if (probe.source.family() != probe.destination.family())
    return fail("{} and {} are of two families", question.pod, question.destination);
  PDL_TRY_ASSIGN(probe.protocol, parse_protocol(question.protocol, probe.source.family()));
  const std::size_t least = smallest_probe(probe.source.family(), probe.protocol);
  if (question.size < least || question.size > largest_probe)
    return fail("size {}: from {} (the headers of this packet) to {} (what the kernel takes for a test run)",
                question.size, least, largest_probe);
  probe.size = question.size;
  probe.source_port = static_cast<std::uint16_t>(question.source_port);
  probe.destination_port = static_cast<std::uint16_t>(question.destination_port);
  probe.dont_fragment = !question.fragmentable;
  return probe;
}

Result<Subject> find_subject(Node& node, Probe probe) {
  PDL_TRY_ASSIGN(const auto pod, node.tables.pods.find(probe.source));
  if (!pod)
    return fail("{} is no pod of this node: there is no entry in pods{}", probe.source.text(),
                probe.source.is_v4() ? 4 : 6);
  if (pod->veth == 0) return fail("{} is being deleted", probe.source.text());
  PDL_TRY_ASSIGN(Link veth, find_link(node.netlink, static_cast<int>(pod->veth)));
  probe.source_mac = to_mac(pod->pod_mac);
  probe.destination_mac = veth.mac.value_or(MacAddress());
  return Subject{.probe = probe, .pod = *pod, .veth = std::move(veth)};
}

// What the map says of a destination, in the order in which the programs ask.
Result<std::string> describe(const Node& node, const Subject& subject) {
  const IpAddress& address = subject.probe.destination;
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
  const Prefix subnet(subject.probe.source, subject.pod.prefix_len);
  if (subnet.contains(address))
    return formatted("in the pod's subnet {}{}", subnet.subnet().text(),
                     (subject.pod.flags & PDL_POD_ON_LINK) != 0 ? ", its own next hop" : "");
  return std::string("outside");
}

// Who the packet goes to on the uplink, and whether anybody answers there.
void tell_next_hop(Story& story, Node& node, const Subject& subject) {
  const auto home = static_cast<int>(subject.pod.home);
  const bool direct = (subject.pod.flags & PDL_POD_ON_LINK) != 0 &&
                      Prefix(subject.probe.source, subject.pod.prefix_len).contains(subject.probe.destination);
  const auto hop = direct ? std::optional(subject.probe.destination) : pod_gateway(subject.pod);
  story.set("leavesBy", uplink_name(node.uplinks, subject.pod.home));
  if (!hop) return;
  story.set("nextHop", hop->text());
  const auto neighbour = find_neighbour(node.netlink, home, *hop);
  const bool resolved = neighbour && neighbour->is_resolved() && neighbour->mac;
  const bool failed = neighbour && neighbour->has_failed();
  if (resolved) story.set("nextHopMac", neighbour->mac->text());
  std::string reached = "whose MAC the kernel will ask for";
  if (resolved) reached = "MAC " + neighbour->mac->text();
  if (failed) reached = "which does not answer";
  story.say("leaves by", formatted("{} to {} {}, {}", uplink_name(node.uplinks, subject.pod.home),
                                   direct ? "the destination" : "gateway", hop->text(), reached));
  if (failed || (!direct && (subject.pod.flags & PDL_POD_GATEWAY_SILENT) != 0))
    story.lost(
        formatted("{} does not answer on the uplink: the kernel drops the packet unless that changes", hop->text()));
}

void tell_home(Story& story, const Node& node, const Subject& subject) {
  const auto home = node.uplinks.find(subject.pod.home);
  if (home == node.uplinks.end()) {
    story.say("home",
              subject.pod.home == 0 ? "missing: the uplink is gone" : formatted("missing: index {}", subject.pod.home),
              Tone::bad);
    return;
  }
  story.say("home",
            formatted("{} (index {}): {}, MTU {}, when down: {}", home->second.name, home->first,
                      state_name(home->second.state), home->second.mtu,
                      home->second.when_down == PDL_WHEN_DOWN_STACK ? "stack" : "drop"),
            home->second.state == PDL_STATE_UP ? Tone::plain : Tone::bad);
}

// The same packet where the host's routing sends it out, as uplink_egress sees it there.
Result<> follow_stack(Story& story, Node& node, const Subject& subject) {
  const Probe& probe = subject.probe;
  const auto route = find_route(
      node.netlink, {.destination = probe.destination, .source = probe.source, .incoming = subject.veth.index});
  if (!route) {
    story.lost("the host has no way for it: " + route.error().message);
    return {};
  }
  if (route->type != RTN_UNICAST || route->next_hops.empty()) {
    story.say("stack", "stays on this host");
    return {};
  }
  const int out = route->next_hops.front().link;
  const auto link = find_link(node.netlink, out);
  const std::string name = link ? link->name : std::to_string(out);
  story.say("stack",
            formatted("the host's rules for forwarded packets, which may change it, then its route: {}", name));
  if (!node.uplinks.contains(static_cast<std::uint32_t>(out))) {
    story.set("leavesBy", name);
    return {};
  }
  Probe later = probe;
  --later.hop_limit;
  if (link && probe.size > link->mtu) {
    if (probe.source.is_v6() || probe.dont_fragment) {
      story.lost(formatted("larger than {}'s MTU {}: the host tells the pod by ICMP", name, link->mtu));
      return {};
    }
    story.say("stack", formatted("fragments it to {}'s MTU {}", name, link->mtu));
    later.size = link->mtu;
  }
  PDL_TRY_ASSIGN(const ProgramRun run,
                 run_program(node.tables.folder, "uplink_egress", probe_frame(later), out, subject.veth.index));
  story.set("lateVerdict", verdict_name(run.verdict));
  story.say("uplink_egress", formatted("on {}: {}, {}", name, verdict_name(run.verdict), verdict_text(run.verdict)));
  if (run.verdict == PDL_VERDICT_late_redirected || run.verdict == PDL_VERDICT_late_gateway_silent) {
    tell_next_hop(story, node, subject);
  } else if (run.action == TC_ACT_SHOT) {
    story.lost(verdict_text(run.verdict));
  } else if (run.action == TC_ACT_UNSPEC) {
    story.set("leavesBy", name);
  }
  return {};
}

// Verdicts of pod_egress behind which the host's routing decides.
bool goes_on_in_stack(unsigned verdict) {
  static const std::set<unsigned> ends{PDL_VERDICT_stack_node, PDL_VERDICT_stack_link_local,
                                       PDL_VERDICT_stack_multicast, PDL_VERDICT_stack_broadcast, PDL_VERDICT_ttl};
  return !ends.contains(verdict);
}

Result<> tell_verdict(Story& story, Node& node, const Subject& subject) {
  PDL_TRY_ASSIGN(const ProgramRun run,
                 run_program(node.tables.folder, "pod_egress", probe_frame(subject.probe), subject.veth.index, 0));
  story.set("verdict", verdict_name(run.verdict));
  story.say("pod_egress", formatted("{}, {}", verdict_name(run.verdict), verdict_text(run.verdict)));
  switch (run.verdict) {
    case PDL_VERDICT_redirected:
    case PDL_VERDICT_gateway_silent:
      tell_next_hop(story, node, subject);
      return {};
    case PDL_VERDICT_to_pod:
      story.say("delivered", "straight into the other pod");
      return {};
    case PDL_VERDICT_too_big:
      if (run.action == TC_ACT_UNSPEC) return follow_stack(story, node, subject);
      story.lost("the pod is told the MTU of its home by ICMP");
      return {};
    default:
      if (run.action == TC_ACT_SHOT) {
        story.lost(verdict_text(run.verdict));
        return {};
      }
      return goes_on_in_stack(run.verdict) ? follow_stack(story, node, subject) : Result<>();
  }
}

std::string ports_text(const Probe& probe, const std::string& protocol) {
  if (protocol == "icmp") return {};
  return formatted(", port {} to {}", probe.source_port, probe.destination_port);
}

}  // namespace

Result<View> explain_view(const Settings& settings, const ExplainQuestion& question) {
  PDL_TRY_ASSIGN(const Probe probe, make_probe(question));
  PDL_TRY_ASSIGN(Tables tables, open_current_tables(settings.pin_dir));
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open());
  PDL_TRY_ASSIGN(auto uplinks, uplinks_by_index(tables));
  Node node{std::move(tables), std::move(netlink), std::move(uplinks)};
  PDL_TRY_ASSIGN(const Subject subject, find_subject(node, probe));
  Story story;
  story.say("packet", formatted("{} from {} to {}{}, {} octets{}", question.protocol, question.pod,
                                question.destination, ports_text(subject.probe, question.protocol), question.size,
                                question.fragmentable ? ", may be fragmented" : ""));
  story.say("pod", formatted("veth {} (index {}), {} mode", subject.veth.name, subject.veth.index,
                             mode_name(subject.pod.mode)));
  const auto wrong =
      check_pod_program(node.netlink, node.tables.folder, subject.veth.name, subject.veth.index, subject.pod.mode);
  if (!wrong || !wrong->empty())
    story.lost("its packets do not meet the program: " + (wrong ? *wrong : wrong.error().message));
  PDL_TRY_ASSIGN(const std::string destination, describe(node, subject));
  story.say("destination", destination);
  tell_home(story, node, subject);
  PDL_TRY(tell_verdict(story, node, subject));
  return std::move(story).finish();
}

}  // namespace poduplink::ctl
