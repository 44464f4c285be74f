// SPDX-License-Identifier: Apache-2.0
// What a test run cannot make: tags beside the frame (vlan_present), headers outside the linear part of the
// packet, frames shorter than their headers. Here the programs are attached to a veth and the frames are sent
// at its other end.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <thread>

#include "maps/tables.h"
#include "tests/bpf/cases.h"
#include "tests/bpf/wire.h"

namespace poduplink::tests {
namespace {

// The one verdict that sending makes. IPv6 of the veths themselves sends as well, so others are ignored.
template <typename Send>
void check(const Datapath& datapath, const char* what, __u64 pdl_verdicts::* verdict, Send send) {
  INFO(what);
  const __u64 before = datapath.verdicts().*verdict;
  send();
  for (int i = 0; i < 100 && datapath.verdicts().*verdict == before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(datapath.verdicts().*verdict == before + 1);
}

}  // namespace

TEST_CASE("frames that a test run cannot make get their verdicts on a veth") {
  if (geteuid() != 0) SKIP("attaching BPF programs needs root");
  const Datapath datapath({}, false);
  const Attached attached(datapath, Program::pod_egress, kVethA);
  const Sender sender(attached.sending_end());
  PageSender pages(attached.sending_end());
  for (const Family family : {Family::v4, Family::v6}) {
    const Addresses& a = addresses(family);
    const std::vector<Layer> udp{Ip{a.pod, a.outside}, Udp{1000, 53}, Raw{60}};
    const auto tagged = [&](std::uint16_t id) {
      return from_pod() + std::vector<Layer>{Vlan{id}, udp[0], udp[1], udp[2]};
    };
    INFO(named(family, ""));
    check(datapath, "a plain frame", &pdl_verdicts::redirected, [&] { sender.send(from_pod() + udp); });
    check(datapath, "a VLAN tag", &pdl_verdicts::vlan, [&] { sender.send(tagged(5)); });
    check(datapath, "a priority tag", &pdl_verdicts::spoofed, [&] { sender.send(tagged(0)); });
    check(datapath, "headers in pages", &pdl_verdicts::redirected, [&] { pages.send(from_pod() + udp); });
    check(datapath, "an error's quote in pages", &pdl_verdicts::malformed, [&] {
      pages.send(from_pod() +
                 std::vector<Layer>{Ip{a.pod, a.outside}, unreachable(family), Ip{a.outside, a.other}, Udp{1, 2}});
    });
    check(datapath, "a header cut short", &pdl_verdicts::malformed, [&] {
      Octets frame = from_pod() + udp;
      frame.resize(14 + 16);
      sender.send(frame);
    });
  }
}

TEST_CASE("a VLAN tag beside the frame passes an uplink") {
  if (geteuid() != 0) SKIP("attaching BPF programs needs root");
  const Datapath datapath({}, true);
  const Attached attached(datapath, Program::uplink_ingress, kUplink1);
  const Addresses& a = addresses(Family::v4);
  check(datapath, "a VLAN tag", &pdl_verdicts::in_vlan, [&] {
    Sender(attached.sending_end())
        .send(to_uplink(kUplink1) + std::vector<Layer>{Vlan{5}, Ip{a.outside, a.pod}, Udp{1, 2}, Raw{30}});
  });
}

}  // namespace poduplink::tests
