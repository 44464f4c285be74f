// SPDX-License-Identifier: Apache-2.0
// What pods send: verdicts of pod_egress, and of uplink_egress behind it.
#include <iterator>

#include "tests/e2e/ctl_verdicts.h"

namespace poduplink::harness {

using namespace poduplink::tests;

namespace {

using Layers = std::vector<Layer>;
using Options = std::vector<std::string>;
using Member = Pod VerdictLab::*;

constexpr std::uint16_t sport = 40000;
constexpr std::uint16_t dport = listening_port;

// The IP header that explain gives its packets, from a pod to a peer.
Ip header(const IpAddress& from, const IpAddress& to) { return {.src = from, .dst = to, .dont_fragment = true}; }

// What the pod sends to `peer`: `behind` stands behind the IP header, which `change` may alter.
Asked sent_by(const Pod& pod, const IpAddress& peer, Options options, Layers behind,
              const std::function<void(Ip&)>& change = {}) {
  const IpAddress self = address_of(pod, peer.family());
  Ip ip = header(self, peer);
  if (change) change(ip);
  Layers layers{ip};
  std::ranges::copy(behind, std::back_inserter(layers));
  return {.self = self, .peer = peer, .options = std::move(options), .sender = &pod, .layers = std::move(layers)};
}

Layers udp(std::size_t payload = 60) { return {Udp{sport, dport}, Raw(payload)}; }

// A plain UDP packet to what `peer` says.
auto plain(Member pod, const std::function<IpAddress(const VerdictLab&, Family)>& peer) {
  return [=](const VerdictLab& all, Family family) { return sent_by(all.*pod, peer(all, family), {}, udp()); };
}

IpAddress outside(const VerdictLab& /*all*/, Family family) { return Outside::address(family); }

auto fixed(const char* v4, const char* v6) {
  return [=](const VerdictLab& /*all*/, Family family) { return of_family(family, v4, v6); };
}

auto to_pod(Member pod) {
  return [=](const VerdictLab& all, Family family) { return address_of(all.*pod, family); };
}

// UDP to the outside with options of explain, and the same done to the packet by hand.
auto altered(const Options& options, const std::function<void(Ip&)>& change, const Layers& before = {}) {
  return [=](const VerdictLab& all, Family family) {
    Layers behind = before;
    std::ranges::copy(udp(), std::back_inserter(behind));
    return sent_by(all.fast, Outside::address(family), options, behind, change);
  };
}

// Of a size that its home cannot take.
auto large(Member pod, std::size_t payload, const Options& options = {}, const std::function<void(Ip&)>& change = {}) {
  return [=](const VerdictLab& all, Family family) {
    return sent_by(all.*pod, Outside::address(family), options, udp(payload), change);
  };
}

auto protocol(const std::string& name, std::uint8_t number, std::size_t payload) {
  return [=](const VerdictLab& all, Family family) {
    return sent_by(all.fast, Outside::address(family), {"--proto", name}, {Raw(payload)},
                   [=](Ip& ip) { ip.protocol = number; });
  };
}

Asked fragment(const VerdictLab& all, Family family, bool later) {
  const std::uint16_t offset = later ? 1480 : 0;
  Layers behind;
  if (family == Family::v6) behind.emplace_back(Fragment{.offset = offset, .more = !later});
  if (!later) behind.emplace_back(Udp{sport, dport});
  behind.emplace_back(Raw(64));
  Asked asked =
      sent_by(all.fast, Outside::address(family), {"--fragment", later ? "later" : "first"}, behind, [&](Ip& ip) {
        ip.dont_fragment = false;
        ip.more_fragments = !later;
        ip.fragment_offset = offset;
        if (later && family == Family::v4) ip.protocol = 17;
      });
  return asked;
}

Asked with_options(const VerdictLab& all, Family family) {
  Layers behind = udp();
  if (family == Family::v6) behind.insert(behind.begin(), Extension{43});
  return sent_by(all.fast, Outside::address(family), {"--options"}, behind, [](Ip& ip) { ip.option_words = 1; });
}

Asked many_extensions(const VerdictLab& all, Family family) {
  Layers behind(9, Extension{60});
  std::ranges::copy(udp(), std::back_inserter(behind));
  return sent_by(all.fast, Outside::address(family), {"--extensions", "9"}, behind);
}

// Time exceeded about a packet that came to `quoted`, the pod itself or not.
Asked error_about(const VerdictLab& all, Family family, const IpAddress& quoted, Options options) {
  const IpAddress peer = Outside::address(family);
  const Icmp exceeded{static_cast<std::uint8_t>(family == Family::v4 ? 11 : 3)};
  return sent_by(all.fast, peer, std::move(options), {exceeded, header(peer, quoted), Udp{dport, sport}});
}

Asked gateway_asked(const VerdictLab& all, Family family, const IpAddress& about) {
  const IpAddress self = address_of(all.fast, family);
  Asked asked{.self = self, .peer = about, .options = {"--neighbour"}, .sender = &all.fast};
  ask_neighbour(asked, self, all.fast.mac, about);
  return asked;
}

Asked tagged(const VerdictLab& all, Family family) {
  Asked asked = sent_by(all.fast, Outside::address(family), {"--vlan", "5"}, udp());
  asked.layers.insert(asked.layers.begin(), Vlan{5});
  return asked;
}

Asked to_everybodys_mac(const VerdictLab& all, Family family) {
  Asked asked = sent_by(all.fast, Outside::address(family), {"--to-mac", "ff:ff:ff:ff:ff:ff"}, udp());
  asked.to_mac = mac("ff:ff:ff:ff:ff:ff");
  return asked;
}

Asked forged(const VerdictLab& all, Family family) {
  const IpAddress source = address_of(all.other, family);
  return sent_by(all.fast, Outside::address(family), {"--from", source.text()}, udp(),
                 [&](Ip& ip) { ip.src = source; });
}

// The pod's answer to somebody who called a NodePort of the node at its address on this uplink.
auto answer_of_node_port(unsigned uplink) {
  return [=](const VerdictLab& all, Family family) {
    const IpAddress node = address_of(all.lab->uplink(uplink), family);
    const auto client = static_cast<std::uint16_t>(6000 + uplink);
    Asked asked = sent_by(all.fast, Outside::address(family),
                          {"--sport", std::to_string(server_port), "--dport", std::to_string(client)},
                          {Udp{server_port, client}, Raw(60)});
    asked.leaves_as = {node, asked.peer};
    return asked;
  };
}

// To the service's server by the port of a call that was NATed there: the stack must see it.
Asked by_port_of_call(const VerdictLab& all, Family family) {
  return sent_by(all.fast, server_address(family),
                 {"--sport", std::to_string(calling_port), "--dport", std::to_string(server_port)},
                 {Udp{calling_port, server_port}, Raw(60)});
}

const std::vector<Row>& well() {
  using V = VerdictLab;
  const auto direct = plain(&V::fast, outside);
  const auto not_fragmented = [](Ip& ip) { ip.dont_fragment = false; };
  static const std::vector<Row> rows{
      {PDL_VERDICT_redirected, "leaves", direct},
      {PDL_VERDICT_redirected, "leaves", altered({"--ttl", "2"}, [](Ip& ip) { ip.ttl = 2; })},
      {.verdict = PDL_VERDICT_redirected,
       .outcome = "leaves",
       .asked = altered({"--extensions", "8"}, {}, Layers(8, Extension{60})),
       .only = Family::v6},
      {PDL_VERDICT_redirected, "leaves",
       [](const V& all, Family family) {
         return error_about(all, family, address_of(all.fast, family), {"--icmp-error"});
       }},
      {PDL_VERDICT_to_pod, "delivered", plain(&V::fast, to_pod(&V::other))},
      {PDL_VERDICT_neighbour, "answered",
       [](const V& all, Family family) {
         return gateway_asked(all, family, of_family(family, "169.254.1.1", "fe80::1"));
       }},
      {.verdict = PDL_VERDICT_not_ip,
       .outcome = "host",
       .asked = [](const V& all, Family family) { return gateway_asked(all, family, ip("169.254.1.9")); },
       .only = Family::v4},
      {PDL_VERDICT_vlan, "host", tagged},
      {PDL_VERDICT_malformed, "dropped",
       [](const V& all, Family family) {
         const IpAddress other = address_of(all.other, family);
         return error_about(all, family, other, {"--icmp-error", "--quoting", other.text()});
       }},
      {PDL_VERDICT_spoofed, "dropped", forged},
      {PDL_VERDICT_too_big, "answered", large(&V::fast, 1392)},
      {PDL_VERDICT_too_big, "answered", large(&V::netfilter, 1392)},
      {.verdict = PDL_VERDICT_too_big,
       .outcome = "leaves",
       .asked = large(&V::other, 1492, {"--fragmentable"}, not_fragmented),
       .late = PDL_VERDICT_late_passed,
       .only = Family::v4},
      {.verdict = PDL_VERDICT_too_big,
       .outcome = "dropped",
       .asked = large(&V::fast, 1392, {"--fragmentable"}, not_fragmented),
       .late = PDL_VERDICT_late_too_big,
       .only = Family::v4},
      {PDL_VERDICT_ttl, "answered", altered({"--ttl", "1"}, [](Ip& ip) { ip.ttl = 1; })},
      {PDL_VERDICT_local_pod, "delivered", plain(&V::fast, to_pod(&V::netfilter))},
      {PDL_VERDICT_stack_node, "host",
       plain(&V::fast, [](const V& all, Family family) { return address_of(all.lab->uplink(1), family); })},
      {.verdict = PDL_VERDICT_stack_link_local,
       .outcome = "leaves",
       .asked = plain(&V::fast, fixed("169.254.7.7", "")),
       .late = PDL_VERDICT_late_passed,
       .only = Family::v4},
      {.verdict = PDL_VERDICT_stack_link_local,
       .outcome = "dropped",
       .asked = plain(&V::fast, fixed("", "fe80::7")),
       .only = Family::v6},
      {PDL_VERDICT_stack_multicast, "host", plain(&V::fast, fixed("224.0.0.1", "ff02::1"))},
      {PDL_VERDICT_stack_multicast, "host", plain(&V::fast, fixed("239.1.2.3", "ff0e::99"))},
      {.verdict = PDL_VERDICT_stack_broadcast,
       .outcome = "host",
       .asked = plain(&V::fast, fixed("10.2.255.255", "")),
       .only = Family::v4},
      {PDL_VERDICT_stack_broadcast, "dropped", to_everybodys_mac},
      {.verdict = PDL_VERDICT_stack_exempt,
       .outcome = "leaves",
       .asked = plain(&V::fast, fixed("10.96.0.17", "fd00:96::17")),
       .late = PDL_VERDICT_late_passed},
      {.verdict = PDL_VERDICT_stack_netfilter,
       .outcome = "leaves",
       .asked = plain(&V::netfilter, outside),
       .late = PDL_VERDICT_late_redirected},
      {.verdict = PDL_VERDICT_stack_fragment,
       .outcome = "leaves",
       .asked = [](const V& all, Family family) { return fragment(all, family, false); },
       .late = PDL_VERDICT_late_redirected},
      {.verdict = PDL_VERDICT_stack_fragment,
       .outcome = "leaves",
       .asked = [](const V& all, Family family) { return fragment(all, family, true); },
       .late = PDL_VERDICT_late_redirected},
      {.verdict = PDL_VERDICT_stack_options,
       .outcome = "leaves",
       .asked = with_options,
       .late = PDL_VERDICT_late_redirected},
      {.verdict = PDL_VERDICT_stack_options,
       .outcome = "leaves",
       .asked = many_extensions,
       .late = PDL_VERDICT_late_redirected,
       .only = Family::v6},
      {.verdict = PDL_VERDICT_stack_protocol,
       .outcome = "leaves",
       .asked = protocol("sctp", 132, 60),
       .late = PDL_VERDICT_late_redirected},
      {.verdict = PDL_VERDICT_stack_protocol,
       .outcome = "leaves",
       .asked = protocol("253", 253, 0),
       .late = PDL_VERDICT_late_redirected},
      {.verdict = PDL_VERDICT_stack_protocol,
       .outcome = "answered",
       .asked = protocol("esp", 50, 1400),
       .late = PDL_VERDICT_late_too_big},
  };
  return rows;
}

std::vector<Row> later_stages() {
  using V = VerdictLab;
  const auto row = [](Stage stage, pdl_verdict verdict, const char* outcome,
                      std::function<Asked(const V&, Family)> asked, std::optional<pdl_verdict> late = {}) {
    return Row{.verdict = verdict, .outcome = outcome, .asked = std::move(asked), .late = late, .stage = stage};
  };
  const auto fast = plain(&V::fast, outside);
  const auto netfilter = plain(&V::netfilter, outside);
  return {
      row(Stage::natted, PDL_VERDICT_stack_nat, "leaves", answer_of_node_port(1), PDL_VERDICT_late_passed),
      row(Stage::natted, PDL_VERDICT_stack_nat, "leaves", answer_of_node_port(2), PDL_VERDICT_late_node),
      row(Stage::natted, PDL_VERDICT_stack_nat, "leaves", by_port_of_call, PDL_VERDICT_late_redirected),
      row(Stage::gateway_silent, PDL_VERDICT_gateway_silent, "leaves", fast),
      row(Stage::gateway_silent, PDL_VERDICT_stack_netfilter, "leaves", netfilter, PDL_VERDICT_late_gateway_silent),
      row(Stage::homes_down, PDL_VERDICT_uplink_down, "dropped", fast),
      row(Stage::homes_down, PDL_VERDICT_stack_netfilter, "dropped", netfilter, PDL_VERDICT_late_uplink_down),
      row(Stage::homes_down, PDL_VERDICT_uplink_down_stack, "leaves", plain(&V::guest, outside),
          PDL_VERDICT_late_uplink_down_stack),
  };
}

}  // namespace

std::vector<Row> rows_out() {
  std::vector<Row> rows = well();
  std::ranges::copy(later_stages(), std::back_inserter(rows));
  return rows;
}

}  // namespace poduplink::harness
