// SPDX-License-Identifier: Apache-2.0
// Whole files: bounded reads and writes that another process sees either entirely or not at all.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/base/result.h"

namespace poduplink {

// Reads all of `fd` up to end of file. Errors: EFBIG past `limit` octets, errno of read.
Result<std::string> read_all(int fd, std::size_t limit);

// Reads a whole file. Errors: ENOENT where it is absent, EFBIG past `limit` octets, errno of open and read.
Result<std::string> read_file(const std::string& path, std::size_t limit = std::size_t{16} << 20);

// Writes all of `text` to `fd`, over EINTR and partial writes. Errors: errno of write.
Result<> write_all(int fd, std::string_view text);

// A file that is written, and not yet in its place: a temporary one beside it (is_draft_of()), synced to disk. Where
// several files go together, all are staged before the first is put in place.
class StagedFile {
 public:
  // Mode bits as given, whatever the umask. Errors: errno of the failing step, and no temporary file remains.
  static Result<StagedFile> write(const std::string& path, std::string_view text, unsigned mode);
  // The temporary file has this name, of the same folder. One that a killed writer left is overwritten: for callers
  // that hold a lock against all other writers.
  static Result<StagedFile> write_as(const std::string& temporary, const std::string& path, std::string_view text,
                                     unsigned mode);
  StagedFile(StagedFile&& other) noexcept
      : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})) {}
  StagedFile& operator=(StagedFile&&) = delete;
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  ~StagedFile();  // takes the temporary file away where it was not put in place

  // By rename: whoever has the old file open, or runs it, keeps it. Errors: errno of rename; the old file stays.
  Result<> put_in_place();

 private:
  StagedFile(std::string path, std::string temporary) : path_(std::move(path)), temporary_(std::move(temporary)) {}
  [[nodiscard]] Result<> fill(int fd, std::string_view text, unsigned mode) const;
  std::string path_;
  std::string temporary_;
};

// Whether `name` is that of a temporary file for `target`, which a writer that was killed left.
bool is_draft_of(std::string_view name, std::string_view target);

// Replaces `path` by temporary file in the same folder, fsync and rename. Mode bits as given, whatever the
// umask. Errors: errno of the failing step; the old file stays and no temporary one remains.
Result<> write_file_atomically(const std::string& path, std::string_view text, unsigned mode = 0600);

// Unlinks a file; one that is absent is no error.
Result<> remove_file(const std::string& path);

// mkdir -p. Existing folders keep their mode.
Result<> make_directories(const std::string& path, unsigned mode = 0700);

// Names in a folder without "." and "..", sorted. An absent folder is ENOENT.
Result<std::vector<std::string>> list_directory(const std::string& path);

}  // namespace poduplink
