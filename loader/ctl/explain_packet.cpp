// SPDX-License-Identifier: Apache-2.0
#include "loader/ctl/explain_packet.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace poduplink::ctl {
namespace {

constexpr std::array<std::pair<std::string_view, std::uint8_t>, 7> protocol_names{{{"udp", IPPROTO_UDP},
                                                                                   {"tcp", IPPROTO_TCP},
                                                                                   {"sctp", IPPROTO_SCTP},
                                                                                   {"gre", IPPROTO_GRE},
                                                                                   {"esp", IPPROTO_ESP},
                                                                                   {"ipip", IPPROTO_IPIP},
                                                                                   {"igmp", IPPROTO_IGMP}}};

// Numbers of IPv6 extension headers, which are no protocols there.
bool is_extension(std::uint8_t protocol) {
  static constexpr std::array<std::uint8_t, 5> extensions{0, 43, 44, 51, 60};
  return std::ranges::count(extensions, protocol) != 0;
}

Result<std::uint8_t> parse_protocol(const std::string& text, Family family) {
  if (text == "icmp")
    return family == Family::v4 ? std::uint8_t{IPPROTO_ICMP} : static_cast<std::uint8_t>(IPPROTO_ICMPV6);
  for (const auto& [name, number] : protocol_names) {
    if (text == name) return number;
  }
  std::uint8_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || stop != end)
    return fail("protocol '{}': udp, tcp, icmp, sctp, gre, esp, ipip, igmp or a number from 0 to 255", text);
  if (family == Family::v6 && is_extension(number))
    return fail("protocol {} is an extension header of IPv6: see --extensions, --options and --fragment", number);
  return number;
}

// An address among the options: of the pod's family.
Result<IpAddress> parse_of_family(const std::string& text, const Subject& subject) {
  PDL_TRY_ASSIGN(const IpAddress address, IpAddress::parse(text));
  if (address.family() != subject.self.family())
    return fail("{} and {} are of two families", subject.self.text(), text);
  return address;
}

// What cannot be said of one packet at once.
Result<> check_together(const ExplainQuestion& question, Family family) {
  const bool v4 = family == Family::v4;
  if (v4 && question.extensions != 0) return fail("--extensions: IPv4 has no extension headers");
  if (!v4 && question.fragmentable) return fail("--fragmentable: no router fragments IPv6");
  if (!question.quoting.empty() && !question.icmp_error) return fail("--quoting: only of an --icmp-error");
  if (question.inbound && !question.from.empty() && !question.icmp_error)
    return fail("--from with --inbound: only of an --icmp-error; the sender of another packet is DESTINATION");
  if (!question.uplink.empty() && !question.inbound) return fail("--uplink: only with --inbound");
  if (question.neighbour && (question.icmp_error || question.options || question.extensions != 0 ||
                             !question.fragment.empty() || question.vlan != 0))
    return fail("--neighbour asks for a MAC: no other kind of packet can be said");
  return {};
}

Result<> describe_ip(Probe& probe, const ExplainQuestion& question) {
  PDL_TRY_ASSIGN(probe.protocol, parse_protocol(question.protocol, probe.source.family()));
  probe.vlan = static_cast<std::uint16_t>(question.vlan);
  probe.size = question.size;
  probe.hop_limit = static_cast<std::uint8_t>(question.hop_limit);
  if (question.fragment == "first") probe.piece = Piece::first_fragment;
  if (question.fragment == "later") probe.piece = Piece::later_fragment;
  probe.dont_fragment = !question.fragmentable && probe.piece == Piece::whole;
  probe.options = question.options;
  probe.extensions = question.extensions;
  probe.source_port = static_cast<std::uint16_t>(question.source_port);
  probe.destination_port = static_cast<std::uint16_t>(question.destination_port);
  probe.asks_for_neighbour = question.neighbour;
  return {};
}

// The error belongs to the flow that is asked about: it quotes the packet that its own sender got.
Result<> describe_error(Subject& subject, const ExplainQuestion& question) {
  IpAddress pods_end = subject.self;
  if (!question.quoting.empty()) {
    PDL_TRY_ASSIGN(pods_end, parse_of_family(question.quoting, subject));
  }
  const Probe& probe = subject.probe;
  subject.probe.quote = Quote{.source = subject.inbound ? pods_end : subject.peer,
                              .destination = subject.inbound ? subject.peer : pods_end,
                              .protocol = probe.protocol,
                              .source_port = probe.destination_port,
                              .destination_port = probe.source_port};
  return {};
}

