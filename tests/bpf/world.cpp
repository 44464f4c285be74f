// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/world.h"

#include <bpf/bpf.h>
#include <sched.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "datapath.skel.h"
#include "datapath_recorded.skel.h"

namespace poduplink::tests {
namespace {

void shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);  // NOLINT(cert-env33-c)
}

template <std::size_t N>
void set(__u8 (&to)[N], std::span<const std::uint8_t> from) {
  if (from.size() > N) throw std::logic_error("address of another family");
  std::memcpy(to, from.data(), from.size());
}

void check(int error, const char* what) {
  if (error != 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(-error));
}

// Both families under one name: "pods" is pods4 or pods6.
std::string family_map(const char* name, Family family) { return name + std::string(family == Family::v4 ? "4" : "6"); }

struct PodSpec {
  IpAddress address;
  unsigned veth;
  unsigned home;
  IpAddress gateway;
  bool on_link = true;
  pdl_mode mode = PDL_MODE_FAST;
};

pdl_pod pod_entry(const PodSpec& spec) {
  pdl_pod pod{};
  pod.owner = 1;
  pod.home = spec.home;
  pod.veth = spec.veth;
  pod.mtu = uplink_mtu;
  if (spec.gateway.is_v4()) {
    set(pod.gateway4, spec.gateway.octets());
  } else {
    set(pod.gateway6, spec.gateway.octets());
  }
  set(pod.pod_mac, pod_mac(spec.veth).octets());
  pod.prefix_len = spec.address.is_v4() ? 16 : 64;
  pod.mode = spec.mode;
  pod.flags = spec.on_link ? PDL_POD_ON_LINK : 0;
  return pod;
}

pdl_uplink uplink_entry(unsigned ifindex, pdl_role role, pdl_state state, pdl_when_down when_down, __u8 flags) {
  pdl_uplink uplink{};
  std::snprintf(uplink.name, sizeof(uplink.name), "up%u", ifindex);
  uplink.mtu = uplink_mtu;
  set(uplink.mac, device_mac(ifindex).octets());
  uplink.role = role;
  uplink.state = state;
  uplink.when_down = when_down;
  uplink.flags = flags;
  return uplink;
}

// conntrack(8) makes entries with any pair of tuples, which is all that the programs look at.
void fill_conntrack(const Addresses& a) {
  const auto entry = [&](std::uint16_t port, const IpAddress& to, std::uint16_t to_port) {
    shell("conntrack -I -p udp -t 600 -s " + a.pod.text() + " -d " + to.text() + " --sport " + std::to_string(port) +
          " --dport " + std::to_string(to_port) + " -r " + a.nat_backend.text() + " -q " + a.pod.text() +
          " --reply-port-src " + std::to_string(backend_port) + " --reply-port-dst " + std::to_string(port) +
          " >/dev/null 2>&1");
  };
  entry(nat_port, a.exempt, 53);
  entry(plain_port, a.nat_backend, backend_port);
}

void make_veth(const std::string& name, unsigned index, const MacAddress& mac) {
  shell("ip link add name " + name + " index " + std::to_string(index) + " address " + mac.text() +
        " type veth peer name " + name + "p index " + std::to_string(index + 100));
  shell("ip link set " + name + " up && ip link set " + name + "p up");
}

template <typename Skeleton, typename Open, typename Load>
Skeleton* load(const Config& config, Open open, Load load_it) {
  Skeleton* skeleton = open();
  if (skeleton == nullptr) throw std::runtime_error("opening the object");
  skeleton->rodata->config.conntrack = config.conntrack ? 1 : 0;
  skeleton->rodata->config.steer_node = config.steer_node ? 1 : 0;
  check(load_it(skeleton), "loading the object");
  return skeleton;
}

}  // namespace

