// SPDX-License-Identifier: Apache-2.0
// Whether a folder has other entries than it had, for one stat() instead of a look at thousands of files.
#pragma once

#include <sys/stat.h>

#include <string>

#include "loader/base/result.h"

namespace poduplink {

class FolderStamp {
 public:
  // True where entries may have been added, removed or renamed since the last call; also at the first one, and where
  // the last change is too young to be told from the next. What is written into a file does not count.
  // Errors: errno of stat(); the next call then says true.
  Result<bool> changed(const std::string& folder);

 private:
  bool settled_ = false;
  struct stat seen_{};
};

}  // namespace poduplink
