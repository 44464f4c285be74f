// SPDX-License-Identifier: Apache-2.0
// What ADD does more where the attachment is an external network.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cni/external_plan.h"
#include "cni/options.h"
#include "cni/resolve.h"
#include "cni/spec/entry.h"
#include "cni/spec/result.h"
#include "loader/net/netlink.h"
#include "maps/record.h"

namespace poduplink {

// The result of the plugin before ours; only an external network may be chained, and one with 'ifName' has to be.
// Errors: bad_config.
CniResult<std::optional<AddResult>> take_previous_result(const Invocation& invocation, const Options& options);

// The pod as it is before anything is changed, where it can take an external network. Errors: container_link.
CniResult<PodNetwork> read_first_network(Netlink& container, const Invocation& invocation, const Options& options);

// The host sides of interfaces that plugins before ours have made are no uplinks. Errors: uplink, by name.
CniResult<> refuse_foreign_links(const AddResult& previous, const std::vector<WantedAddress>& wanted);
CniResult<> refuse_foreign_links(const AddResult& previous, const std::vector<PodAddress>& addresses);

// What is to be changed in the pod. Errors: as of plan_external(); uplink for a subnet that is the primary's too, where
// that is refused.
CniResult<RecordExternal> plan_for(Netlink& host, const PodNetwork& pod, const Invocation& invocation,
                                   const Options& options, const std::vector<PodAddress>& addresses,
                                   const std::vector<ResultRoute>& from_ipam);

// `ours` behind the result of the plugins before: their interfaces, addresses and names stay first and as they are.
AddResult chained_result(AddResult previous, const AddResult& ours);

// Whether the pod may do without the external network after this error.
bool may_fail_open(const Options& options, const CniError& error);
// Lets it: a record says why. Returns the result of ADD. Errors: state.
CniResult<AddResult> fail_open(const Options& options, Record record, const Invocation& invocation,
                               std::optional<AddResult> previous, const CniError& why);

}  // namespace poduplink
