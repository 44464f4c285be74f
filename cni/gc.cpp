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

// Attachments of this network that have a record and are not in the list. One without a state directory: none.
Result<std::vector<AttachmentId>> stale_attachments(const Options& options, const std::string& network,
                                                    const std::vector<AttachmentId>& valid) {
  PDL_TRY_ASSIGN(const auto lock, GlobalLock::take(options.run_dir));
  PDL_TRY_ASSIGN(const auto records, load_records(options.run_dir));
  std::vector<AttachmentId> stale;
  for (const Record& record : records) {
    if (record.id.network == network && std::ranges::find(valid, record.id) == valid.end()) stale.push_back(record.id);
  }
  return stale;
}

// The IPAM plugin's DEL too: no IPAM plugin that is known frees addresses at GC.
void drop(const Options& options, const std::optional<Ipam>& ipam, const AttachmentId& id, Errors& errors) {
  const auto lock = AttachmentLock::try_take(options.run_dir, attachment_hash(id));
  if (!lock) {
    errors.note(CniFailure(cni_error(cni_code::state, lock.error())));
    return;
  }
  // It is being added or deleted at this moment.
  if (!*lock) return;
  log_info("GC: {} of container {} in network {} is not valid any more", id.if_name, id.container_id, id.network);
  errors.note(remove_attachment(options, id));
  if (ipam) errors.note(ipam->del(id));
}

}  // namespace

CniResult<> collect_garbage(const Invocation& invocation) {
  const Options options = readable_options(invocation);
  Errors errors;
  const auto ipam = Ipam::find_if_any(invocation, options.ipam_timeout);
  if (!ipam) errors.note(CniFailure(ipam.error()));
  const std::optional<Ipam> delegate = ipam ? *ipam : std::nullopt;

  PDL_CNI_TRY_ASSIGN(const auto valid, valid_attachments(invocation.config));
  if (valid) {
    const auto stale = stale_attachments(options, invocation.config.name(), *valid);
    if (!stale) errors.note(CniFailure(cni_error(cni_code::state, stale.error())));
    for (const AttachmentId& id : stale.value_or(std::vector<AttachmentId>())) drop(options, delegate, id, errors);
  }
  if (delegate) errors.note(delegate->call(Verb::gc));
  return errors.result();
}

}  // namespace poduplink
