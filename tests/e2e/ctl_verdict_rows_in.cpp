// SPDX-License-Identifier: Apache-2.0
// What arrives on uplinks: verdicts of uplink_ingress.
#include <iterator>

#include "tests/e2e/ctl_verdicts.h"

namespace poduplink::harness {

using namespace poduplink::tests;

namespace {

using Layers = std::vector<Layer>;
using Options = std::vector<std::string>;

constexpr std::uint16_t sport = 40000;
constexpr std::uint16_t dport = listening_port;
constexpr unsigned home = 2;

Layers udp() { return {Udp{sport, dport}, Raw(60)}; }

struct Arrival {
  IpAddress self;
  IpAddress peer;
  unsigned uplink = home;
  Options options;
  Layers behind = udp();
  std::function<void(Ip&)> change;
};

Asked arriving(const Arrival& arrival) {
  Ip ip{.src = arrival.peer, .dst = arrival.self, .dont_fragment = true};
  if (arrival.change) arrival.change(ip);
  Asked asked{.self = arrival.self, .peer = arrival.peer, .options = {"--inbound"}, .gateway = arrival.uplink};
  if (arrival.uplink != home)
    asked.options.insert(asked.options.end(), {"--uplink", formatted("eth{}", arrival.uplink)});
  std::ranges::copy(arrival.options, std::back_inserter(asked.options));
  asked.layers = {ip};
  std::ranges::copy(arrival.behind, std::back_inserter(asked.layers));
  return asked;
}

// UDP for the fast pod from what `peer` says, or from the outside.
Asked from(const VerdictLab& all, const IpAddress& peer) {
  return arriving({.self = address_of(all.fast, peer.family()), .peer = peer});
}

auto from_outside(unsigned uplink, const Options& options = {}, const std::function<void(Ip&)>& change = {}) {
  return [=](const VerdictLab& all, Family family) {
    return arriving({.self = address_of(all.fast, family),
                     .peer = Outside::address(family),
                     .uplink = uplink,
                     .options = options,
                     .change = change});
  };
}

// Time exceeded by a router outside about the pod's packet to `peer`; `quoted` stands for the pod there.
Asked error_about(const VerdictLab& all, const IpAddress& peer, std::optional<IpAddress> quoted) {
  const Family family = peer.family();
  const IpAddress router = Outside::address(family);
  const IpAddress self = address_of(all.fast, family);
  const Icmp exceeded{static_cast<std::uint8_t>(family == Family::v4 ? 11 : 3)};
  Arrival arrival{.self = self, .peer = peer, .options = {"--icmp-error", "--from", router.text()}};
  if (quoted) arrival.options.insert(arrival.options.end(), {"--quoting", quoted->text()});
  arrival.behind = {exceeded, Ip{.src = quoted.value_or(self), .dst = peer}, Udp{dport, sport}};
  arrival.change = [=](Ip& ip) { ip.src = router; };
  return arriving(arrival);
}

// The gateway of an uplink asks who has the pod's address.
Asked asked_by_gateway(const VerdictLab& all, Family family, unsigned uplink) {
  const Uplink link = all.lab->uplink(uplink);
  const IpAddress self = address_of(all.fast, family);
  const IpAddress gateway = family == Family::v4 ? link.gateway4() : link.gateway6();
  Asked asked = arriving({.self = self, .peer = gateway, .uplink = uplink, .options = {"--neighbour"}});
  ask_neighbour(asked, gateway, link.gateway_mac(), self);
  return asked;
}

Asked fragment(const VerdictLab& all, Family family) {
  Arrival arrival{.self = address_of(all.fast, family), .peer = Outside::address(family)};
  arrival.options = {"--fragment", "first"};
  if (family == Family::v6) arrival.behind.insert(arrival.behind.begin(), Fragment{.offset = 0, .more = true});
  arrival.change = [](Ip& ip) {
    ip.dont_fragment = false;
    ip.more_fragments = true;
  };
  return arriving(arrival);
}

Asked with_options(const VerdictLab& all, Family family) {
  Arrival arrival{.self = address_of(all.fast, family), .peer = Outside::address(family), .options = {"--options"}};
  if (family == Family::v6) arrival.behind.insert(arrival.behind.begin(), Extension{43});
  arrival.change = [](Ip& ip) { ip.option_words = 1; };
  return arriving(arrival);
}

Asked other_protocol(const VerdictLab& all, Family family) {
  return arriving({.self = address_of(all.fast, family),
                   .peer = Outside::address(family),
                   .options = {"--proto", "sctp"},
                   .behind = {Raw(60)},
                   .change = [](Ip& ip) { ip.protocol = 132; }});
}

Asked for_nobody(const VerdictLab& all, Family family) {
  Asked asked = arriving({.self = address_of(all.lab->uplink(home), family),
                          .peer = Outside::address(family),
                          .options = {"--uplink", "eth2"}});
  return asked;
}

Asked tagged(const VerdictLab& all, Family family) {
  Asked asked = from_outside(home, {"--vlan", "5"})(all, family);
  asked.layers.insert(asked.layers.begin(), Vlan{5});
  return asked;
}

Asked to_another_mac(const VerdictLab& all, Family family) {
  Asked asked = from_outside(home, {"--to-mac", "02:00:00:00:99:99"})(all, family);
  asked.to_mac = mac("02:00:00:00:99:99");
  return asked;
}

// The server's answer to the pod's call of the service.
Asked answer_of_service(const VerdictLab& all, Family family) {
  Asked asked = arriving({.self = address_of(all.fast, family),
                          .peer = server_address(family),
                          .options = {"--sport", std::to_string(server_port), "--dport", std::to_string(calling_port)},
                          .behind = {Udp{server_port, calling_port}, Raw(60)}});
  asked.leaves_as = {service_address(family), asked.self};
  return asked;
}

auto peer(const char* v4, const char* v6) {
  return [=](const VerdictLab& all, Family family) { return from(all, of_family(family, v4, v6)); };
}

}  // namespace

std::vector<Row> rows_in() {
  using V = VerdictLab;
  return {
      {PDL_VERDICT_in_redirected, "delivered", from_outside(home)},
      {PDL_VERDICT_in_redirected, "delivered",
       [](const V& all, Family family) { return error_about(all, Outside::address(family), {}); }},
      {PDL_VERDICT_in_other_uplink, "delivered", from_outside(1)},
      {PDL_VERDICT_in_neighbour, "answered",
       [](const V& all, Family family) { return asked_by_gateway(all, family, home); }},
      {.verdict = PDL_VERDICT_in_not_ip,
       .outcome = "host",
       .asked = [](const V& all, Family family) { return asked_by_gateway(all, family, 1); },
       .only = Family::v4},
      {PDL_VERDICT_in_vlan, "host", tagged},
      {PDL_VERDICT_in_foreign_mac, "dropped", to_another_mac},
      {PDL_VERDICT_in_no_pod, "host", for_nobody},
      {PDL_VERDICT_in_malformed, "dropped",
       [](const V& all, Family family) {
         return error_about(all, Outside::address(family), address_of(all.other, family));
       }},
      {PDL_VERDICT_martian, "dropped",
       [](const V& all, Family family) { return from(all, address_of(all.lab->uplink(1), family)); }},
      {PDL_VERDICT_in_strict, "dropped", from_outside(3)},
      {PDL_VERDICT_in_from_pod, "delivered",
       [](const V& all, Family family) { return from(all, address_of(all.other, family)); }},
      {PDL_VERDICT_in_ttl, "answered", from_outside(home, {"--ttl", "1"}, [](Ip& ip) { ip.ttl = 1; })},
      {PDL_VERDICT_in_stack_node, "delivered",
       [](const V& all, Family family) { return error_about(all, address_of(all.lab->uplink(1), family), {}); }},
      {.verdict = PDL_VERDICT_in_stack_link_local,
       .outcome = "delivered",
       .asked = peer("169.254.7.7", ""),
       .only = Family::v4},
      {.verdict = PDL_VERDICT_in_stack_link_local,
       .outcome = "dropped",
       .asked = peer("", "fe80::7"),
       .only = Family::v6},
      {PDL_VERDICT_in_stack_multicast, "delivered",
       [](const V& all, Family family) { return error_about(all, of_family(family, "224.0.0.5", "ff0e::5"), {}); }},
      {.verdict = PDL_VERDICT_in_stack_broadcast,
       .outcome = "delivered",
       .asked = peer("10.2.255.255", ""),
       .only = Family::v4},
      {PDL_VERDICT_in_stack_exempt, "delivered", peer("10.96.0.17", "fd00:96::17")},
      {PDL_VERDICT_in_stack_netfilter, "delivered",
       [](const V& all, Family family) {
         return arriving({.self = address_of(all.netfilter, family), .peer = Outside::address(family)});
       }},
      {PDL_VERDICT_in_stack_fragment, "delivered", fragment},
      {PDL_VERDICT_in_stack_options, "delivered", with_options},
      {PDL_VERDICT_in_stack_protocol, "delivered", other_protocol},
      {.verdict = PDL_VERDICT_in_stack_nat, .outcome = "delivered", .asked = answer_of_service, .stage = Stage::natted},
  };
}

}  // namespace poduplink::harness
