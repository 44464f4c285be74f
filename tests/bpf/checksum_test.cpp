// SPDX-License-Identifier: Apache-2.0
// A NIC can hand the sum over a whole packet over with it (CHECKSUM_COMPLETE), and then every change that a
// program makes must keep that sum right, or the pod's kernel drops the packet. veth never does so; VXLAN with UDP
// checksums does, where the sender computes them itself. So the uplink here is a VXLAN device, and the test also
// is one of the whole way in: neighbour question, answer, packet, pod.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <cstring>

#include "loader/base/fd.h"
#include "loader/net/netns.h"
#include "tests/bpf/world.h"

namespace poduplink::tests {
namespace {

void shell(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);  // NOLINT(cert-env33-c)
}

class NamedNetns {
 public:
  explicit NamedNetns(const std::string& role) : name_("pdlbpf-" + role + "-" + std::to_string(::getpid())) {
    shell("ip netns add " + name_);
    in("sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0");
    in("ip link set lo up");
  }
  NamedNetns(const NamedNetns&) = delete;
  NamedNetns& operator=(const NamedNetns&) = delete;
  ~NamedNetns() {
    (void)std::system(("ip netns del " + name_).c_str());  // NOLINT(cert-env33-c)
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  void in(const std::string& command) const { shell("ip netns exec " + name_ + " " + command); }

  template <typename Work>
  auto enter(Work work) const {
    const Fd fd = open_netns("/run/netns/" + name_).value();
    const auto scope = NetnsScope::enter(fd.get());
    REQUIRE(scope.has_value());
    return work();
  }

 private:
  std::string name_;
};

// ethtool -K DEVICE tx off, in the calling thread's namespace.
void checksums_in_software(const char* device) {
  const Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_value value{.cmd = ETHTOOL_STXCSUM, .data = 0};
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&value);  // NOLINT
  REQUIRE(::ioctl(fd.get(), SIOCETHTOOL, &request) == 0);
}

sockaddr_storage endpoint(const IpAddress& address, std::uint16_t port, socklen_t& size) {
  sockaddr_storage storage{};
  if (address.is_v4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&in.sin_addr, address.octets().data(), 4);
    std::memcpy(&storage, &in, size = sizeof(in));
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    std::memcpy(&in.sin6_addr, address.octets().data(), 16);
    std::memcpy(&storage, &in, size = sizeof(in));
  }
  return storage;
}

// A UDP socket of the namespace, bound to an address, that waits at most 3 s for a datagram.
Fd udp_socket(const IpAddress& address, std::uint16_t port) {
  Fd fd(::socket(address.address_family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  socklen_t size = 0;
  const sockaddr_storage local = endpoint(address, port, size);
  REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&local), size) == 0);  // NOLINT
  const timeval patience{.tv_sec = 3, .tv_usec = 0};
  REQUIRE(::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
  return fd;
}

bool arrives(int from, int at, const IpAddress& to, std::uint16_t port, const std::string& text) {
  socklen_t size = 0;
  const sockaddr_storage remote = endpoint(to, port, size);
  const ssize_t sent =
      ::sendto(from, text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&remote), size);  // NOLINT
  CHECK(sent == static_cast<ssize_t>(text.size()));
  std::string got(2000, '\0');
  const ssize_t received = ::recv(at, got.data(), got.size(), 0);
  return received == static_cast<ssize_t>(text.size()) && got.starts_with(text);
}

void attach(const Datapath& datapath, Program program, int ifindex) {
  bpf_tc_hook hook{};
  hook.sz = sizeof(hook);
  hook.ifindex = ifindex;
  hook.attach_point = BPF_TC_INGRESS;
  REQUIRE(bpf_tc_hook_create(&hook) == 0);
  LIBBPF_OPTS(bpf_tc_opts, options);
  options.prog_fd = datapath.program_fd(program);
  REQUIRE(bpf_tc_attach(&hook, &options) == 0);
}

