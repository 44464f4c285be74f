// SPDX-License-Identifier: Apache-2.0
// The two locks that plugin and agent share.
//
//  1. GlobalLock is held around every read-modify-write of maps and records, and never while another program
//     runs, netlink waits or a sleep is taken: it is held for microseconds.
//  2. AttachmentLock is held by the plugin for a whole verb of one attachment. The agent and GC only try it.
//  3. Order: AttachmentLock first, GlobalLock second. Nobody takes them the other way round.
//  4. Lock files are never unlinked; their descriptors are close-on-exec, so no child keeps a lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "loader/base/fd.h"
#include "loader/base/result.h"

namespace poduplink {

// Takes an exclusive flock(2) on an open file or folder, which `path` names in errors. Errors: EAGAIN when it was not
// free within `patience`.
Result<> flock_within(int fd, const std::string& path, std::chrono::milliseconds patience);

// flock(2) on RUN_DIR/lock. Freed by the destructor.
class GlobalLock {
 public:
  // Makes RUN_DIR where it is missing; waits at most `patience`, which is there for a holder that does not go on: a
  // hundred verbs at once on a busy machine are no error. Errors: EAGAIN when it was not free by then.
  static Result<GlobalLock> take(const std::string& run_dir,
                                 std::chrono::milliseconds patience = std::chrono::seconds(60));

 private:
  explicit GlobalLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

// An open-file-description lock of one octet at the attachment's hash in RUN_DIR/attachments.lock.
class AttachmentLock {
 public:
  // Errors: EAGAIN when it was not free within `patience`.
  static Result<AttachmentLock> take(const std::string& run_dir, std::uint64_t hash,
                                     std::chrono::milliseconds patience);
  // Nothing where somebody else holds it.
  static Result<std::optional<AttachmentLock>> try_take(const std::string& run_dir, std::uint64_t hash);

 private:
  explicit AttachmentLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace poduplink
