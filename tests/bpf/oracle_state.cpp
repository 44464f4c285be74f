// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/oracle_state.h"

#include <bpf/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#include <algorithm>

#include "tests/bpf/oracle_packet.h"

namespace poduplink::tests::oracle {
namespace {

template <typename Key, typename Value, typename Visit>
void each_entry(const Datapath& datapath, const char* map, Visit visit) {
  const int fd = datapath.map_fd(map);
  Key key{};
  const void* previous = nullptr;
  while (bpf_map_get_next_key(fd, previous, &key) == 0) {
    Value value{};
    if (bpf_map_lookup_elem(fd, &key, &value) == 0) visit(key, value);
    previous = &key;
  }
}

template <typename Key, typename Value>
void read_addresses(const Datapath& datapath, const char* map, std::map<IpAddress, Value>& to) {
  each_entry<Key, Value>(datapath, map, [&](const Key& key, const Value& value) {
    to.emplace(IpAddress::from_octets(key.addr).value(), value);
  });
}

template <typename Key>
void read_prefixes(const Datapath& datapath, const char* map, std::vector<Prefix>& to) {
  each_entry<Key, pdl_exempt>(datapath, map, [&](const Key& key, const pdl_exempt&) {
    to.emplace_back(IpAddress::from_octets(key.addr).value(), key.prefix_len);
  });
}

}  // namespace

State read_state(const Datapath& datapath) {
  State state{.config = datapath.config()};
  read_addresses<pdl_addr4>(datapath, "pods4", state.pods);
  read_addresses<pdl_addr6>(datapath, "pods6", state.pods);
  read_addresses<pdl_addr4>(datapath, "nodes4", state.nodes);
  read_addresses<pdl_addr6>(datapath, "nodes6", state.nodes);
  read_prefixes<pdl_prefix4>(datapath, "exempt4", state.exempt);
  read_prefixes<pdl_prefix6>(datapath, "exempt6", state.exempt);
  each_entry<unsigned, pdl_uplink>(
      datapath, "uplinks", [&](unsigned ifindex, const pdl_uplink& uplink) { state.uplinks.emplace(ifindex, uplink); });
  for (const Family family : {Family::v4, Family::v6}) {
    const Addresses& a = addresses(family);
    add_nated(state, {proto_udp, a.pod, a.exempt, nat_port, 53},
              {proto_udp, a.nat_backend, a.pod, backend_port, nat_port});
  }
  return state;
}

void add_nated(State& state, const Tuple& original, const Tuple& reply) {
  state.nated.insert(original);
  state.nated.insert(reply);
}

std::uint16_t protocol_of(const Octets& frame) {
  const std::uint16_t type = word(frame, 12);
  return type >= ETH_P_802_3_MIN ? type : std::uint16_t{ETH_P_802_2};
}

PacketType type_of(const Octets& frame, const MacAddress& device) {
  const MacAddress to = destination_mac(frame);
  if (std::ranges::all_of(to.octets(), [](std::uint8_t octet) { return octet == 0xff; })) return PacketType::broadcast;
  if (to.is_multicast()) return PacketType::multicast;
  return to == device ? PacketType::host : PacketType::other_host;
}

Skb skb_of(const Input& input) {
  return {.frame = input.frame,
          .ifindex = input.ifindex,
          .ingress_ifindex = input.ingress_ifindex,
          .gso_size = input.gso_size,
          .protocol = protocol_of(input.frame),
          .type = type_of(input.frame, mac_of_device(input.ifindex))};
}

int action_of(Ending ending) {
  switch (ending) {
    case Ending::stack:
      return TC_ACT_UNSPEC;
    case Ending::drop:
      return TC_ACT_SHOT;
    default:
      return TC_ACT_REDIRECT;
  }
}

std::uint32_t kind_of(Ending ending) {
  switch (ending) {
    case Ending::redirect_neigh:
      return RECORDED_NEIGH;
    case Ending::redirect_peer:
      return RECORDED_PEER;
    case Ending::redirect:
      return RECORDED_PLAIN;
    default:
      return RECORDED_NONE;
  }
}

}  // namespace poduplink::tests::oracle
