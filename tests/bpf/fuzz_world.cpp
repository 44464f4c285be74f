// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/fuzz_world.h"

#include <netinet/in.h>

#include <string>

#include "tests/bpf/conntrack.h"

namespace poduplink::tests {
namespace {

// Entries of the uplink map alone, no devices.
enum FuzzUplink : unsigned {
  kSmall = 911,
  kTiny = 912,
  kUnsized = 913,
  kDownClaims = 914,
  kDownStackSmall = 915,
  kDownTransit = 916,
  kTiniest = 917,
};

// Host number `host` of the crooked pods' subnet 10.20.0.0/16 or fd00:20::/64.
IpAddress crooked(Family family, unsigned third, unsigned host) {
  if (family == Family::v4) return ip("10.20." + std::to_string(third) + "." + std::to_string(host));
  return ip("fd00:20::" + std::to_string(third) + ":" + std::to_string(host));
}

void put_uplinks(const Datapath& datapath) {
  const Prefix all(ip("169.254.0.0"), 16);
  // A transit device is nobody's home, whatever its entry says besides.
  datapath.put(UplinkSpec{.ifindex = kTransit,
                          .role = PDL_ROLE_TRANSIT,
                          .when_down = PDL_WHEN_DOWN_STACK,
                          .flags = PDL_UPLINK_ANSWER_NEIGHBOURS,
                          .link_local = {all}});
  datapath.put(UplinkSpec{.ifindex = kStrict, .flags = PDL_UPLINK_STRICT | PDL_UPLINK_ANSWER_NEIGHBOURS});
  datapath.put(UplinkSpec{
      .ifindex = kSmall, .mtu = 600, .link_local = {Prefix(ip("169.254.16.0"), 20), Prefix(ip("169.254.9.9"), 32)}});
  datapath.put(UplinkSpec{.ifindex = kTiny, .mtu = 1300});
  datapath.put(UplinkSpec{.ifindex = kTiniest, .mtu = 90});
  datapath.put(UplinkSpec{.ifindex = kUnsized, .mtu = 0});
  datapath.put(UplinkSpec{
      .ifindex = kDownClaims, .state = PDL_STATE_DOWN, .mtu = 600, .link_local = {Prefix(ip("169.254.9.0"), 24)}});
  datapath.put(
      UplinkSpec{.ifindex = kDownStackSmall, .state = PDL_STATE_DOWN, .when_down = PDL_WHEN_DOWN_STACK, .mtu = 600});
  datapath.put(UplinkSpec{
      .ifindex = kDownTransit, .role = PDL_ROLE_TRANSIT, .state = PDL_STATE_DOWN, .when_down = PDL_WHEN_DOWN_STACK});
}

void put_pods(const Datapath& datapath, Family family) {
  const Addresses& a = addresses(family);
  unsigned host = 10;
  const auto pod = [&](unsigned veth, unsigned home, pdl_mode mode = PDL_MODE_FAST) {
    return PodSpec{crooked(family, 0, ++host), veth, home, a.pod_gateway, true, mode};
  };
  for (const unsigned home : {kSmall, kTiny, kTiniest, kUnsized, kDownClaims, kDownStackSmall, kDownTransit}) {
    datapath.put(pod(kVethA, home));
    datapath.put(pod(kVethN, home, PDL_MODE_NETFILTER));
  }
  for (const unsigned home : {0U, unsigned{kAbsent}, unsigned{kTransit}, unsigned{kStrict}, unsigned{kDown}}) {
    datapath.put(pod(kVethN, home, PDL_MODE_NETFILTER));
  }
  datapath.put(pod(kVethB, kStrict));
  PodSpec spec = pod(kVethA, kTiny);
  spec.on_link = false;
  datapath.put(spec);
  for (const bool on_link : {false, true}) {
    spec = pod(kVethA, kSmall);
    spec.gateway.reset();
    spec.on_link = on_link;
    datapath.put(spec);
  }
  // Subnets of every size.
  for (const unsigned host_bits : {0U, 1U, 2U, 8U, 31U, 32U}) {
    spec = pod(kVethA, kUplink1);
    spec.prefix_len = spec.address.bits() - host_bits;
    datapath.put(spec);
  }
  // Pods whose addresses are something else besides.
  const bool v4 = family == Family::v4;
  for (const IpAddress& address :
       {ip(v4 ? "10.96.0.77" : "fd00:96::77"), ip(v4 ? "169.254.20.20" : "fe80::77"), crooked(family, 1, 1)}) {
    datapath.put(PodSpec{address, kVethA, kUplink1, a.pod_gateway});
  }
}

void put_nodes(const Datapath& datapath, Family family) {
  const Addresses& a = addresses(family);
  unsigned host = 0;
  for (const unsigned uplink : {kSmall, kTiny, kTiniest, kUnsized, kDownClaims, kDownStackSmall, kDownTransit}) {
    datapath.put(NodeSpec{crooked(family, 1, ++host), uplink, a.pod_gateway});
  }
  for (const unsigned uplink : {unsigned{kAbsent}, unsigned{kTransit}, unsigned{kDown}, unsigned{kDownStack}}) {
    datapath.put(NodeSpec{crooked(family, 1, ++host), uplink, a.pod_gateway});
  }
  for (const unsigned host_bits : {0U, 1U, 2U, 8U}) {
    const IpAddress address = crooked(family, 1, ++host);
    datapath.put(NodeSpec{address, kSmall, std::nullopt, address.bits() - host_bits});
  }
  datapath.put(NodeSpec{crooked(family, 1, ++host), kTiny, ip("fe80::1")});
  if (family == Family::v6) datapath.put(NodeSpec{ip("fe80::abcd"), kUplink1, a.pod_gateway});
}

void put_exempt(const Datapath& datapath) {
  for (const char* prefix : {"10.96.5.0/24", "198.51.100.128/25", "10.20.2.0/24", "10.20.3.3/32", "fd00:20::2:0/112",
                             "2001:db8:e::/48", "fd00:20::3:3/128"}) {
    datapath.put_exempt(Prefix::parse(prefix).value());
  }
}

struct Nated {
  FlowTuple original, reply;
};

// A pod's TCP flow whose destination the host changed; a NodePort flow; a flow of which one port alone was changed.
std::vector<Nated> nated_flows(Family family) {
  const Addresses& a = addresses(family);
  return {{{IPPROTO_TCP, a.pod, a.exempt, 4001, 80}, {IPPROTO_TCP, a.nat_backend, a.pod, 8080, 4001}},
          {{IPPROTO_TCP, a.outside, a.node, 4002, 30080}, {IPPROTO_TCP, a.pod, a.outside, 80, 4002}},
          {{IPPROTO_UDP, a.other, a.outside, 4003, 53}, {IPPROTO_UDP, a.outside, a.other, 53, 4004}},
          {{IPPROTO_UDP, a.down, a.exempt, 4005, 53}, {IPPROTO_UDP, a.on_link, a.down, 53, 4005}}};
}

// And one without NAT, which must count as none.
void fill_conntrack(Family family) {
  const Addresses& a = addresses(family);
  const Conntrack conntrack;
  for (const Nated& flow : nated_flows(family)) conntrack.add(flow.original, flow.reply);
  conntrack.add({IPPROTO_TCP, a.pod, a.outside, 4006, 80}, {IPPROTO_TCP, a.outside, a.pod, 80, 4006});
}

oracle::Tuple tuple_of(const FlowTuple& flow) { return {flow.protocol, flow.src, flow.dst, flow.sport, flow.dport}; }

}  // namespace

void fill_fuzz_world(const Datapath& datapath) {
  static bool tracked = false;
  put_uplinks(datapath);
  put_exempt(datapath);
  for (const Family family : {Family::v4, Family::v6}) {
    put_pods(datapath, family);
    put_nodes(datapath, family);
    if (!tracked) fill_conntrack(family);
  }
  tracked = true;
}

oracle::State fuzz_state(const Datapath& datapath) {
  oracle::State state = oracle::read_state(datapath);
  for (const Family family : {Family::v4, Family::v6}) {
    for (const Nated& flow : nated_flows(family)) add_nated(state, tuple_of(flow.original), tuple_of(flow.reply));
  }
  return state;
}

Pool make_pool(const oracle::State& state, Family family) {
  Pool pool;
  for (const auto& [address, entry] : state.pods) {
    if (address.family() == family) pool.pods.push_back(address);
  }
  for (const auto& [address, entry] : state.nodes) {
    if (address.family() == family) pool.nodes.push_back(address);
  }
  const Addresses& a = addresses(family);
  pool.outside = {a.outside, a.on_link, a.nat_backend, crooked(family, 7, 7), crooked(family, 0, 9)};
  pool.special = {a.exempt,      a.link_local,  a.multicast,           a.loopback,
                  a.unspecified, a.pod_gateway, crooked(family, 2, 9), crooked(family, 3, 3)};
  const auto add = [&](std::initializer_list<const char*> texts) {
    for (const char* text : texts) pool.special.push_back(ip(text));
  };
  if (family == Family::v4) {
    add({"255.255.255.255", "10.1.255.255",    "10.1.0.0",        "10.2.255.255",    "10.20.255.255",
         "10.20.0.255",     "10.20.0.31",      "10.20.0.39",      "127.255.255.255", "127.9.9.9",
         "169.254.1.1",     "169.254.169.254", "169.254.9.9",     "169.254.9.10",    "169.254.17.3",
         "169.254.255.255", "240.0.0.1",       "239.255.255.255", "10.96.5.5",       "198.51.100.200"});
  } else {
    add({"ff02::1", "ff02::1:ff00:5", "ff05::2", "fe80::1", "fe80::2", "febf::1", "fec0::1", "::ffff:10.1.0.5",
         "2001:db8:e::5", "fd00:20::2:77", "fd00:1::ffff:ffff:ffff:ffff", "::2"});
  }
  return pool;
}

}  // namespace poduplink::tests
