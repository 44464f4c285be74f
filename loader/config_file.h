// SPDX-License-Identifier: Apache-2.0
// The configuration file over the agent's life: read at the start, and again where its content has changed.
#pragma once

#include <optional>
#include <string>

#include "loader/base/result.h"
#include "loader/config.h"

namespace poduplink {

class ConfigFile {
 public:
  // `named`: by the operator, so it must exist; else an absent file is the default configuration.
  ConfigFile(std::string path, bool named) : path_(std::move(path)), named_(named) {}

  // At the start. Errors: all mistakes in one message, which names the file.
  Result<AgentConfig> load();

  // The configuration, where the file's content is not what was last read; also where it is, if `asked`. Nothing
  // otherwise. By content, since a file can be replaced in many ways (rename, symlink, mount) and changed twice
  // within one time stamp. Errors: as load(), once for each new content; a file that is gone.
  Result<std::optional<AgentConfig>> look(bool asked);

 private:
  std::string path_;
  bool named_;
  std::optional<std::string> text_;  // as last read, well or not; nothing: there was no file
};

}  // namespace poduplink
