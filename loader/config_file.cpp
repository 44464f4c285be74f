// SPDX-License-Identifier: Apache-2.0
#include "loader/config_file.h"

#include <cerrno>
#include <utility>

#include "loader/base/file.h"

namespace poduplink {
namespace {

Result<AgentConfig> parse_file(const std::string& path, const std::string& text) {
  auto config = parse_config(text);
  if (!config) return fail_within(std::move(config.error()), path);
  return config;
}

}  // namespace

Result<AgentConfig> ConfigFile::load() {
  auto text = read_file(path_);
  if (!text && text.error().code == ENOENT && !named_) return AgentConfig();
  if (!text) return Failure(std::move(text.error()));
  text_ = std::move(*text);
  return parse_file(path_, *text_);
}

Result<std::optional<AgentConfig>> ConfigFile::look(bool asked) {
  auto text = read_file(path_);
  if (!text && text.error().code == ENOENT) {
    const bool was_there = std::exchange(text_, std::nullopt).has_value();
    if (was_there || (asked && named_)) return fail_errno(ENOENT, "{} is gone", path_);
    return std::optional<AgentConfig>();
  }
  if (!text) return Failure(std::move(text.error()));
  if (text_ == *text && !asked) return std::optional<AgentConfig>();
  text_ = std::move(*text);
  PDL_TRY_ASSIGN(AgentConfig config, parse_file(path_, *text_));
  return std::optional(std::move(config));
}

}  // namespace poduplink
