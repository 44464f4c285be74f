// SPDX-License-Identifier: Apache-2.0
// The verbs of the plugin `poduplink`. Errors of all: docs/cni.md.
#pragma once

#include "cni/spec/entry.h"

namespace poduplink {

CniResult<AddResult> add_pod(const Invocation& invocation);
CniResult<> del_pod(const Invocation& invocation);
CniResult<> check_pod(const Invocation& invocation);
CniResult<> collect_garbage(const Invocation& invocation);
CniResult<> report_status(const Invocation& invocation);

}  // namespace poduplink
