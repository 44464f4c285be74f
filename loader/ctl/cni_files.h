// SPDX-License-Identifier: Apache-2.0
// Files in the folders of a container runtime: which are ours, and what they say.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "loader/ctl/view.h"

namespace poduplink::ctl {

inline constexpr std::array<const char*, 2> plugin_names = {"poduplink", "poduplink-ipam"};

// Whether a plugin's type is one of them.
bool is_plugin_of_ours(const std::string& type);

// The version in a program of poduplink, read and not run. Nothing where it is none.
std::optional<std::string> version_in(const std::string& program);

// A network configuration list, as far as poduplink has to know it.
struct Conflist {
  std::string text;
  std::string name;
  std::vector<Json> plugins;

  // Types of its plugins and of their IPAM plugins, each once.
  [[nodiscard]] std::vector<std::string> types() const;
  [[nodiscard]] bool is_ours() const;  // it calls a plugin of poduplink
};

// Errors: text that is no conflist, with what is wrong.
Result<Conflist> parse_conflist(const std::string& text);

// Names of the files that a runtime reads networks from, in the order in which it takes them. An absent folder has
// none.
Result<std::vector<std::string>> network_files(const std::string& conf_dir);

// Names of files, other than `except`, that call a plugin of poduplink.
Result<std::vector<std::string>> networks_of_ours(const std::string& conf_dir, const std::string& except);

// One install or uninstall at a time: a lock on the folder itself, which leaves no file. Errors: EAGAIN after a minute.
Result<Fd> lock_folder(const std::string& folder);

// Temporary files of `name` that a killed install left. Callers hold the folder's lock.
Result<> remove_drafts(const std::string& folder, const std::string& name);

// One line of what was done: "new", "replaced", "unchanged", "removed", "absent", "left".
void add_file(View& view, const std::string& path, const std::string& what, const std::string& note);
View view_of_files();

}  // namespace poduplink::ctl
