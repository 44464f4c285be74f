// SPDX-License-Identifier: Apache-2.0
// The built object itself: does its BTF say what maps/abi.h says to C++, and does it load as the loader needs it?
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>

#include "datapath.skel.h"
#include "tests/bpf/world.h"

namespace poduplink::tests {
namespace {

struct Closer {
  void operator()(pdl_datapath* skeleton) const { pdl_datapath__destroy(skeleton); }
};
using Skeleton = std::unique_ptr<pdl_datapath, Closer>;

Skeleton open_object() {
  Skeleton skeleton(pdl_datapath__open());
  REQUIRE(skeleton != nullptr);
  return skeleton;
}

struct Member {
  std::string name;
  std::size_t offset;
  std::size_t size;
};

struct Struct {
  std::string name;
  std::size_t size;
  std::vector<Member> members;
};

#define FIELD(type, name) \
  Member { #name, offsetof(type, name), sizeof(type::name) }

// Every struct of maps/abi.h, field by field, as this compiler lays it out.
std::vector<Struct> structs() {
  std::vector<Struct> all{
      {"pdl_addr4", sizeof(pdl_addr4), {FIELD(pdl_addr4, addr)}},
      {"pdl_addr6", sizeof(pdl_addr6), {FIELD(pdl_addr6, addr)}},
      {"pdl_pod",
       sizeof(pdl_pod),
       {FIELD(pdl_pod, owner), FIELD(pdl_pod, home), FIELD(pdl_pod, veth), FIELD(pdl_pod, mtu),
        FIELD(pdl_pod, gateway4), FIELD(pdl_pod, gateway6), FIELD(pdl_pod, gateway_mac), FIELD(pdl_pod, pod_mac),
        FIELD(pdl_pod, prefix_len), FIELD(pdl_pod, mode), FIELD(pdl_pod, flags), FIELD(pdl_pod, pad)}},
      {"pdl_node",
       sizeof(pdl_node),
       {FIELD(pdl_node, ifindex), FIELD(pdl_node, gateway4), FIELD(pdl_node, gateway6), FIELD(pdl_node, prefix_len),
        FIELD(pdl_node, pad)}},
      {"pdl_link_local",
       sizeof(pdl_link_local),
       {FIELD(pdl_link_local, addr), FIELD(pdl_link_local, prefix_len), FIELD(pdl_link_local, pad)}},
      {"pdl_uplink",
       sizeof(pdl_uplink),
       {FIELD(pdl_uplink, name), FIELD(pdl_uplink, mtu), FIELD(pdl_uplink, mac), FIELD(pdl_uplink, role),
        FIELD(pdl_uplink, state), FIELD(pdl_uplink, when_down), FIELD(pdl_uplink, flags),
        FIELD(pdl_uplink, link_local_count), FIELD(pdl_uplink, pad), FIELD(pdl_uplink, gateway4),
        FIELD(pdl_uplink, gateway6), FIELD(pdl_uplink, link_local)}},
      {"pdl_prefix4", sizeof(pdl_prefix4), {FIELD(pdl_prefix4, prefix_len), FIELD(pdl_prefix4, addr)}},
      {"pdl_prefix6", sizeof(pdl_prefix6), {FIELD(pdl_prefix6, prefix_len), FIELD(pdl_prefix6, addr)}},
      {"pdl_exempt", sizeof(pdl_exempt), {FIELD(pdl_exempt, item)}},
      {"pdl_uplink_stats",
       sizeof(pdl_uplink_stats),
       {FIELD(pdl_uplink_stats, out_packets), FIELD(pdl_uplink_stats, out_bytes), FIELD(pdl_uplink_stats, in_packets),
        FIELD(pdl_uplink_stats, in_bytes), FIELD(pdl_uplink_stats, out_redirects),
        FIELD(pdl_uplink_stats, late_redirects), FIELD(pdl_uplink_stats, in_redirects)}},
      {"pdl_event",
       sizeof(pdl_event),
       {FIELD(pdl_event, time_ns), FIELD(pdl_event, ifindex), FIELD(pdl_event, length), FIELD(pdl_event, sport),
        FIELD(pdl_event, dport), FIELD(pdl_event, verdict), FIELD(pdl_event, family), FIELD(pdl_event, protocol),
        FIELD(pdl_event, pad), FIELD(pdl_event, src), FIELD(pdl_event, dst)}},
      {"pdl_flow",
       sizeof(pdl_flow),
       {FIELD(pdl_flow, pod), FIELD(pdl_flow, peer), FIELD(pdl_flow, generation), FIELD(pdl_flow, pod_port),
        FIELD(pdl_flow, peer_port), FIELD(pdl_flow, protocol), FIELD(pdl_flow, family), FIELD(pdl_flow, pad)}},
      {"pdl_judged",
       sizeof(pdl_judged),
       {FIELD(pdl_judged, time_ns), FIELD(pdl_judged, outside), FIELD(pdl_judged, pad)}},
      {"pdl_generation", sizeof(pdl_generation), {FIELD(pdl_generation, number)}},
      {"pdl_config",
       sizeof(pdl_config),
       {FIELD(pdl_config, conntrack), FIELD(pdl_config, steer_node), FIELD(pdl_config, pad)}},
  };
  Struct verdicts{"pdl_verdicts", sizeof(pdl_verdicts), {}};
#define PDL_X(name, text) verdicts.members.push_back(FIELD(pdl_verdicts, name));
  PDL_VERDICTS(PDL_X)
#undef PDL_X
  all.push_back(verdicts);
  return all;
}

void check_struct(const btf* types, const Struct& expected) {
  INFO("struct " << expected.name);
  const int id = btf__find_by_name_kind(types, expected.name.c_str(), BTF_KIND_STRUCT);
  REQUIRE(id > 0);
  const btf_type* type = btf__type_by_id(types, static_cast<__u32>(id));
  CHECK(type->size == expected.size);
  REQUIRE(btf_vlen(type) == expected.members.size());
  std::size_t end = 0;
  for (__u16 i = 0; i < btf_vlen(type); ++i) {
    const Member& member = expected.members.at(i);
    const btf_member* found = btf_members(type) + i;
    INFO("member " << member.name);
    CHECK(btf__name_by_offset(types, found->name_off) == member.name);
    CHECK(btf_member_bit_offset(type, i) == member.offset * 8);
    CHECK(btf__resolve_size(types, found->type) == static_cast<__s64>(member.size));
    // No padding but what is written down as such.
    CHECK(member.offset == end);
    end = member.offset + member.size;
  }
  CHECK(end == expected.size);
}

std::string type_name(const btf* types, __u32 id) {
  const btf_type* type = btf__type_by_id(types, id);
  return type == nullptr ? "" : btf__name_by_offset(types, type->name_off);
}

bool calls_conntrack(const pdl_datapath* skeleton) {
  // The verifier has turned every call of a kernel function into an address; BTF ids are what it came from. In
  // the instructions that the kernel gives back such a call has source register BPF_PSEUDO_KFUNC_CALL.
  bpf_prog_info info{};
  __u32 size = sizeof(info);
  const int fd = bpf_program__fd(skeleton->progs.pod_egress);
  REQUIRE(bpf_prog_get_info_by_fd(fd, &info, &size) == 0);
  std::vector<bpf_insn> instructions(info.xlated_prog_len / sizeof(bpf_insn));
  const __u32 length = info.xlated_prog_len;
  info = {};
  info.xlated_prog_len = length;
  info.xlated_prog_insns = reinterpret_cast<std::uintptr_t>(instructions.data());  // NOLINT
  size = sizeof(info);
  REQUIRE(bpf_prog_get_info_by_fd(fd, &info, &size) == 0);
  return std::ranges::any_of(instructions, [](const bpf_insn& instruction) {
    return instruction.code == (BPF_JMP | BPF_CALL) && instruction.src_reg == BPF_PSEUDO_KFUNC_CALL;
  });
}

}  // namespace

TEST_CASE("the object's BTF lays every struct out as C++ does") {
  const Skeleton skeleton = open_object();
  const btf* types = bpf_object__btf(skeleton->obj);
  REQUIRE(types != nullptr);
  for (const Struct& expected : structs()) check_struct(types, expected);
}

TEST_CASE("every pinned map has BTF for its key and value, and a name of at most 15 characters") {
  const std::map<std::string, std::pair<std::string, std::string>> expected{
      {"pods4", {"pdl_addr4", "pdl_pod"}},
      {"pods6", {"pdl_addr6", "pdl_pod"}},
      {"nodes4", {"pdl_addr4", "pdl_node"}},
      {"nodes6", {"pdl_addr6", "pdl_node"}},
      {"uplinks", {"__u32", "pdl_uplink"}},
      {"exempt4", {"pdl_prefix4", "pdl_exempt"}},
      {"exempt6", {"pdl_prefix6", "pdl_exempt"}},
      {"fastflows", {"pdl_flow", "pdl_judged"}},
      {"generation", {"__u32", "pdl_generation"}},
      {"verdicts", {"__u32", "pdl_verdicts"}},
      {"uplink_stats", {"__u32", "pdl_uplink_stats"}}};
  const Skeleton skeleton = open_object();
  const btf* types = bpf_object__btf(skeleton->obj);
  std::size_t seen = 0;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, skeleton->obj) {
    const std::string name = bpf_map__name(map);
    INFO("map " << name);
    if (bpf_map__is_internal(map)) continue;
    CHECK(name.size() <= 15);
    // Pin paths are the loader's business.
    CHECK(bpf_map__pin_path(map) == nullptr);
    if (name == "events") {
      // The kernel takes no BTF for a ring buffer.
      CHECK(bpf_map__type(map) == BPF_MAP_TYPE_RINGBUF);
      continue;
    }
    REQUIRE(expected.contains(name));
    CHECK(type_name(types, bpf_map__btf_key_type_id(map)) == expected.at(name).first);
    CHECK(type_name(types, bpf_map__btf_value_type_id(map)) == expected.at(name).second);
    ++seen;
  }
  CHECK(seen == expected.size());
}

TEST_CASE("the kernel keeps the maps' BTF") {
  if (geteuid() != 0) SKIP("loading BPF programs needs root");
  const Skeleton skeleton = open_object();
  REQUIRE(pdl_datapath__load(skeleton.get()) == 0);
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, skeleton->obj) {
    INFO("map " << bpf_map__name(map));
    bpf_map_info info{};
    __u32 size = sizeof(info);
    REQUIRE(bpf_map_get_info_by_fd(bpf_map__fd(map), &info, &size) == 0);
    if (bpf_map__is_internal(map) || info.type == BPF_MAP_TYPE_RINGBUF) continue;
    CHECK(info.btf_id != 0);
    CHECK(info.btf_key_type_id != 0);
    CHECK(info.btf_value_type_id != 0);
  }
}

