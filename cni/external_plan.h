// SPDX-License-Identifier: Apache-2.0
// What has to be changed inside a pod so that its second interface becomes its way out of the cluster. Functions of
// what the pod has, without any system call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cni/spec/error.h"
#include "cni/spec/result.h"
#include "loader/base/address.h"
#include "loader/net/link.h"
#include "loader/net/route.h"
#include "loader/net/rule.h"
#include "maps/record_external.h"

namespace poduplink {

// The pod's network as it is before.
struct PodNetwork {
  std::uint64_t cookie = 0;  // of its namespace
  std::vector<Link> links;
  std::vector<InterfaceAddress> addresses;
  std::vector<Route> routes;  // of all tables
  std::vector<Rule> rules;
};

struct ExternalRequest {
  std::string if_name;            // of the interface that is added
  std::string first;              // of the first network; empty: the one that the default route leads by
  std::vector<Prefix> cluster;    // stays with the first network
  std::vector<Prefix> addresses;  // of the interface that is added, each in its subnet
  std::vector<Prefix> outside;    // networks and gateways on the uplinks: the cluster has no part in them
  std::vector<Prefix> claimed;    // link-local prefixes that lead by the uplink ("linkLocal")
  std::vector<ResultRoute> from_ipam;
};

// Errors: already_added, naming whose rule is there.
CniResult<> refuse_second_external(const PodNetwork& pod);

// The interface of the first network. Errors: container_link: there is none of that name, or nothing leads to it.
CniResult<const Link*> find_first(const PodNetwork& pod, const std::string& name);

// The next hop's index of routes by the interface that is added, until set_external_link() puts the real one there.
inline constexpr int external_link = 0;

// Routes and rules, in the order in which they are made. Errors: bad_config with the CIDR that overlaps what lies
// outside, or that the first network has no way to; container_link for a pod whose default route is not what can be
// moved: none, several next hops, or not by the first network; ipam_result for a route of the IPAM plugin into the
// cluster or to link-local addresses.
CniResult<RecordExternal> plan_external(const PodNetwork& pod, const ExternalRequest& request);

void set_external_link(RecordExternal& external, int index);

// The routes of the main table, and those that the IPAM plugin has put elsewhere, as the result of ADD reports them.
std::vector<ResultRoute> reported_routes(const RecordExternal& external);

// Whether a route as the kernel has it is the one that was made.
bool is_made(const Route& present, const Route& made);
bool is_main_default(const Route& route);

}  // namespace poduplink