// The node is the test program's own namespace.
void wire_up(const NamedNetns& remote, const NamedNetns& pod) {
  shell("ip link add wire type veth peer name wire netns " + remote.name());
  shell("ip address add 192.0.2.2/24 dev wire && ip link set wire up");
  shell("ip link add vx type vxlan id 42 local 192.0.2.2 remote 192.0.2.1 dstport 4789 udpcsum && ip link set vx up");
  remote.in("ip address add 192.0.2.1/24 dev wire");
  remote.in("ip link set wire up");
  remote.in("ip link add vx type vxlan id 42 local 192.0.2.1 remote 192.0.2.2 dstport 4789 udpcsum");
  remote.in("ip address add 10.1.0.1/16 dev vx");
  remote.in("ip address add fd00:1::1/64 dev vx nodad");
  remote.in("ip link set vx up");
  remote.enter([] {
    checksums_in_software("wire");
    checksums_in_software("vx");
  });
  shell("ip link add podveth address " + host_mac().text() + " type veth peer name eth0 netns " + pod.name());
  shell("ip link set podveth up");
  pod.in("ip link set eth0 address " + pod_mac(kVethA).text() + " up");
  pod.in("ip address add 10.1.0.5/32 dev eth0");
  pod.in("ip address add fd00:1::5/128 dev eth0 nodad");
}

void put_entries(const Datapath& datapath, unsigned uplink, unsigned veth) {
  for (const Family family : {Family::v4, Family::v6}) {
    const std::string map = family == Family::v4 ? "pods4" : "pods6";
    const IpAddress& address = addresses(family).pod;
    pdl_pod entry{};
    REQUIRE(bpf_map_lookup_elem(datapath.map_fd(map.c_str()), address.octets().data(), &entry) == 0);
    entry.home = uplink;
    entry.veth = veth;
    REQUIRE(bpf_map_update_elem(datapath.map_fd(map.c_str()), address.octets().data(), &entry, BPF_ANY) == 0);
  }
  const unsigned known = kUplink1;
  pdl_uplink entry{};
  REQUIRE(bpf_map_lookup_elem(datapath.map_fd("uplinks"), &known, &entry) == 0);
  const Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, "vx", IFNAMSIZ - 1);
  REQUIRE(::ioctl(fd.get(), SIOCGIFHWADDR, &request) == 0);
  std::memcpy(entry.mac, request.ifr_hwaddr.sa_data, sizeof(entry.mac));
  REQUIRE(bpf_map_update_elem(datapath.map_fd("uplinks"), &uplink, &entry, BPF_ANY) == 0);
}

}  // namespace

TEST_CASE("a packet whose sum the device has computed reaches the pod") {
  if (geteuid() != 0) SKIP("network namespaces and BPF programs need root");
  const Datapath datapath({}, false);
  const NamedNetns remote("remote");
  const NamedNetns pod("pod");
  wire_up(remote, pod);
  const unsigned uplink = if_nametoindex("vx");
  const unsigned veth = if_nametoindex("podveth");
  put_entries(datapath, uplink, veth);
  attach(datapath, Program::uplink_ingress, static_cast<int>(uplink));

  for (const Family family : {Family::v4, Family::v6}) {
    INFO(static_cast<int>(family));
    const IpAddress from = ip(family == Family::v4 ? "10.1.0.1" : "fd00:1::1");
    const IpAddress& to = addresses(family).pod;
    const Fd sender = remote.enter([&] { return udp_socket(from, 4000); });
    const Fd receiver = pod.enter([&] { return udp_socket(to, 5000); });
    const pdl_verdicts before = datapath.verdicts();
    for (const std::size_t size : {1U, 2U, 301U, 1200U}) {
      INFO(size << " octets");
      CHECK(arrives(sender.get(), receiver.get(), to, 5000, std::string(size, 'x')));
    }
    CHECK(datapath.verdicts().in_redirected >= before.in_redirected + 4);
    // The sender has no entry for the pod: the program has answered for it.
    CHECK(datapath.verdicts().in_neighbour > before.in_neighbour);
  }
}

}  // namespace poduplink::tests
