// SPDX-License-Identifier: Apache-2.0
// What lets pods work and will still surprise somebody: told in the log and in agent.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/config.h"
#include "loader/desired.h"
#include "loader/pods.h"
#include "loader/records.h"

namespace poduplink {

// `service_host`: KUBERNETES_SERVICE_HOST of the environment; nothing where it is not set. Where the cluster's service
// range is not exempt, calls to services leave by the pods' uplinks.
std::vector<std::string> service_warnings(const AgentConfig& config, std::optional<std::string_view> service_host);

// Gateways that the kernel asks for in vain: what pods send there is lost.
std::vector<std::string> gateway_warnings(const SilentGateways& silent, const Desired& desired);

// Pods that have started without their external network ("failOpen"), and why.
std::vector<std::string> failed_open_warnings(const Records& records);

// Forwarding that is switched off in this network namespace: what goes through the stack would go nowhere.
std::vector<std::string> forwarding_warnings();

}  // namespace poduplink
