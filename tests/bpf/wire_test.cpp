// SPDX-License-Identifier: Apache-2.0
// What a test run cannot make: tags beside the frame (vlan_present), headers outside the linear part of the
// packet, frames shorter than their headers. Here the programs are attached to a veth and the frames are sent
// at its other end.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstring>
#include <thread>

#include "loader/base/fd.h"
#include "maps/tables.h"
#include "tests/bpf/cases.h"

namespace poduplink::tests {
namespace {

constexpr unsigned peer_offset = 100;  // a device's other end has the index of the device plus this

sockaddr_ll end_of(unsigned device) {
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_protocol = htons(ETH_P_ALL);
  to.sll_ifindex = static_cast<int>(device + peer_offset);
  return to;
}

Fd packet_socket(unsigned device) {
  Fd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  REQUIRE(fd.get() >= 0);
  const sockaddr_ll to = end_of(device);
  REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);  // NOLINT
  return fd;
}

void send_copied(unsigned device, const Octets& frame) {
  const Fd fd = packet_socket(device);
  REQUIRE(::send(fd.get(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()));
}

// By a transmit ring: the kernel copies the Ethernet header only, the rest of the packet stays in pages.
void send_in_pages(unsigned device, const Octets& frame) {
  const Fd fd = packet_socket(device);
  const int version = TPACKET_V2;
  REQUIRE(::setsockopt(fd.get(), SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) == 0);
  const tpacket_req ring{.tp_block_size = 4096, .tp_block_nr = 1, .tp_frame_size = 4096, .tp_frame_nr = 1};
  REQUIRE(::setsockopt(fd.get(), SOL_PACKET, PACKET_TX_RING, &ring, sizeof(ring)) == 0);
  void* area = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  REQUIRE(area != MAP_FAILED);
  auto* header = static_cast<tpacket2_hdr*>(area);
  constexpr std::size_t data_offset =
      (sizeof(tpacket2_hdr) + TPACKET_ALIGNMENT - 1) / TPACKET_ALIGNMENT * TPACKET_ALIGNMENT;
  auto* data = static_cast<std::uint8_t*>(area) + data_offset;
  std::memcpy(data, frame.data(), frame.size());
  header->tp_len = static_cast<__u32>(frame.size());
  header->tp_status = TP_STATUS_SEND_REQUEST;
  CHECK(::send(fd.get(), nullptr, 0, 0) == static_cast<ssize_t>(frame.size()));
  ::munmap(area, 4096);
}

// One program at one device's ingress, as the plugin attaches it: clsact.
class Attached {
 public:
  Attached(const Datapath& datapath, Program program, unsigned device) : datapath_(datapath) {
    hook_.sz = sizeof(hook_);
    hook_.ifindex = static_cast<int>(device);
    hook_.attach_point = BPF_TC_INGRESS;
    REQUIRE(bpf_tc_hook_create(&hook_) == 0);
    LIBBPF_OPTS(bpf_tc_opts, options);
    options.prog_fd = datapath.program_fd(program);
    REQUIRE(bpf_tc_attach(&hook_, &options) == 0);
  }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  ~Attached() {
    hook_.attach_point = static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS);
    bpf_tc_hook_destroy(&hook_);
  }

  // The one verdict that sending makes. IPv6 of the veths themselves sends as well, so others are ignored.
  template <typename Send>
  void check(const char* what, __u64 pdl_verdicts::* verdict, Send send) const {
    INFO(what);
    const __u64 before = datapath_.verdicts().*verdict;
    send();
    for (int i = 0; i < 100 && datapath_.verdicts().*verdict == before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    CHECK(datapath_.verdicts().*verdict == before + 1);
  }

 private:
  const Datapath& datapath_;
  bpf_tc_hook hook_{};
};

}  // namespace

TEST_CASE("frames that a test run cannot make get their verdicts on a veth") {
  if (geteuid() != 0) SKIP("attaching BPF programs needs root");
  const Datapath datapath({}, false);
  const Attached attached(datapath, Program::pod_egress, kVethA);
  for (const Family family : {Family::v4, Family::v6}) {
    const Addresses& a = addresses(family);
    const std::vector<Layer> udp{Ip{a.pod, a.outside}, Udp{1000, 53}, Raw{60}};
    const auto tagged = [&](std::uint16_t id) {
      return from_pod() + std::vector<Layer>{Vlan{id}, udp[0], udp[1], udp[2]};
    };
    INFO(named(family, ""));
    attached.check("a plain frame", &pdl_verdicts::redirected, [&] { send_copied(kVethA, from_pod() + udp); });
    attached.check("a VLAN tag", &pdl_verdicts::vlan, [&] { send_copied(kVethA, tagged(5)); });
    attached.check("a priority tag", &pdl_verdicts::spoofed, [&] { send_copied(kVethA, tagged(0)); });
    attached.check("headers in pages", &pdl_verdicts::redirected, [&] { send_in_pages(kVethA, from_pod() + udp); });
    attached.check("an error's quote in pages", &pdl_verdicts::malformed, [&] {
      send_in_pages(kVethA, from_pod() + std::vector<Layer>{Ip{a.pod, a.outside}, unreachable(family),
                                                            Ip{a.outside, a.other}, Udp{1, 2}});
    });
    attached.check("a header cut short", &pdl_verdicts::malformed, [&] {
      Octets frame = from_pod() + udp;
      frame.resize(14 + 16);
      send_copied(kVethA, frame);
    });
  }
}

TEST_CASE("a VLAN tag beside the frame passes an uplink") {
  if (geteuid() != 0) SKIP("attaching BPF programs needs root");
  const Datapath datapath({}, true);
  const Attached attached(datapath, Program::uplink_ingress, kUplink1);
  const Addresses& a = addresses(Family::v4);
  attached.check("a VLAN tag", &pdl_verdicts::in_vlan, [&] {
    send_copied(kUplink1, to_uplink(kUplink1) + std::vector<Layer>{Vlan{5}, Ip{a.outside, a.pod}, Udp{1, 2}, Raw{30}});
  });
}

}  // namespace poduplink::tests
