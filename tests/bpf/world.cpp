// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/world.h"

#include <bpf/bpf.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "datapath.skel.h"
#include "datapath_recorded.skel.h"
#include "tests/bpf/conntrack.h"

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

__u8 default_prefix(const IpAddress& address) { return address.is_v4() ? 16 : 64; }

void fill_conntrack(const Conntrack& conntrack, const Addresses& a) {
  const auto entry = [&](std::uint16_t port, const IpAddress& to, std::uint16_t to_port) {
    conntrack.add({IPPROTO_UDP, a.pod, to, port, to_port}, {IPPROTO_UDP, a.nat_backend, a.pod, backend_port, port});
  };
  entry(nat_port, a.exempt, 53);
  entry(plain_port, a.nat_backend, backend_port);
}

void make_veth(const std::string& name, unsigned index, const MacAddress& mac) {
  shell("ip link add name " + name + " index " + std::to_string(index) + " address " + mac.text() +
        " type veth peer name " + name + "p index " + std::to_string(index + 100));
  shell("ip link set " + name + " up && ip link set " + name + "p up");
}

constexpr std::size_t page_octets = 4096;

template <typename Value>
Value* map_memory(int map_fd) {
  static_assert(sizeof(Value) <= page_octets);
  void* area = mmap(nullptr, page_octets, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
  if (area == MAP_FAILED) throw std::runtime_error("mmap of a BPF map");
  return static_cast<Value*>(area);
}

template <typename Skeleton, typename Open, typename Load>
Skeleton* load(const Config& config, Counters counters, Open open, Load load_it) {
  Skeleton* skeleton = open();
  if (skeleton == nullptr) throw std::runtime_error("opening the object");
  if (counters == Counters::mapped) {
    check(bpf_map__set_type(skeleton->maps.verdicts, BPF_MAP_TYPE_ARRAY), "verdicts");
    check(bpf_map__set_map_flags(skeleton->maps.verdicts, BPF_F_MMAPABLE), "verdicts");
  }
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

MacAddress mac_of_device(unsigned device) { return device < kUplink1 ? host_mac() : device_mac(device); }

IpAddress link_local_node() { return ip("fe80::10"); }
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
                            .netfilter_down = ip("10.3.0.6"),
                            .netfilter_down_stack = ip("10.4.0.6"),
                            .silent = ip("10.1.0.90"),
                            .netfilter_silent = ip("10.1.0.91"),
                            .node = ip("10.1.0.10"),
                            .other_node = ip("10.2.0.10"),
                            .down_node = ip("10.3.0.10"),
                            .down_stack_node = ip("10.4.0.10"),
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
                            .netfilter_down = ip("fd00:3::6"),
                            .netfilter_down_stack = ip("fd00:4::6"),
                            .silent = ip("fd00:1::90"),
                            .netfilter_silent = ip("fd00:1::91"),
                            .node = ip("fd00:1::10"),
                            .other_node = ip("fd00:2::10"),
                            .down_node = ip("fd00:3::10"),
                            .down_stack_node = ip("fd00:4::10"),
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

Program program_of(unsigned verdict) {
  if (verdict >= PDL_VERDICT_late_passed) return Program::uplink_egress;
  return verdict >= PDL_VERDICT_in_redirected ? Program::uplink_ingress : Program::pod_egress;
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
  const Conntrack conntrack;
  fill_conntrack(conntrack, addresses(Family::v4));
  fill_conntrack(conntrack, addresses(Family::v6));
  entered = true;
}

Datapath::Datapath(const Config& config, bool recorded, Counters counters) : config_(config), recorded_(recorded) {
  enter_world();
  if (recorded) {
    auto* skeleton = load<pdl_recorded>(
        config, counters, [] { return pdl_recorded__open(); }, [](pdl_recorded* it) { return pdl_recorded__load(it); });
    skeleton_ = skeleton;
    object_ = skeleton->obj;
    destroy_ = [](void* it) { pdl_recorded__destroy(static_cast<pdl_recorded*>(it)); };
  } else {
    auto* skeleton = load<pdl_datapath>(
        config, counters, [] { return pdl_datapath__open(); }, [](pdl_datapath* it) { return pdl_datapath__load(it); });
    skeleton_ = skeleton;
    object_ = skeleton->obj;
    destroy_ = [](void* it) { pdl_datapath__destroy(static_cast<pdl_datapath*>(it)); };
  }
  if (counters == Counters::mapped) {
    mapped_verdicts_ = map_memory<pdl_verdicts>(map_fd("verdicts"));
    if (recorded) mapped_record_ = map_memory<struct recorded>(map_fd("recorded_map"));
  }
  fill();
}

Datapath::~Datapath() {
  if (mapped_verdicts_ != nullptr) munmap(mapped_verdicts_, page_octets);
  if (mapped_record_ != nullptr) munmap(mapped_record_, page_octets);
  destroy_(skeleton_);
}

int Datapath::map_fd(const char* name) const { return bpf_object__find_map_fd_by_name(object_, name); }

int Datapath::program_fd(Program program) const {
  return bpf_program__fd(bpf_object__find_program_by_name(object_, program_name(program).c_str()));
}

void Datapath::put_raw(const std::string& map, const void* key, const void* value) const {
  check(bpf_map_update_elem(map_fd(map.c_str()), key, value, BPF_ANY), map.c_str());
  raise_generation();
}

void Datapath::raise_generation() const {
  const __u32 key = 0;
  pdl_generation now{};
  check(bpf_map_lookup_elem(map_fd("generation"), &key, &now), "generation");
  ++now.number;
  check(bpf_map_update_elem(map_fd("generation"), &key, &now, BPF_ANY), "generation");
}

void Datapath::put(const PodSpec& spec) const {
  pdl_pod pod{};
  pod.owner = 1;
  pod.home = spec.home;
  pod.veth = spec.veth;
  pod.mtu = uplink_mtu;
  if (spec.gateway && spec.gateway->is_v4()) set(pod.gateway4, spec.gateway->octets());
  if (spec.gateway && spec.gateway->is_v6()) set(pod.gateway6, spec.gateway->octets());
  set(pod.pod_mac, pod_mac(spec.veth).octets());
  pod.prefix_len = static_cast<__u8>(spec.prefix_len.value_or(default_prefix(spec.address)));
  pod.mode = spec.mode;
  pod.flags =
      static_cast<__u8>((spec.on_link ? PDL_POD_ON_LINK : 0) | (spec.gateway_silent ? PDL_POD_GATEWAY_SILENT : 0));
  put_raw(family_map("pods", spec.address.family()), spec.address.octets().data(), &pod);
}

void Datapath::put(const NodeSpec& spec) const {
  pdl_node node{};
  node.ifindex = spec.ifindex;
  node.prefix_len = static_cast<__u8>(spec.prefix_len.value_or(default_prefix(spec.address)));
  if (spec.gateway && spec.gateway->is_v4()) set(node.gateway4, spec.gateway->octets());
  if (spec.gateway && spec.gateway->is_v6()) set(node.gateway6, spec.gateway->octets());
  put_raw(family_map("nodes", spec.address.family()), spec.address.octets().data(), &node);
}

void Datapath::put(const UplinkSpec& spec) const {
  pdl_uplink uplink{};
  std::snprintf(uplink.name, sizeof(uplink.name), "up%u", spec.ifindex);
  uplink.mtu = spec.mtu;
  set(uplink.mac, device_mac(spec.ifindex).octets());
  uplink.role = spec.role;
  uplink.state = spec.state;
  uplink.when_down = spec.when_down;
  uplink.flags = spec.flags;
  for (const Prefix& prefix : spec.link_local) {
    pdl_link_local& claimed = std::span(uplink.link_local)[uplink.link_local_count++];
    set(claimed.addr, prefix.address().octets());
    claimed.prefix_len = static_cast<__u8>(prefix.length());
  }
  put_raw("uplinks", &spec.ifindex, &uplink);
}

void Datapath::put_exempt(const Prefix& prefix) const {
  const pdl_exempt why{.item = 0};
  pdl_prefix4 exempt4{.prefix_len = prefix.length(), .addr = {}};
  pdl_prefix6 exempt6{.prefix_len = prefix.length(), .addr = {}};
  if (prefix.family() == Family::v4) {
    set(exempt4.addr, prefix.address().octets());
    put_raw("exempt4", &exempt4, &why);
  } else {
    set(exempt6.addr, prefix.address().octets());
    put_raw("exempt6", &exempt6, &why);
  }
}

void Datapath::fill() const {
  for (const Family family : {Family::v4, Family::v6}) {
    const Addresses& a = addresses(family);
    put(PodSpec{a.pod, kVethA, kUplink1, a.pod_gateway});
    put(PodSpec{a.strict_subnet_pod, kVethA, kUplink1, a.pod_gateway, false});
    put(PodSpec{a.other, kVethB, kUplink2, a.other_gateway});
    put(PodSpec{a.netfilter, kVethN, kUplink1, a.pod_gateway, true, PDL_MODE_NETFILTER});
    put(PodSpec{a.down, kVethA, kDown, a.pod_gateway});
    put(PodSpec{a.down_stack, kVethA, kDownStack, a.pod_gateway});
    put(PodSpec{a.homeless, kVethA, 0, a.pod_gateway});
    put(PodSpec{a.absent, kVethA, kAbsent, a.pod_gateway});
    put(PodSpec{a.on_transit, kVethA, kTransit, a.pod_gateway});
    put(PodSpec{a.netfilter_down, kVethN, kDown, a.pod_gateway, true, PDL_MODE_NETFILTER});
    put(PodSpec{a.netfilter_down_stack, kVethN, kDownStack, a.pod_gateway, true, PDL_MODE_NETFILTER});
    for (const auto& [address, veth, mode] :
         {std::tuple{a.silent, kVethA, PDL_MODE_FAST}, std::tuple{a.netfilter_silent, kVethN, PDL_MODE_NETFILTER}}) {
      put(PodSpec{.address = address,
                  .veth = veth,
                  .home = kUplink1,
                  .gateway = a.pod_gateway,
                  .mode = mode,
                  .gateway_silent = true});
    }
    put(NodeSpec{a.down_node, kDown, a.pod_gateway});
    put(NodeSpec{a.down_stack_node, kDownStack, a.pod_gateway});
    put(NodeSpec{a.node, kUplink1, a.pod_gateway});
    put(NodeSpec{a.other_node, kUplink2, a.other_gateway});
    put(NodeSpec{a.docker_node, kDocker});
    put(NodeSpec{a.plain_node, kUplink1});
  }
  put(NodeSpec{link_local_node(), kUplink1});
  put(PodSpec{rfc5549_pod(), kVethA, kUplink1, ip("fe80::1")});

  put(UplinkSpec{
      .ifindex = kUplink1, .flags = PDL_UPLINK_ANSWER_NEIGHBOURS, .link_local = {Prefix(ip("169.254.169.254"), 32)}});
  put(UplinkSpec{.ifindex = kUplink2});
  put(UplinkSpec{.ifindex = kTransit, .role = PDL_ROLE_TRANSIT});
  put(UplinkSpec{.ifindex = kStrict, .flags = PDL_UPLINK_STRICT});
  put(UplinkSpec{.ifindex = kDown, .state = PDL_STATE_DOWN});
  put(UplinkSpec{.ifindex = kDownStack, .state = PDL_STATE_DOWN, .when_down = PDL_WHEN_DOWN_STACK});
  put_exempt(Prefix(ip("10.96.0.0"), 12));
  put_exempt(Prefix(ip("fd00:96::"), 108));

  const std::vector<pdl_uplink_stats> none(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  for (const unsigned uplink : {kUplink1, kUplink2, kTransit, kStrict}) put_raw("uplink_stats", &uplink, none.data());
}

pdl_verdicts Datapath::verdicts() const {
  if (mapped_verdicts_ != nullptr) return *mapped_verdicts_;
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
  forget_redirect();
  const pdl_verdicts before = verdicts();

  __sk_buff context{};
  context.ifindex = input.ifindex;
  context.ingress_ifindex = input.ingress_ifindex;
  context.mark = input.mark;
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
  options.ctx_out = &context;
  options.ctx_size_out = sizeof(context);
  options.repeat = 1;
  check(bpf_prog_test_run_opts(program_fd(input.program), &options), "test run");
  output.frame.resize(options.data_size_out);
  output.action = static_cast<int>(options.retval);
  output.mark = context.mark;

  const pdl_verdicts after = verdicts();
#define PDL_X(name, text) \
  output.verdicts.insert(output.verdicts.end(), static_cast<std::size_t>(after.name - before.name), PDL_VERDICT_##name);
  PDL_VERDICTS(PDL_X)
#undef PDL_X
  output.redirect = redirect();
  return output;
}

void Datapath::forget_redirect() const {
  if (!recorded_) return;
  const __u32 key = 0;
  const recorded none{};
  if (mapped_record_ != nullptr) {
    *mapped_record_ = none;
  } else {
    check(bpf_map_update_elem(map_fd("recorded_map"), &key, &none, BPF_ANY), "recorded_map");
  }
}

recorded Datapath::redirect() const {
  if (mapped_record_ != nullptr) return *mapped_record_;
  recorded value{};
  const __u32 key = 0;
  if (recorded_) check(bpf_map_lookup_elem(map_fd("recorded_map"), &key, &value), "recorded_map");
  return value;
}

}  // namespace poduplink::tests
