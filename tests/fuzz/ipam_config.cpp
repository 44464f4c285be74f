// SPDX-License-Identifier: Apache-2.0
// The configuration of poduplink-ipam and the addresses asked for. Input: CNI_ARGS, a newline, the configuration.
#include "cni/ipam/ipam_config.h"
#include "tests/fuzz/check.h"

using namespace poduplink;
using namespace poduplink::fuzz;
using namespace poduplink::ipam;

namespace {

void check_range(const AddressRange& range) {
  require(range.first <= range.last && range.first.family() == range.last.family(), "in order", range.text);
  require(range.subnet.contains(range.first) && range.subnet.contains(range.last), "in one subnet", range.text);
  require(count_addresses(range.first, range.last) > 0, "some addresses", range.text);
  for (const IpAddress& end : {range.first, range.last}) {
    require(!end.is_unspecified() && !end.is_loopback() && !end.is_multicast() && !end.is_link_local(),
            "addresses that a pod can have", range.text);
  }
}

void check_pools(const std::vector<Pool>& pools) {
  require(!pools.empty(), "a pool");
  std::vector<const AddressRange*> ranges;
  for (const Pool& pool : pools) {
    require(!pool.uplink.empty() && !pool.ranges.empty(), "an uplink and ranges");
    require(!pool.gateway4 || pool.gateway4->is_v4(), "an IPv4 gateway");
    require(!pool.gateway6 || pool.gateway6->is_v6(), "an IPv6 gateway");
    for (const AddressRange& range : pool.ranges) {
      check_range(range);
      for (const AddressRange* other : ranges)
        require(!range.contains(other->first) && !other->contains(range.first), "ranges that overlap nowhere",
                range.text);
      ranges.push_back(&range);
    }
  }
}

void check_requests(const NetworkConfig& config, const std::string& args) {
  const auto asked = requested_addresses(config, args);
  if (!asked) {
    require_refusal(asked.error(), {4, 7});
    return;
  }
  require(asked->size() <= 2 && (asked->size() < 2 || (*asked)[0].family() != (*asked)[1].family()), "one a family");
}

}  // namespace

void poduplink::fuzz::test(const std::string& text) {
  const TwoParts input = two_parts(text);
  const auto config = NetworkConfig::parse(input.rest);
  if (!config) {
    require_refusal(config.error(), {1, 6, 7});
    return;
  }
  check_requests(*config, input.first);
  const std::string folder = data_dir_of(*config);
  require(folder.starts_with('/'), "an absolute path", folder);
  const auto ipam = parse_ipam_config(*config);
  const auto again = parse_ipam_config(printed_again(*config));
  require(ipam.has_value() == again.has_value(), "printed again it is as good", input.rest);
  if (!ipam) {
    require_refusal(ipam.error(), {7});
    require(again.error().msg == ipam.error().msg, "printed again it has the same fault", ipam.error().msg);
    return;
  }
  require(ipam->data_dir == folder, "one folder", folder);
  check_pools(ipam->pools);
  require(again->pools.size() == ipam->pools.size() && again->routes.size() == ipam->routes.size(),
          "printed again it says the same", input.rest);
}
