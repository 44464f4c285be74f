// SPDX-License-Identifier: Apache-2.0
// The records as the agent last read them. Thousands of files are not read every few seconds to find that nothing
// has changed: a record is only ever replaced by rename, which changes its folder and its own inode.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <string>

#include "loader/base/result.h"
#include "loader/folder_stamp.h"
#include "maps/record.h"

namespace poduplink {

class Records {
 public:
  explicit Records(std::string run_dir) : run_dir_(std::move(run_dir)) {}

  // Reads what is new since the last time. The caller holds GlobalLock. True where anything had changed. A file that
  // cannot be read is logged once and passed over. Errors: the folder cannot be read.
  Result<bool> refresh();

  // By file name.
  struct File {
    std::uint64_t inode = 0;
    timespec modified{};
    bool readable = false;
    Record record;
  };
  [[nodiscard]] const std::map<std::string, File>& files() const { return files_; }
  // Of pods that run without their external network, by the reason why ("failOpen"): how many, and one of them.
  struct FailedOpen {
    std::size_t pods = 0;
    std::string container_id;
  };
  [[nodiscard]] std::map<std::string, FailedOpen> failed_open() const;

 private:
  Result<bool> refresh_file(const std::string& name, std::map<std::string, File>& fresh);

  std::string run_dir_;
  std::map<std::string, File> files_;
  FolderStamp stamp_;
};

}  // namespace poduplink
