// SPDX-License-Identifier: Apache-2.0
// The IPAM plugin that the configuration names: found in CNI_PATH, run with our standard input octet by
// octet and our environment.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cni/process.h"
#include "cni/spec/entry.h"
#include "cni/spec/error.h"
#include "cni/spec/result.h"

namespace poduplink {

class Ipam {
 public:
  // Errors: bad_config where `ipam` is missing or names no plugin, ipam_not_run where CNI_PATH lacks it.
  static CniResult<Ipam> find(const Invocation& invocation, std::chrono::milliseconds timeout);
  // The same; nothing where the configuration has no `ipam`.
  static CniResult<std::optional<Ipam>> find_if_any(const Invocation& invocation, std::chrono::milliseconds timeout);

  // Errors: the plugin's own, with its code and its type before the message; ipam_not_run where it did not
  // run or said nothing readable; ipam_timeout; ipam_result where it exited well but without a result.
  // `meanwhile` is done while it runs, if it can be run.
  [[nodiscard]] CniResult<AddResult> add(const std::function<void()>& meanwhile = {}) const;
  // ADD's opposite within ADD: what goes wrong is only logged. It gets less time than others. False: an address
  // may still be reserved.
  bool undo_add() const;
  // DEL, CHECK, GC, STATUS: an exit status of 0 is success. Errors: as of add().
  [[nodiscard]] CniResult<> call(Verb verb) const;
  // GC with attachments that the list of the configuration lacks, and that are valid all the same. Without any, the
  // plugin gets the configuration octet by octet, as ever.
  [[nodiscard]] CniResult<> collect(const std::vector<AttachmentId>& also_valid) const;
  // DEL of another attachment of this network, for GC.
  [[nodiscard]] CniResult<> del(const AttachmentId& id) const;

  [[nodiscard]] const std::string& type() const { return type_; }

 private:
  using Changes = std::vector<std::pair<std::string, std::string>>;

  Ipam(const Invocation& invocation, std::string type, std::string path, std::chrono::milliseconds timeout)
      : invocation_(invocation), type_(std::move(type)), path_(std::move(path)), timeout_(timeout) {}
  [[nodiscard]] CniResult<std::string> run(const Changes& changes, std::chrono::milliseconds timeout,
                                           bool stoppable = true) const;
  [[nodiscard]] CniResult<std::string> run_with(const std::string& input, const Changes& changes,
                                                std::chrono::milliseconds timeout, bool stoppable,
                                                const std::function<void()>& meanwhile = {}) const;

  const Invocation& invocation_;
  // add() began something that has to be taken back.
  mutable bool began_ = false;
  std::string type_;
  std::string path_;
  std::chrono::milliseconds timeout_;
};

// A copy of our environment with some variables set to other values; their places stay.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes);

}  // namespace poduplink
