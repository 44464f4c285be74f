// SPDX-License-Identifier: Apache-2.0
#include "cni/external_add.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "cni/external_pod.h"
#include "cni/process.h"
#include "cni/state.h"
#include "loader/base/log.h"

namespace poduplink {
namespace {

Prefix host_prefix(const IpAddress& address) { return {address, address.bits()}; }

// Of the first network; empty: not known from the chain.
std::string first_interface(const Invocation& invocation, const Options& options) {
  return options.external->chained() ? invocation.environment.ifname : std::string();
}

const ResultInterface* foreign_link(const AddResult& previous, const std::string& name,
                                    const std::optional<MacAddress>& mac) {
  for (const ResultInterface& one : previous.interfaces) {
    if (!one.sandbox.empty()) continue;
    const auto its = MacAddress::parse(one.mac);
    if ((!name.empty() && one.name == name) || (name.empty() && mac && its && *its == *mac)) return &one;
  }
  return nullptr;
}

CniFailure refuse_foreign(const std::string& name, const std::string& origin) {
  return cni_fail(cni_code::uplink,
                  "{} cannot be an uplink: another plugin of the list has made it for the first network (named by {})",
                  name, origin);
}

// Networks on the uplinks, and gateways, that the cluster has no part in.
CniResult<std::vector<Prefix>> outside_of(Netlink& host, const std::vector<PodAddress>& addresses) {
  PDL_CNI_TRY_ASSIGN(const auto own, with_code(cni_code::container_link, dump_addresses(host)));
  std::vector<Prefix> outside;
  for (const PodAddress& one : addresses) {
    outside.push_back(one.address.subnet());
    if (!one.steer->gateway.is_link_local()) outside.push_back(host_prefix(one.steer->gateway));
    for (const InterfaceAddress& address : own) {
      if (address.link == one.steer->uplink.link.index && !address.prefix.address().is_link_local())
        outside.push_back(address.prefix.subnet());
    }
  }
  return outside;
}

std::vector<Prefix> claimed_by(const std::vector<PodAddress>& addresses) {
  std::vector<Prefix> claimed;
  for (const PodAddress& one : addresses) {
    if (one.address.family() != Family::v4) continue;
    const pdl_uplink& entry = one.steer->uplink.entry;
    for (unsigned i = 0; i < entry.link_local_count && i < PDL_MAX_LINK_LOCAL; ++i) {
      const Prefix prefix(IpAddress::v4(entry.link_local[i].addr), entry.link_local[i].prefix_len);
      if (std::ranges::find(claimed, prefix) == claimed.end()) claimed.push_back(prefix);
    }
  }
  return claimed;
}

CniResult<> require_distinct_subnet(Netlink& host, const std::vector<PodAddress>& addresses) {
  PDL_CNI_TRY_ASSIGN(const auto routes, with_code(cni_code::uplink, dump_routes(host)));
  PDL_CNI_TRY_ASSIGN(const auto own, with_code(cni_code::uplink, dump_addresses(host)));
  const auto primary = primary_link(routes);
  for (const PodAddress& one : addresses) {
    for (const InterfaceAddress& address : own) {
      if (address.link != primary || !overlap(address.prefix, one.address)) continue;
      return cni_fail(cni_code::uplink,
                      "address {} lies in the primary uplink's subnet {} (\"requireDistinctSubnet\": true)",
                      one.address.text(), address.prefix.subnet().text());
    }
  }
  return {};
}

}  // namespace

CniResult<std::optional<AddResult>> take_previous_result(const Invocation& invocation, const Options& options) {
  PDL_CNI_TRY_ASSIGN(auto previous, previous_result(invocation.config));
  const bool chained = options.external && options.external->chained();
  if (previous && !chained) {
    return cni_fail(cni_code::bad_config,
                    "key 'prevResult' is there: poduplink makes the pod's interface itself and has to be the first "
                    "plugin of the list, unless 'external.ifName' names a second interface");
  }
  if (!previous && chained) {
    return cni_fail(cni_code::bad_config,
                    "key 'external.ifName': \"{}\" is for a plugin that is chained, but there is no 'prevResult'",
                    options.external->if_name);
  }
  return previous;
}

CniResult<PodNetwork> read_first_network(Netlink& container, const Invocation& invocation, const Options& options) {
  PDL_CNI_TRY_ASSIGN(PodNetwork pod, read_pod_network(container));
  PDL_CNI_TRY(refuse_second_external(pod));
  PDL_CNI_TRY_ASSIGN(const Link* const first, find_first(pod, first_interface(invocation, options)));
  const bool any = std::ranges::any_of(pod.routes, [&](const Route& route) {
    return is_main_default(route) &&
           std::ranges::find(route.next_hops, first->index, &NextHop::link) != route.next_hops.end();
  });
  if (any) return pod;
  return cni_fail(cni_code::container_link, "the container has no default route by {} that could be moved to {}",
                  first->name, options.container_interface(invocation.environment));
}

CniResult<> refuse_foreign_links(const AddResult& previous, const std::vector<WantedAddress>& wanted) {
  for (const WantedAddress& one : wanted) {
    if (!one.uplink) continue;
    if (const auto* link = foreign_link(previous, one.uplink->name, one.uplink->mac))
      return refuse_foreign(link->name, one.uplink->origin);
  }
  return {};
}

CniResult<> refuse_foreign_links(const AddResult& previous, const std::vector<PodAddress>& addresses) {
  for (const PodAddress& one : addresses) {
    if (!one.steer) continue;
    const Link& link = one.steer->uplink.link;
    if (foreign_link(previous, link.name, std::nullopt) != nullptr) return refuse_foreign(link.name, "its subnet");
  }
  return {};
}

CniResult<RecordExternal> plan_for(Netlink& host, const PodNetwork& pod, const Invocation& invocation,
                                   const Options& options, const std::vector<PodAddress>& addresses,
                                   const std::vector<ResultRoute>& from_ipam) {
  if (options.external->require_distinct_subnet) {
    PDL_CNI_TRY(require_distinct_subnet(host, addresses));
  }
  ExternalRequest request;
  request.if_name = options.container_interface(invocation.environment);
  request.first = first_interface(invocation, options);
  request.cluster = options.external->cluster;
  for (const PodAddress& one : addresses) request.addresses.push_back(one.address);
  PDL_CNI_TRY_ASSIGN(request.outside, outside_of(host, addresses));
  request.claimed = claimed_by(addresses);
  request.outside.insert(request.outside.end(), request.claimed.begin(), request.claimed.end());
  request.from_ipam = from_ipam;
  return plan_external(pod, request);
}

AddResult chained_result(AddResult previous, const AddResult& ours) {
  const auto shift = static_cast<std::int64_t>(previous.interfaces.size());
  previous.interfaces.insert(previous.interfaces.end(), ours.interfaces.begin(), ours.interfaces.end());
  for (ResultIp ip : ours.ips) {
    if (ip.interface) ip.interface = *ip.interface + shift;
    previous.ips.push_back(ip);
  }
  previous.routes.insert(previous.routes.end(), ours.routes.begin(), ours.routes.end());
  if (previous.dns.empty()) previous.dns = ours.dns;
  return previous;
}

bool may_fail_open(const Options& options, const CniError& error) {
  // What is wrong with the configuration, the container or this program, and not with the way out.
  constexpr std::array never{cni_code::incompatible_version,
                             cni_code::unsupported_field,
                             cni_code::bad_environment,
                             cni_code::io_failure,
                             cni_code::undecodable,
                             cni_code::bad_config,
                             cni_code::container_link,
                             cni_code::already_added,
                             cni_code::state,
                             cni_code::internal};
  if (!options.external || !options.external->fail_open || stop_requested()) return false;
  return std::ranges::find(never, error.code) == never.end();
}

CniResult<AddResult> fail_open(const Options& options, Record record, const Invocation& invocation,
                               std::optional<AddResult> previous, const CniError& why) {
  log_warning("\"failOpen\": the pod has no external network: {}", why.msg);
  record.external.emplace();
  record.external->if_name = options.container_interface(invocation.environment);
  record.external->first_name = first_interface(invocation, options);
  record.external->failed_open = why.msg.empty() ? formatted("error {}", why.code) : why.msg;
  PDL_CNI_TRY(mark_ready(options, std::move(record)));
  return std::move(previous).value_or(AddResult{});
}

}  // namespace poduplink
