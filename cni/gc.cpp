// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "cni/delegate.h"
#include "cni/options.h"
#include "cni/state.h"
#include "cni/verbs.h"
#include "loader/base/log.h"
#include "maps/record.h"

namespace poduplink {
namespace {

// Goes on after errors and reports them together.
class Errors {
 public:
  void note(const CniResult<>& result) {
    if (result) return;
    if (!all_) {
      all_ = result.error();
    } else {
      all_->msg += "; " + result.error().msg;
    }
  }
  [[nodiscard]] CniResult<> result() const {
    if (all_) return CniFailure(*all_);
    return {};
  }

 private:
  std::optional<CniError> all_;
};

// Attachments of this network that have a record and are not in the list.
Result<std::vector<AttachmentId>> unlisted_attachments(const Options& options, const std::string& network,
                                                       const std::vector<AttachmentId>& valid) {
  PDL_TRY_ASSIGN(const auto lock, GlobalLock::take(options.run_dir));
  PDL_TRY_ASSIGN(const auto records, load_records(options.run_dir));
  std::vector<AttachmentId> found;
  for (const Record& record : records) {
    if (record.id.network == network && std::ranges::find(valid, record.id) == valid.end()) found.push_back(record.id);
  }
  return found;
}

// The IPAM plugin's DEL too: no IPAM plugin that is known frees addresses at GC. False: it is being added or deleted
// at this moment, and left alone.
bool drop(const Options& options, const std::optional<Ipam>& ipam, const AttachmentId& id, Errors& errors) {
  const auto lock = AttachmentLock::try_take(options.run_dir, attachment_hash(id));
  if (!lock) {
    errors.note(CniFailure(cni_error(cni_code::state, lock.error())));
    return true;
  }
  if (!*lock) return false;
  log_info("GC: {} of container {} in network {} is not valid any more", id.if_name, id.container_id, id.network);
  const CniResult<> down = take_down(options, id);
  errors.note(down);
  const CniResult<> released = ipam ? ipam->del(id) : CniResult<>();
  errors.note(released);
  if (down && released) errors.note(forget(options, id));
  return true;
}

CniResult<> sweep_drafts(const Options& options) {
  PDL_CNI_TRY_ASSIGN(const auto lock, with_code(cni_code::state, GlobalLock::take(options.run_dir)));
  return with_code(cni_code::state, remove_record_drafts(options.run_dir));
}

// The IPAM plugin cannot see who is being added: it would take the address that it gave out a moment ago for stale.
// So it is told of every attachment that came, or was busy, since the stale ones were looked for; and no ADD gets past
// its record, and so to the IPAM plugin, while it collects.
void collect_addresses(const Invocation& invocation, const Options& options, const Ipam& ipam,
                       const std::vector<AttachmentId>& known, Errors& errors) {
  const std::string& network = invocation.config.name();
  const auto gate = lock_network(options, network);
  if (!gate) errors.note(CniFailure(gate.error()));
  if (!gate && gate.error().code == cni_code::try_again) return;  // another GC is at it
  const auto busy = unlisted_attachments(options, network, known);
  if (!busy) errors.note(CniFailure(cni_error(cni_code::state, busy.error())));
  // Where lock and records cannot be had, no ADD is going on either.
  errors.note(ipam.collect(busy.value_or(std::vector<AttachmentId>())));
}

}  // namespace

CniResult<> collect_garbage(const Invocation& invocation) {
  const Options options = readable_options(invocation);
  Errors errors;
  const auto own = check_ipam_store(invocation);
  if (!own) log_warning("{}: the IPAM plugin is not run", own.error().msg);
  const auto ipam = own ? Ipam::find_if_any(invocation, options.ipam_timeout) : CniResult<std::optional<Ipam>>();
  if (!ipam) errors.note(CniFailure(ipam.error()));
  const std::optional<Ipam> delegate = ipam ? *ipam : std::nullopt;

  PDL_CNI_TRY_ASSIGN(const auto valid, valid_attachments(invocation.config));
  if (!valid) {
    // Nothing can be said of any attachment.
    if (delegate) errors.note(delegate->call(Verb::gc));
    return errors.result();
  }
  std::vector<AttachmentId> known = *valid;
  const auto stale = unlisted_attachments(options, invocation.config.name(), *valid);
  if (!stale) errors.note(CniFailure(cni_error(cni_code::state, stale.error())));
  for (const AttachmentId& id : stale.value_or(std::vector<AttachmentId>())) {
    if (drop(options, delegate, id, errors)) known.push_back(id);
  }
  errors.note(sweep_drafts(options));
  if (delegate) collect_addresses(invocation, options, *delegate, known, errors);
  return errors.result();
}

}  // namespace poduplink
