// SPDX-License-Identifier: Apache-2.0
#include "loader/warnings.h"

#include <algorithm>

#include "loader/base/address.h"
#include "loader/net/netns.h"

namespace poduplink {

std::vector<std::string> service_warnings(const AgentConfig& config, std::optional<std::string_view> service_host) {
  if (!service_host) return {};
  const auto address = IpAddress::parse(*service_host);
  if (!address) return {};
  if (std::ranges::any_of(config.exempt, [&](const Prefix& prefix) { return prefix.contains(*address); })) return {};
  return {
      formatted("KUBERNETES_SERVICE_HOST is {}, and no prefix in exempt holds it: list the cluster's service range, or "
                "calls to services leave by the pods' uplinks",
                *service_host)};
}

std::vector<std::string> gateway_warnings(const SilentGateways& silent, const Desired& desired) {
  std::vector<std::string> warnings;
  for (const auto& [link, gateway] : silent) {
    const DesiredUplink* uplink = desired.find(link);
    warnings.push_back(formatted("gateway {} does not answer on {}: what pods send by it is lost", gateway.text(),
                                 uplink != nullptr ? uplink->name() : std::to_string(link)));
  }
  return warnings;
}

std::vector<std::string> failed_open_warnings(const Records& records) {
  // One a reason: where the node's second NIC is gone, all its pods have the same.
  std::vector<std::string> warnings;
  for (const auto& [reason, found] : records.failed_open())
    warnings.push_back(formatted("{} of this node's pods failed open and have no external network, {} first: {}",
                                 found.pods, found.container_id, reason));
  return warnings;
}

std::vector<std::string> forwarding_warnings() {
  std::vector<std::string> warnings;
  for (const char* setting : {"ipv4/ip_forward", "ipv6/conf/all/forwarding"}) {
    const auto value = read_net_sysctl(setting);
    if (!value || !value->starts_with('0')) continue;
    warnings.push_back(
        formatted("net/{} is 0: services, exempt destinations and pods in netfilter mode need it, since they go "
                  "through the stack",
                  setting));
  }
  return warnings;
}

}  // namespace poduplink
