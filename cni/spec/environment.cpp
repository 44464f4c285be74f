// SPDX-License-Identifier: Apache-2.0
#include "cni/spec/environment.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "loader/base/address.h"

namespace poduplink {
namespace {

constexpr std::array<std::pair<std::string_view, Verb>, 6> verbs = {{{"ADD", Verb::add},
                                                                     {"DEL", Verb::del},
                                                                     {"CHECK", Verb::check},
                                                                     {"GC", Verb::gc},
                                                                     {"STATUS", Verb::status},
                                                                     {"VERSION", Verb::version}}};

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_true(std::string_view text) {
  return text == "1" || (text.size() == 4 && std::ranges::equal(text, std::string_view("true"),
                                                                [](char a, char b) { return (a | ' ') == b; }));
}

// What lies between separators, empty parts too.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string_view verb_name(Verb verb) {
  return std::ranges::find(verbs, verb, [](const auto& entry) { return entry.second; })->first;
}

Environment read_environment(GetVariable get) {
  const auto variable = [get](const char* name) -> std::string {
    const char* value = get != nullptr ? get(name) : std::getenv(name);
    return value != nullptr ? value : "";
  };
  Environment environment;
  environment.command = variable("CNI_COMMAND");
  environment.container_id = variable("CNI_CONTAINERID");
  environment.netns = variable("CNI_NETNS");
  environment.ifname = variable("CNI_IFNAME");
  environment.path = variable("CNI_PATH");
  environment.args = variable("CNI_ARGS");
  environment.netns_override = is_true(variable("CNI_NETNS_OVERRIDE"));
  return environment;
}

CniResult<Verb> parse_verb(std::string_view command) {
  const auto* const found = std::ranges::find(verbs, command, [](const auto& entry) { return entry.first; });
  if (found == verbs.end()) return cni_fail(cni_code::bad_environment, "CNI_COMMAND: unknown verb '{}'", command);
  return found->second;
}

CniResult<> check_environment(const Environment& environment, Verb verb) {
  const bool names_attachment = verb == Verb::add || verb == Verb::check || verb == Verb::del;
  std::string missing;
  const auto require = [&missing](const std::string& value, std::string_view name, bool needed) {
    if (!needed || !value.empty()) return;
    if (!missing.empty()) missing += ", ";
    missing += name;
  };
  require(environment.container_id, "CNI_CONTAINERID", names_attachment);
  require(environment.netns, "CNI_NETNS", verb == Verb::add || verb == Verb::check);
  require(environment.ifname, "CNI_IFNAME", names_attachment);
  require(environment.path, "CNI_PATH", verb == Verb::gc);
  if (!missing.empty()) {
    return cni_fail(cni_code::bad_environment, "{} needs these variables: {}", verb_name(verb), missing);
  }
  if (!names_attachment) return {};
  if (!is_valid_identifier(environment.container_id)) {
    return cni_fail(cni_code::bad_environment, "CNI_CONTAINERID: '{}' has characters that are not allowed",
                    environment.container_id);
  }
  if (!is_interface_name(environment.ifname)) {
    return cni_fail(cni_code::bad_environment, "CNI_IFNAME: '{}' cannot be the name of an interface",
                    environment.ifname);
  }
  return {};
}

bool is_valid_identifier(std::string_view text) {
  return !text.empty() && is_alphanumeric(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_alphanumeric(c) || c == '_' || c == '.' || c == '-'; });
}

CniArgs::CniArgs(std::string_view text) {
  for (const std::string_view item : split(text, ';')) {
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    items_.emplace_back(item.substr(0, equals), item.substr(equals + 1));
  }
}

std::optional<std::string> CniArgs::value(std::string_view key) const {
  std::optional<std::string> found;
  for (const auto& [name, value] : items_) {
    if (name == key) found = value;
  }
  return found;
}

std::vector<std::string> plugin_folders(std::string_view cni_path) {
  std::vector<std::string> folders;
  for (const std::string_view folder : split(cni_path, ':')) {
    if (folder.starts_with('/')) folders.emplace_back(folder);
  }
  return folders;
}

CniResult<std::string> find_plugin(std::string_view cni_path, const std::string& type) {
  for (const std::string& folder : plugin_folders(cni_path)) {
    std::string path = formatted("{}/{}", folder, type);
    struct stat status{};
    if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) return path;
  }
  return cni_fail(cni_code::ipam_not_run, "plugin '{}' is in no folder of CNI_PATH '{}'", type, cni_path);
}

}  // namespace poduplink
