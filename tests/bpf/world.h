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
MacAddress device_mac(unsigned device);
MacAddress router_mac();  // of whoever is on the wire

// The addresses of one family, the same roles in both.
struct Addresses {
  IpAddress pod, pod_gateway;                                // A: fast, on-link, home is uplink 1
  IpAddress strict_subnet_pod;                               // on A's veth, on-link not allowed
  IpAddress other, other_gateway;                            // B: fast, home is uplink 2
  IpAddress netfilter;                                       // N
  IpAddress down, down_stack, homeless, absent, on_transit;  // on A's veth, by their homes
  IpAddress node, other_node;                                // the node's on uplink 1 and uplink 2
  IpAddress docker_node;                                     // the node's on a device that is no uplink
  IpAddress plain_node;                                      // the node's on uplink 1, no gateway known
  IpAddress exempt;
  IpAddress outside, on_link;  // on_link: in A's subnet
  IpAddress link_local, multicast, loopback, unspecified;
  IpAddress nat_backend;  // see fill_conntrack()
};
const Addresses& addresses(Family family);

// IPv4 only: A's veth, home uplink 1, gateway fe80::1.
IpAddress rfc5549_pod();

// NATed flows, both families: UDP pod:1111 -> exempt:53, answered by nat_backend:5353; and without NAT
// UDP pod:2222 -> nat_backend:5353.
inline constexpr std::uint16_t nat_port = 1111;
inline constexpr std::uint16_t plain_port = 2222;
inline constexpr std::uint16_t backend_port = 5353;

enum class Program { pod_egress, uplink_ingress, uplink_egress };
std::string program_name(Program program);

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
};

struct Output {
  int action = 0;
  Octets frame;
  std::vector<unsigned> verdicts;  // one element for each count
  recorded redirect{};             // kind RECORDED_NONE where the object does not record or did not redirect
};

// Makes namespace and devices at first use, in the calling thread. Needs root.
void enter_world();

// One loaded object with filled maps.
class Datapath {
 public:
  // recorded: the build whose redirect helpers write their arguments down.
  explicit Datapath(const Config& config, bool recorded);
  Datapath(const Datapath&) = delete;
  Datapath& operator=(const Datapath&) = delete;
  ~Datapath();

  [[nodiscard]] Output run(const Input& input) const;
  [[nodiscard]] int program_fd(Program program) const;
  [[nodiscard]] bpf_object* object() const { return object_; }
  [[nodiscard]] int map_fd(const char* name) const;
  [[nodiscard]] pdl_verdicts verdicts() const;  // summed over the CPUs
  [[nodiscard]] pdl_uplink_stats stats(unsigned uplink) const;
  [[nodiscard]] bool records() const { return recorded_; }

 private:
  void fill() const;

  bpf_object* object_ = nullptr;
  void* skeleton_ = nullptr;
  void (*destroy_)(void*) = nullptr;
  bool recorded_;
};

}  // namespace poduplink::tests
