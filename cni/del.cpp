// SPDX-License-Identifier: Apache-2.0
#include "cni/delegate.h"
#include "cni/options.h"
#include "cni/state.h"
#include "cni/verbs.h"
#include "loader/base/log.h"

namespace poduplink {
namespace {

// Runs the IPAM plugin's DEL, unless the configuration names none.
CniResult<> release_addresses(const Invocation& invocation, const Options& options) {
  if (const auto own = check_ipam_store(invocation); !own) {
    log_warning("{}: no address of ours can be there", own.error().msg);
    return {};
  }
  PDL_CNI_TRY_ASSIGN(const auto ipam, Ipam::find_if_any(invocation, options.ipam_timeout));
  if (!ipam) return {};
  return ipam->call(Verb::del);
}

}  // namespace

// The interface first, then the address: the other way round it could be given to another pod while this one
// still answers to it. The host side takes the container's interface with it; the container's namespace is entered only
// to put back what an external network changed in it.
CniResult<> del_pod(const Invocation& invocation) {
  const Options options = readable_options(invocation);
  const AttachmentId id = invocation.attachment();
  const auto lock = lock_attachment(options, id);
  if (!lock && lock.error().code == cni_code::try_again) return CniFailure(lock.error());
  if (!lock) log_error("going on without the lock: {}", lock.error().msg);

  auto removed = take_down(options, id);
  auto released = release_addresses(invocation, options);
  if (!removed) {
    if (!released) log_error("{}", released.error().msg);
    return removed;
  }
  if (!released) return released;
  // Not before: until the address is given back, GC has to know whose it is.
  return forget(options, id);
}

}  // namespace poduplink
