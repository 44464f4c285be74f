// SPDX-License-Identifier: Apache-2.0
#include "loader/ctl/cni_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "loader/base/file.h"
#include "loader/base/version.h"
#include "maps/locks.h"

namespace poduplink::ctl {
namespace {

constexpr auto lock_patience = std::chrono::minutes(1);

std::string text_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Result<> check_plugin(const Json& plugin, std::size_t number) {
  if (!plugin.is_object()) return fail("plugins[{}] is no object", number);
  const std::string type = text_at(plugin, "type");
  if (type.empty() || type.contains('/')) return fail("plugins[{}]: 'type' names no plugin", number);
  if (type == plugin_names[0] && text_at(plugin.value("ipam", Json()), "type").empty())
    return fail("plugins[{}]: 'ipam' has no 'type'", number);
  return {};
}

}  // namespace

bool is_plugin_of_ours(const std::string& type) {
  return std::ranges::any_of(plugin_names, [&](const char* name) { return type == name; });
}

std::optional<std::string> version_in(const std::string& program) {
  // Ends with the octet that ends every text of a program. The mark alone, without a version behind it, is in a program
  // that looks for it.
  const std::string_view mark = version_mark();
  for (std::size_t at = program.find(mark); at != std::string::npos; at = program.find(mark, at + 1)) {
    const std::size_t begin = at + mark.size();
    const std::size_t end = program.find('\0', begin);
    if (end != std::string::npos && end > begin && end - begin < 200) return program.substr(begin, end - begin);
  }
  return std::nullopt;
}

std::vector<std::string> Conflist::types() const {
  std::vector<std::string> types;
  for (const Json& plugin : plugins) {
    for (const std::string& type : {text_at(plugin, "type"), text_at(plugin.value("ipam", Json()), "type")}) {
      if (!type.empty() && std::ranges::find(types, type) == types.end()) types.push_back(type);
    }
  }
  return types;
}

bool Conflist::is_ours() const { return std::ranges::any_of(types(), &is_plugin_of_ours); }

Result<Conflist> parse_conflist(const std::string& text) {
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return fail("is no JSON");
  if (!document.is_object()) return fail("is no JSON object");
  Conflist list{.text = text, .name = text_at(document, "name"), .plugins = {}};
  if (list.name.empty()) return fail("has no 'name'");
  if (text_at(document, "cniVersion").empty()) return fail("has no 'cniVersion'");
  const auto plugins = document.find("plugins");
  if (plugins == document.end() || !plugins->is_array() || plugins->empty()) return fail("has no 'plugins'");
  for (const Json& plugin : *plugins) {
    PDL_TRY(check_plugin(plugin, list.plugins.size()));
    list.plugins.push_back(plugin);
    list.plugins.back()["name"] = list.name;
    list.plugins.back()["cniVersion"] = text_at(document, "cniVersion");
  }
  return list;
}

Result<std::vector<std::string>> network_files(const std::string& conf_dir) {
  auto names = list_directory(conf_dir);
  if (!names && names.error().code == ENOENT) return std::vector<std::string>();
  if (!names) return names;
  std::erase_if(*names, [](const std::string& name) {
    return !name.ends_with(".conf") && !name.ends_with(".conflist") && !name.ends_with(".json");
  });
  return names;
}

Result<std::vector<std::string>> networks_of_ours(const std::string& conf_dir, const std::string& except) {
  PDL_TRY_ASSIGN(std::vector<std::string> names, network_files(conf_dir));
  std::erase_if(names, [&](const std::string& name) {
    const auto text = name == except ? Result<std::string>() : read_file(conf_dir + "/" + name);
    if (name == except || !text) return true;
    // A single plugin may be there without a list around it.
    const auto list = parse_conflist(*text);
    return list ? !list->is_ours() : !is_plugin_of_ours(text_at(Json::parse(*text, nullptr, false), "type"));
  });
  return names;
}

Result<Fd> lock_folder(const std::string& folder) {
  PDL_TRY_ASSIGN(Fd fd, open_file(folder, O_RDONLY | O_DIRECTORY));
  const auto taken = flock_within(fd.get(), folder, lock_patience);
  if (!taken && taken.error().code == EAGAIN) return fail_errno(EAGAIN, "another install is at work in {}", folder);
  if (!taken) return Failure(taken.error());
  return fd;
}

Result<> remove_drafts(const std::string& folder, const std::string& name) {
  const auto names = list_directory(folder);
  if (!names && names.error().code == ENOENT) return {};
  if (!names) return Failure(names.error());
  for (const std::string& one : *names) {
    if (is_draft_of(one, name)) PDL_TRY(remove_file(formatted("{}/{}", folder, one)));
  }
  return {};
}

View view_of_files() {
  View view;
  view.document = {{"files", Json::array()}};
  view.sections.push_back({.columns = {{.title = "FILE", .key = "path"},
                                       {.title = "DONE", .key = "what"},
                                       {.title = "NOTE", .key = "note"}},
                           .none = "nothing to do"});
  return view;
}

void add_file(View& view, const std::string& path, const std::string& what, const std::string& note) {
  const Json row = {{"path", path}, {"what", what}, {"note", note}};
  view.document["files"].push_back(row);
  view.sections.front().rows.push_back(row);
}

}  // namespace poduplink::ctl