MacAddress host_mac() { return MacAddress{std::array<std::uint8_t, 6> PDL_HOST_MAC}; }
MacAddress pod_mac(unsigned veth) { return MacAddress{{0x02, 0xaa, 0, 0, 0, static_cast<std::uint8_t>(veth)}}; }
MacAddress device_mac(unsigned device) {
  return MacAddress{{0x02, 0xbb, 0, 0, static_cast<std::uint8_t>(device >> 8U), static_cast<std::uint8_t>(device)}};
}
MacAddress router_mac() { return mac("02:cc:00:00:00:01"); }

IpAddress rfc5549_pod() { return ip("10.1.0.7"); }

const Addresses& addresses(Family family) {
  static const Addresses v4{.pod = ip("10.1.0.5"),
                            .pod_gateway = ip("10.1.0.1"),
                            .strict_subnet_pod = ip("10.1.0.8"),
                            .other = ip("10.2.0.5"),
                            .other_gateway = ip("10.2.0.1"),
                            .netfilter = ip("10.1.0.6"),
                            .down = ip("10.3.0.5"),
                            .down_stack = ip("10.4.0.5"),
                            .homeless = ip("10.5.0.5"),
                            .absent = ip("10.6.0.5"),
                            .on_transit = ip("10.7.0.5"),
                            .node = ip("10.1.0.10"),
                            .other_node = ip("10.2.0.10"),
                            .docker_node = ip("172.17.0.1"),
                            .plain_node = ip("10.8.0.10"),
                            .exempt = ip("10.96.0.1"),
                            .outside = ip("198.51.100.9"),
                            .on_link = ip("10.1.7.7"),
                            .link_local = ip("169.254.9.9"),
                            .multicast = ip("224.0.0.251"),
                            .loopback = ip("127.0.0.1"),
                            .unspecified = ip("0.0.0.0"),
                            .nat_backend = ip("203.0.113.7")};
  static const Addresses v6{.pod = ip("fd00:1::5"),
                            .pod_gateway = ip("fe80::1"),
                            .strict_subnet_pod = ip("fd00:1::8"),
                            .other = ip("fd00:2::5"),
                            .other_gateway = ip("fd00:2::1"),
                            .netfilter = ip("fd00:1::6"),
                            .down = ip("fd00:3::5"),
                            .down_stack = ip("fd00:4::5"),
                            .homeless = ip("fd00:5::5"),
                            .absent = ip("fd00:6::5"),
                            .on_transit = ip("fd00:7::5"),
                            .node = ip("fd00:1::10"),
                            .other_node = ip("fd00:2::10"),
                            .docker_node = ip("fd00:17::1"),
                            .plain_node = ip("fd00:8::10"),
                            .exempt = ip("fd00:96::1"),
                            .outside = ip("2001:db8::9"),
                            .on_link = ip("fd00:1::7:7"),
                            .link_local = ip("fe80::9"),
                            .multicast = ip("ff02::fb"),
                            .loopback = ip("::1"),
                            .unspecified = ip("::"),
                            .nat_backend = ip("2001:db8:7::7")};
  return family == Family::v4 ? v4 : v6;
}

std::string program_name(Program program) {
  switch (program) {
    case Program::pod_egress:
      return "pod_egress";
    case Program::uplink_ingress:
      return "uplink_ingress";
    case Program::uplink_egress:
      return "uplink_egress";
  }
  return {};
}

void enter_world() {
  static bool entered = false;
  if (entered) return;
  if (unshare(CLONE_NEWNET) != 0) throw std::runtime_error("unshare(CLONE_NEWNET)");
  shell("ip link set lo up");
  make_veth("vetha", kVethA, host_mac());
  make_veth("vethb", kVethB, host_mac());
  make_veth("vethn", kVethN, host_mac());
  for (const unsigned uplink : {kUplink1, kUplink2, kTransit, kStrict}) {
    make_veth("up" + std::to_string(uplink), uplink, device_mac(uplink));
  }
  fill_conntrack(addresses(Family::v4));
  fill_conntrack(addresses(Family::v6));
  entered = true;
}

