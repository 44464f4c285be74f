// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/settle.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "loader/net/link.h"
#include "tests/bench/must.h"
#include "tests/harness/namespace.h"

namespace poduplink::bench {
namespace {

constexpr const char* probe = "settled";
// 15,000 pods take one.
constexpr std::chrono::minutes longest{4};

}  // namespace

// A namespace of its own goes last. That it has gone shows by its veth, whose other end goes with it.
void wait_for_gone_namespaces() {
  auto space = must(harness::Namespace::create(probe));
  auto outside = must(Netlink::open());
  must(create_veth(outside, {.host_name = probe,
                             .host_mac = MacAddress({0x02, 0, 0, 0, 0, 1}),
                             .peer_name = "inside",
                             .peer_mac = MacAddress({0x02, 0, 0, 0, 0, 2}),
                             .peer_netns_fd = space.fd()}));
  must(space.remove());
  const auto deadline = std::chrono::steady_clock::now() + longest;
  while (find_link_by_name(outside, probe)) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("namespaces that were deleted are still there after four minutes");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace poduplink::bench