TEST_CASE("the loaded program asks conntrack where the loader says so, and else holds no such call") {
  if (geteuid() != 0) SKIP("loading BPF programs needs root");
  for (const bool ask : {true, false}) {
    const Skeleton skeleton = open_object();
    skeleton->rodata->config.conntrack = ask ? 1 : 0;
    REQUIRE(pdl_datapath__load(skeleton.get()) == 0);
    CHECK(calls_conntrack(skeleton.get()) == ask);
  }
}

TEST_CASE("the verifier walks far less than its limit of a million instructions") {
  if (geteuid() != 0) SKIP("loading BPF programs needs root");
  const Skeleton skeleton = open_object();
  skeleton->rodata->config.conntrack = 1;
  skeleton->rodata->config.steer_node = 1;
  REQUIRE(pdl_datapath__load(skeleton.get()) == 0);
  for (const bpf_program* program :
       {skeleton->progs.pod_egress, skeleton->progs.uplink_ingress, skeleton->progs.uplink_egress}) {
    bpf_prog_info info{};
    __u32 size = sizeof(info);
    REQUIRE(bpf_prog_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0);
    WARN(bpf_program__name(program) << ": " << info.verified_insns << " verified instructions, "
                                    << info.xlated_prog_len / sizeof(bpf_insn) << " in the program");
    CHECK(info.verified_insns < 250'000);
  }
}

}  // namespace poduplink::tests