Result<Link> find_arrival(ExplainNode& node, const Subject& subject, const std::string& name) {
  if (name.empty() && !subject.pod)
    return fail("{} is no pod of this node: say by --uplink where the packet arrives", subject.self.text());
  if (name.empty()) {
    if (!node.uplinks.contains(subject.pod->home))
      return fail("the home of {} is missing: say by --uplink where the packet arrives", subject.self.text());
    return find_link(node.netlink, static_cast<int>(subject.pod->home));
  }
  std::string known;
  for (const auto& [index, uplink] : node.uplinks) {
    if (name == uplink.name) return find_link(node.netlink, static_cast<int>(index));
    known += formatted("{}{}", known.empty() ? "" : ", ", uplink.name);
  }
  return fail("--uplink {}: no uplink and no transit device; there are: {}", name, known);
}

Result<> find_link_of(ExplainNode& node, Subject& subject, const ExplainQuestion& question) {
  PDL_TRY_ASSIGN(const auto pod, node.tables.pods.find(subject.self));
  subject.pod = pod;
  if (subject.inbound) {
    PDL_TRY_ASSIGN(subject.link, find_arrival(node, subject, question.uplink));
    if (pod) subject.probe.source_mac = to_mac(pod->gateway_mac);
    return {};
  }
  if (!pod)
    return fail("{} is no pod of this node: there is no entry in pods{}", subject.self.text(),
                subject.self.is_v4() ? 4 : 6);
  if (pod->veth == 0) return fail("{} is being deleted", subject.self.text());
  PDL_TRY_ASSIGN(subject.link, find_link(node.netlink, static_cast<int>(pod->veth)));
  subject.probe.source_mac = to_mac(pod->pod_mac);
  return {};
}

}  // namespace

Result<Subject> find_subject(ExplainNode& node, const ExplainQuestion& question) {
  Subject subject;
  subject.inbound = question.inbound;
  PDL_TRY_ASSIGN(subject.self, IpAddress::parse(question.pod));
  PDL_TRY_ASSIGN(subject.peer, parse_of_family(question.destination, subject));
  PDL_TRY(check_together(question, subject.self.family()));
  Probe& probe = subject.probe;
  probe.source = subject.inbound ? subject.peer : subject.self;
  probe.destination = subject.inbound ? subject.self : subject.peer;
  if (!question.from.empty()) {
    PDL_TRY_ASSIGN(probe.source, parse_of_family(question.from, subject));
  }
  PDL_TRY(describe_ip(probe, question));
  if (question.icmp_error) PDL_TRY(describe_error(subject, question));
  PDL_TRY(probe_frame(probe));
  PDL_TRY(find_link_of(node, subject, question));
  probe.destination_mac =
      question.neighbour ? neighbour_group_mac(probe.destination) : subject.link.mac.value_or(MacAddress());
  if (!question.to_mac.empty()) {
    PDL_TRY_ASSIGN(probe.destination_mac, MacAddress::parse(question.to_mac));
  }
  return subject;
}

std::string packet_text(const Subject& subject, const ExplainQuestion& question) {
  const Probe& probe = subject.probe;
  if (probe.asks_for_neighbour)
    return formatted("{} of {} for the MAC of {}", probe.source.is_v4() ? "ARP request" : "neighbour solicitation",
                     probe.source.text(), probe.destination.text());
  std::string text = formatted("{} from {} to {}", question.protocol, probe.source.text(), probe.destination.text());
  if (probe.protocol == IPPROTO_TCP || probe.protocol == IPPROTO_UDP)
    text += formatted(", port {} to {}", probe.source_port, probe.destination_port);
  if (probe.quote)
    text = formatted("ICMP error from {} to {}, about a {} packet from {} to {}", probe.source.text(),
                     probe.destination.text(), question.protocol, probe.quote->source.text(),
                     probe.quote->destination.text());
  text += formatted(", {} octets", probe.size);
  if (question.fragmentable) text += ", may be fragmented";
  if (!question.fragment.empty()) text += formatted(", a {} fragment", question.fragment);
  if (probe.options) text += probe.source.is_v4() ? ", with an IPv4 option" : ", with a routing header";
  if (probe.extensions != 0) text += formatted(", {} extension headers", probe.extensions);
  if (probe.vlan != 0) text += formatted(", VLAN {}", probe.vlan);
  if (question.hop_limit != 64) text += formatted(", TTL {}", question.hop_limit);
  return text;
}

PodNextHop pod_next_hop(const pdl_pod& pod, const IpAddress& self, const IpAddress& destination) {
  if ((pod.flags & PDL_POD_ON_LINK) != 0 && Prefix(self, pod.prefix_len).contains(destination))
    return {.address = destination, .direct = true};
  return {.address = pod_gateway(pod), .direct = false};
}

}  // namespace poduplink::ctl
