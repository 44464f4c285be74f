// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cni/capabilities.h"
#include "cni/delegate.h"
#include "cni/host_view.h"
#include "cni/options.h"
#include "cni/state.h"
#include "cni/verbs.h"
#include "loader/base/log.h"
#include "maps/agent_state.h"
#include "maps/paths.h"
#include "maps/podprog.h"

namespace poduplink {
namespace {

constexpr std::chrono::milliseconds status_timeout(5000);

// 50 and 51 are all that runtimes know of STATUS. The code that it would have been is left in the details.
CniResult<> unavailable(CniError error) {
  if (error.code == cni_code::not_available || error.code == cni_code::limited) return CniFailure(std::move(error));
  const std::string code = formatted("error {}", error.code);
  error.details = error.details.empty() ? code : code + "; " + error.details;
  error.code = cni_code::not_available;
  return CniFailure(std::move(error));
}

CniFailure not_available(std::string why) { return CniFailure(CniError{cni_code::not_available, std::move(why), {}}); }

// The agent's last word, whether it runs or not: the datapath works without it.
CniResult<> check_agent(const Options& options) {
  const auto state = load_agent_state(options.run_dir);
  if (!state) return not_available("the agent's state cannot be read: " + state.error().message);
  if (!*state) {
    return not_available(
        formatted("the agent has not finished its start: there is no {}", agent_state_path(options.run_dir)));
  }
  if ((*state)->ready) return {};
  return not_available("the agent is not ready: " + joined((*state)->reasons, "; "));
}

// What is wrong with a home; empty: nothing. The map's word on its state is what the datapath obeys, the kernel's
// is newer where no agent runs.
std::string fault_of(std::uint32_t index, const pdl_uplink& entry, const HostView& view) {
  const std::string name = entry.name;
  const auto link = std::ranges::find(view.links, static_cast<int>(index), &Link::index);
  if (link == view.links.end()) return name + " is gone";
  if (entry.when_down == PDL_WHEN_DOWN_STACK) return {};
  return entry.state == PDL_STATE_UP && link->is_running() ? std::string() : name + " is down";
}

// Whether there is an uplink that a pod could have: any, or where the key 'uplink' names one, that.
CniResult<> check_uplinks(const Tables& tables, const Options& options) {
  PDL_CNI_TRY_ASSIGN(Netlink netlink, with_code(cni_code::uplink, Netlink::open()));
  std::vector<WantedAddress> wanted;
  if (options.uplink) wanted.push_back({.address = {}, .gateway = {}, .uplink = options.uplink});
  PDL_CNI_TRY_ASSIGN(HostView view, with_code(cni_code::datapath, read_host(netlink, tables, wanted)));
  if (options.uplink) {
    PDL_CNI_TRY_ASSIGN(const Uplink named, with_code(cni_code::uplink, find_uplink(*options.uplink, view, {})));
    view.uplinks = {{static_cast<std::uint32_t>(named.link.index), named.entry}};
  }
  std::vector<std::string> faults;
  for (const auto& [index, entry] : view.uplinks) {
    if (entry.role != PDL_ROLE_HOME) continue;
    std::string fault = fault_of(index, entry, view);
    if (fault.empty()) return {};
    faults.push_back(std::move(fault));
  }
  return not_available("no uplink can be used: " + (faults.empty() ? "the agent manages none" : joined(faults, "; ")));
}

// What an ADD needs, looked at without changing anything.
CniResult<> look(const Invocation& invocation, const Options& options) {
  if (auto able = check_capabilities(); !able) return unavailable(std::move(able.error()));
  auto tables = open_datapath(options.pin_dir);
  if (!tables) return unavailable(std::move(tables.error()));
  if (auto program = find_pod_program(tables->folder); !program)
    return unavailable(cni_error(cni_code::datapath, std::move(program.error())));
  if (auto ready = check_agent(options); !ready) return ready;
  // Without requireUplink there are plain pods where there is no uplink.
  if (options.require_uplink) {
    if (auto uplinks = check_uplinks(*tables, options); !uplinks) return unavailable(std::move(uplinks.error()));
  }
  auto ipam = Ipam::find(invocation, std::min<std::chrono::milliseconds>(options.ipam_timeout, status_timeout));
  if (!ipam) return unavailable(std::move(ipam.error()));
  auto answer = ipam->call(Verb::status);
  return answer ? answer : unavailable(std::move(answer.error()));
}

}  // namespace

CniResult<> report_status(const Invocation& invocation) {
  auto options = parse_options(invocation);
  if (!options) return CniFailure(std::move(options.error()));
  auto able = look(invocation, *options);
  if (able || !options->external || !options->external->fail_open) return able;
  // An ADD would leave the pod its first network, and succeed.
  log_warning("\"failOpen\": pods get no external network: {}", able.error().msg);
  return {};
}

}  // namespace poduplink
