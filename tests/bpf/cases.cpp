// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/cases.h"

#include <algorithm>

namespace poduplink::tests {

std::string named(Family family, const std::string& name) {
  return (family == Family::v4 ? "IPv4: " : "IPv6: ") + name;
}

Icmp unreachable(Family family) {
  return family == Family::v4 ? Icmp{.type = 3, .code = 3} : Icmp{.type = 1, .code = 4};
}

Octets too_big_answer(const Ethernet& eth, const IpAddress& from, const Octets& frame) {
  const IpAddress to = src_of(frame);
  const std::size_t limit = to.is_v4() ? 576 - 28 : 1280 - 48;
  const std::size_t quote = std::min(frame.size() - 14, limit);
  const Icmp icmp = to.is_v4() ? Icmp{.type = 3, .code = 4, .rest = uplink_mtu} : Icmp{.type = 2, .rest = uplink_mtu};
  return eth + std::vector<Layer>{
                   Ip{.src = from,
                      .dst = to,
                      .tos = static_cast<std::uint8_t>(to.is_v4() ? 0xc0 : 0),
                      .id = 0,
                      .dont_fragment = true},
                   icmp, Raw{Octets(frame.begin() + 14, frame.begin() + 14 + static_cast<std::ptrdiff_t>(quote))}};
}

Octets operator+(const Ethernet& eth, const std::vector<Layer>& rest) {
  std::vector<Layer> layers{eth};
  layers.insert(layers.end(), rest.begin(), rest.end());
  return build(layers);
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  const auto add = [&](const std::vector<Case>& some) { all.insert(all.end(), some.begin(), some.end()); };
  for (const Family family : {Family::v4, Family::v6}) {
    add(pod_egress_cases(family));
    add(pod_egress_source_cases(family));
    add(uplink_ingress_cases(family));
    add(uplink_egress_cases(family));
    add(mode_cases(family));
  }
  add(pod_egress_frame_cases());
  add(uplink_ingress_frame_cases());
  return all;
}

}  // namespace poduplink::tests
