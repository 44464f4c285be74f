// SPDX-License-Identifier: Apache-2.0
// The node that the packet tests run on: real veths in a network namespace of the test program's own, and maps
// filled by hand. Nothing is pinned or attached; all of it is gone with the process.
#pragma once

#include <bpf/libbpf.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "maps/abi.h"
#include "tests/bpf/record.h"
#include "tests/harness/packet.h"

namespace poduplink::tests {

// Indexes of the devices. The last four are no devices at all: entries of the uplink map alone.
enum Device : unsigned {
  kVethA = 11,
  kVethB = 12,
  kVethN = 13,
  kUplink1 = 21,  // home of A and N; linkLocal 169.254.169.254/32
  kUplink2 = 22,  // home of B; answers no neighbours
  kTransit = 23,
  kStrict = 24,
  kDown = 901,
  kDownStack = 902,
  kAbsent = 903,
  kDocker = 904,  // bears a node address, is no uplink
};

inline constexpr unsigned uplink_mtu = 1500;  // of every uplink

MacAddress host_mac();
MacAddress pod_mac(unsigned veth);
MacAddress device_mac(unsigned device);     // of an uplink
MacAddress mac_of_device(unsigned device);  // of any
MacAddress router_mac();                    // of whoever is on the wire

// The addresses of one family, the same roles in both.
struct Addresses {
  IpAddress pod, pod_gateway;                                // A: fast, on-link, home is uplink 1
  IpAddress strict_subnet_pod;                               // on A's veth, on-link not allowed
  IpAddress other, other_gateway;                            // B: fast, home is uplink 2
  IpAddress netfilter;                                       // N
  IpAddress down, down_stack, homeless, absent, on_transit;  // on A's veth, by their homes
  IpAddress netfilter_down, netfilter_down_stack;            // on N's veth, by their homes
  IpAddress silent, netfilter_silent;                        // on A's and N's veth: the gateway does not answer
  IpAddress node, other_node;                                // the node's on uplink 1 and uplink 2
  IpAddress down_node, down_stack_node;                      // the node's on uplinks that are down
  IpAddress docker_node;                                     // the node's on a device that is no uplink
  IpAddress plain_node;                                      // the node's on uplink 1, no gateway known
  IpAddress exempt;
  IpAddress outside, on_link;  // on_link: in A's subnet
  IpAddress link_local, multicast, loopback, unspecified;
  IpAddress nat_backend;  // see fill_conntrack()
};
const Addresses& addresses(Family family);

// IPv6 only: the node's on uplink 1.
IpAddress link_local_node();
// IPv4 only: A's veth, home uplink 1, gateway fe80::1.
IpAddress rfc5549_pod();

// NATed flows, both families: UDP pod:1111 -> exempt:53, answered by nat_backend:5353; and without NAT
// UDP pod:2222 -> nat_backend:5353.
inline constexpr std::uint16_t nat_port = 1111;
inline constexpr std::uint16_t plain_port = 2222;
inline constexpr std::uint16_t backend_port = 5353;

enum class Program { pod_egress, uplink_ingress, uplink_egress };
std::string program_name(Program program);
Program program_of(unsigned verdict);  // which counts it

struct Config {
  bool conntrack = true;
  bool steer_node = false;
};

struct Input {
  Program program = Program::pod_egress;
  unsigned ifindex = 0;
  Octets frame;
  unsigned ingress_ifindex = 0;
  unsigned gso_size = 0;
  unsigned mark = 0;
};

struct Output {
  int action = 0;
  Octets frame;
  unsigned mark = 0;
  std::vector<unsigned> verdicts;  // one element for each count
  recorded redirect{};             // kind RECORDED_NONE where the object does not record or did not redirect
};

// Makes namespace and devices at first use, in the calling thread. Needs root.
void enter_world();

// ---- entries of the maps ----

struct PodSpec {
  IpAddress address;
  unsigned veth = 0;
  unsigned home = 0;
  std::optional<IpAddress> gateway;
  bool on_link = true;
  pdl_mode mode = PDL_MODE_FAST;
  std::optional<unsigned> prefix_len;  // of the subnet: 16 or 64 where nothing else is said
  bool gateway_silent = false;
};

struct NodeSpec {
  IpAddress address;
  unsigned ifindex = 0;
  std::optional<IpAddress> gateway;
  std::optional<unsigned> prefix_len;  // as above
};

struct UplinkSpec {
  unsigned ifindex = 0;
  pdl_role role = PDL_ROLE_HOME;
  pdl_state state = PDL_STATE_UP;
  pdl_when_down when_down = PDL_WHEN_DOWN_DROP;
  __u8 flags = 0;
  unsigned mtu = uplink_mtu;
  std::vector<Prefix> link_local;
};

// How the verdict counters lie in memory. The programs are the same.
enum class Counters {
  per_cpu,  // as shipped; a system call for each look at them
  mapped,   // an array that is mapped into the test: for one thread, and for millions of packets
};

// One loaded object with filled maps.
class Datapath {
 public:
  // recorded: the build whose redirect helpers write their arguments down.
  explicit Datapath(const Config& config, bool recorded, Counters counters = Counters::per_cpu);
  Datapath(const Datapath&) = delete;
  Datapath& operator=(const Datapath&) = delete;
  ~Datapath();

  void put(const PodSpec& spec) const;
  void put(const NodeSpec& spec) const;
  void put(const UplinkSpec& spec) const;
  void put_exempt(const Prefix& prefix) const;
  // What the agent does after each of these; they do it themselves.
  void raise_generation() const;

  [[nodiscard]] Output run(const Input& input) const;
  [[nodiscard]] int program_fd(Program program) const;
  [[nodiscard]] bpf_object* object() const { return object_; }
  [[nodiscard]] int map_fd(const char* name) const;
  [[nodiscard]] pdl_verdicts verdicts() const;  // summed over the CPUs
  [[nodiscard]] pdl_uplink_stats stats(unsigned uplink) const;
  [[nodiscard]] bool records() const { return recorded_; }
  [[nodiscard]] const Config& config() const { return config_; }

 private:
  void fill() const;
  void put_raw(const std::string& map, const void* key, const void* value) const;
  void forget_redirect() const;
  [[nodiscard]] recorded redirect() const;

  bpf_object* object_ = nullptr;
  void* skeleton_ = nullptr;
  void (*destroy_)(void*) = nullptr;
  Config config_;
  bool recorded_;
  pdl_verdicts* mapped_verdicts_ = nullptr;  // Counters::mapped
  recorded* mapped_record_ = nullptr;        // the same, of the build that records
};

}  // namespace poduplink::tests
