// SPDX-License-Identifier: Apache-2.0
// Where things lie. `pin_dir` and `run_dir` are the options --pin-dir, --run-dir, pinDir and runDir.
#pragma once

#include <string>

namespace poduplink {

inline constexpr const char* default_pin_dir = "/sys/fs/bpf/poduplink";
inline constexpr const char* default_run_dir = "/run/poduplink";

// PIN_DIR/v<abi>
std::string version_dir(const std::string& pin_dir, unsigned abi);
// PIN_DIR/current, the symlink that names the version in force.
std::string current_link(const std::string& pin_dir);

// Inside a version folder.
std::string map_pin(const std::string& version_folder, const std::string& map);
std::string program_pin(const std::string& version_folder, const std::string& program);
std::string link_pin(const std::string& version_folder, const std::string& link);

// RUN_DIR/lock, RUN_DIR/attachments.lock, RUN_DIR/attachments/, RUN_DIR/agent.json
std::string global_lock_path(const std::string& run_dir);
std::string attachments_lock_path(const std::string& run_dir);
std::string records_dir(const std::string& run_dir);
std::string agent_state_path(const std::string& run_dir);

}  // namespace poduplink
