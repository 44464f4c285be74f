// SPDX-License-Identifier: Apache-2.0
#include "maps/paths.h"

#include "loader/base/format.h"

namespace poduplink {

std::string version_dir(const std::string& pin_dir, unsigned abi) { return formatted("{}/v{}", pin_dir, abi); }
std::string current_link(const std::string& pin_dir) { return pin_dir + "/current"; }

std::string map_pin(const std::string& version_folder, const std::string& map) { return version_folder + "/" + map; }
std::string program_pin(const std::string& version_folder, const std::string& program) {
  return version_folder + "/progs/" + program;
}
std::string link_pin(const std::string& version_folder, const std::string& link) {
  return version_folder + "/links/" + link;
}

std::string global_lock_path(const std::string& run_dir) { return run_dir + "/lock"; }
std::string attachments_lock_path(const std::string& run_dir) { return run_dir + "/attachments.lock"; }
std::string records_dir(const std::string& run_dir) { return run_dir + "/attachments"; }
std::string agent_state_path(const std::string& run_dir) { return run_dir + "/agent.json"; }

}  // namespace poduplink
