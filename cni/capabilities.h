// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cni/spec/error.h"

namespace poduplink {

// Whether this process may make interfaces, enter namespaces and open pinned maps. Asked before anything is
// changed. Errors: datapath, naming what is missing.
CniResult<> check_capabilities();

}  // namespace poduplink
