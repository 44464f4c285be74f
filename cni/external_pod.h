// SPDX-License-Identifier: Apache-2.0
// The external network inside the pod's namespace: read, made, compared, put back.
#pragma once

#include "cni/external_plan.h"
#include "cni/first_error.h"
#include "cni/spec/error.h"
#include "loader/net/netlink.h"
#include "maps/record.h"

namespace poduplink {

// Errors: container_link.
CniResult<PodNetwork> read_pod_network(Netlink& container);

// Routes and rules in their order; the default routes change places at the end, without a moment in which there is
// none. On an error some of it may be made: restore_first_network() undoes it. Errors: container_link.
CniResult<> make_external_routes(Netlink& container, const RecordExternal& external);

// Puts the pod's first network back as it was, before or after the external interface has gone. Does nothing where the
// namespace is gone or is another one by now, and may be repeated. Errors: what a repetition may mend.
void restore_first_network(const Record& record, FirstError& errors);

// Routes, tables and rules against what was made. Errors: check_failed, container_link.
CniResult<> check_external_routes(Netlink& container, const RecordExternal& external);

}  // namespace poduplink
