// SPDX-License-Identifier: Apache-2.0
#include "cni/capabilities.h"
#include "cni/delegate.h"
#include "cni/options.h"
#include "cni/state.h"
#include "cni/verbs.h"

namespace poduplink {
namespace {

constexpr std::chrono::milliseconds status_timeout(5000);

CniResult<> unavailable(CniError error) {
  error.code = cni_code::not_available;
  return CniFailure(std::move(error));
}

}  // namespace

// What an ADD needs, looked at without changing anything.
CniResult<> report_status(const Invocation& invocation) {
  auto options = parse_options(invocation);
  if (!options) return CniFailure(std::move(options.error()));
  if (auto able = check_capabilities(); !able) return unavailable(std::move(able.error()));
  if (auto tables = open_datapath(options->pin_dir); !tables) return unavailable(std::move(tables.error()));
  auto ipam = Ipam::find(invocation, std::min<std::chrono::milliseconds>(options->ipam_timeout, status_timeout));
  if (!ipam) return unavailable(std::move(ipam.error()));
  return ipam->call(Verb::status);
}

}  // namespace poduplink