Datapath::Datapath(const Config& config, bool recorded) : recorded_(recorded) {
  enter_world();
  if (recorded) {
    auto* skeleton = load<pdl_recorded>(
        config, [] { return pdl_recorded__open(); }, [](pdl_recorded* it) { return pdl_recorded__load(it); });
    skeleton_ = skeleton;
    object_ = skeleton->obj;
    destroy_ = [](void* it) { pdl_recorded__destroy(static_cast<pdl_recorded*>(it)); };
  } else {
    auto* skeleton = load<pdl_datapath>(
        config, [] { return pdl_datapath__open(); }, [](pdl_datapath* it) { return pdl_datapath__load(it); });
    skeleton_ = skeleton;
    object_ = skeleton->obj;
    destroy_ = [](void* it) { pdl_datapath__destroy(static_cast<pdl_datapath*>(it)); };
  }
  fill();
}

Datapath::~Datapath() { destroy_(skeleton_); }

int Datapath::map_fd(const char* name) const { return bpf_object__find_map_fd_by_name(object_, name); }

int Datapath::program_fd(Program program) const {
  return bpf_program__fd(bpf_object__find_program_by_name(object_, program_name(program).c_str()));
}

void Datapath::fill() const {
  const auto put = [&](const std::string& map, const void* key, const void* value) {
    check(bpf_map_update_elem(map_fd(map.c_str()), key, value, BPF_ANY), map.c_str());
  };
  const auto put_pod = [&](const PodSpec& spec) {
    const pdl_pod pod = pod_entry(spec);
    put(family_map("pods", spec.address.family()), spec.address.octets().data(), &pod);
  };
  const auto put_node = [&](const IpAddress& address, unsigned ifindex, const std::optional<IpAddress>& gateway) {
    pdl_node node{};
    node.ifindex = ifindex;
    node.prefix_len = address.is_v4() ? 16 : 64;
    if (gateway && gateway->is_v4()) set(node.gateway4, gateway->octets());
    if (gateway && gateway->is_v6()) set(node.gateway6, gateway->octets());
    put(family_map("nodes", address.family()), address.octets().data(), &node);
  };
  const auto put_uplink = [&](unsigned ifindex, const pdl_uplink& uplink) { put("uplinks", &ifindex, &uplink); };

  for (const Family family : {Family::v4, Family::v6}) {
    const Addresses& a = addresses(family);
    put_pod({a.pod, kVethA, kUplink1, a.pod_gateway});
    put_pod({a.strict_subnet_pod, kVethA, kUplink1, a.pod_gateway, false});
    put_pod({a.other, kVethB, kUplink2, a.other_gateway});
    put_pod({a.netfilter, kVethN, kUplink1, a.pod_gateway, true, PDL_MODE_NETFILTER});
    put_pod({a.down, kVethA, kDown, a.pod_gateway});
    put_pod({a.down_stack, kVethA, kDownStack, a.pod_gateway});
    put_pod({a.homeless, kVethA, 0, a.pod_gateway});
    put_pod({a.absent, kVethA, kAbsent, a.pod_gateway});
    put_pod({a.on_transit, kVethA, kTransit, a.pod_gateway});
    put_node(a.node, kUplink1, a.pod_gateway);
    put_node(a.other_node, kUplink2, a.other_gateway);
    put_node(a.docker_node, kDocker, std::nullopt);
    put_node(a.plain_node, kUplink1, std::nullopt);
  }
  put_pod({rfc5549_pod(), kVethA, kUplink1, ip("fe80::1")});

  pdl_uplink first =
      uplink_entry(kUplink1, PDL_ROLE_HOME, PDL_STATE_UP, PDL_WHEN_DOWN_DROP, PDL_UPLINK_ANSWER_NEIGHBOURS);
  first.link_local_count = 1;
  set(first.link_local[0].addr, ip("169.254.169.254").octets());
  first.link_local[0].prefix_len = 32;
  put_uplink(kUplink1, first);
  put_uplink(kUplink2, uplink_entry(kUplink2, PDL_ROLE_HOME, PDL_STATE_UP, PDL_WHEN_DOWN_DROP, 0));
  put_uplink(kTransit, uplink_entry(kTransit, PDL_ROLE_TRANSIT, PDL_STATE_UP, PDL_WHEN_DOWN_DROP, 0));
  put_uplink(kStrict, uplink_entry(kStrict, PDL_ROLE_HOME, PDL_STATE_UP, PDL_WHEN_DOWN_DROP, PDL_UPLINK_STRICT));
  put_uplink(kDown, uplink_entry(kDown, PDL_ROLE_HOME, PDL_STATE_DOWN, PDL_WHEN_DOWN_DROP, 0));
  put_uplink(kDownStack, uplink_entry(kDownStack, PDL_ROLE_HOME, PDL_STATE_DOWN, PDL_WHEN_DOWN_STACK, 0));

  const pdl_exempt why{.item = 0};
  pdl_prefix4 exempt4{.prefix_len = 12, .addr = {10, 96, 0, 0}};
  pdl_prefix6 exempt6{.prefix_len = 108, .addr = {0xfd, 0, 0, 0x96}};
  put("exempt4", &exempt4, &why);
  put("exempt6", &exempt6, &why);

  const std::vector<pdl_uplink_stats> none(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  for (const unsigned uplink : {kUplink1, kUplink2, kTransit, kStrict}) put("uplink_stats", &uplink, none.data());
}

pdl_verdicts Datapath::verdicts() const {
  std::vector<pdl_verdicts> values(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  const __u32 key = 0;
  check(bpf_map_lookup_elem(map_fd("verdicts"), &key, values.data()), "verdicts");
  pdl_verdicts sum{};
#define PDL_X(name, text) \
  for (const auto& value : values) sum.name += value.name;
  PDL_VERDICTS(PDL_X)
#undef PDL_X
  return sum;
}

pdl_uplink_stats Datapath::stats(unsigned uplink) const {
  std::vector<pdl_uplink_stats> values(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  check(bpf_map_lookup_elem(map_fd("uplink_stats"), &uplink, values.data()), "uplink_stats");
  pdl_uplink_stats sum{};
  for (const auto& value : values) {
    sum.out_packets += value.out_packets;
    sum.out_bytes += value.out_bytes;
    sum.in_packets += value.in_packets;
    sum.in_bytes += value.in_bytes;
    sum.out_redirects += value.out_redirects;
    sum.late_redirects += value.late_redirects;
    sum.in_redirects += value.in_redirects;
  }
  return sum;
}

Output Datapath::run(const Input& input) const {
  const __u32 key = 0;
  recorded redirect{};
  if (recorded_) check(bpf_map_update_elem(map_fd("recorded_map"), &key, &redirect, BPF_ANY), "recorded_map");
  const pdl_verdicts before = verdicts();

  __sk_buff context{};
  context.ifindex = input.ifindex;
  context.ingress_ifindex = input.ingress_ifindex;
  context.gso_size = input.gso_size;
  context.gso_segs = input.gso_size == 0 ? 0 : 2;
  Output output;
  output.frame.resize(4096);
  LIBBPF_OPTS(bpf_test_run_opts, options);
  options.data_in = input.frame.data();
  options.data_size_in = static_cast<__u32>(input.frame.size());
  options.data_out = output.frame.data();
  options.data_size_out = static_cast<__u32>(output.frame.size());
  options.ctx_in = &context;
  options.ctx_size_in = sizeof(context);
  options.repeat = 1;
  check(bpf_prog_test_run_opts(program_fd(input.program), &options), "test run");
  output.frame.resize(options.data_size_out);
  output.action = static_cast<int>(options.retval);

  const pdl_verdicts after = verdicts();
#define PDL_X(name, text) \
  output.verdicts.insert(output.verdicts.end(), static_cast<std::size_t>(after.name - before.name), PDL_VERDICT_##name);
  PDL_VERDICTS(PDL_X)
#undef PDL_X
  if (recorded_) {
    check(bpf_map_lookup_elem(map_fd("recorded_map"), &key, &redirect), "recorded_map");
    output.redirect = redirect;
  }
  return output;
}

}  // namespace poduplink::tests
