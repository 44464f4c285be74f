// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <span>

#include "loader/base/file.h"
#include "loader/ctl/cni_files.h"
#include "loader/ctl/install.h"
#include "maps/paths.h"
#include "maps/record.h"

namespace poduplink::ctl {
namespace {

constexpr std::size_t named_at_most = 3;

std::string name_of(const Record& record) {
  const auto pod = record.labels.find("K8S_POD_NAME");
  if (pod != record.labels.end()) return pod->second;
  return "container " + record.id.container_id.substr(0, 12);
}

std::string some_names(const std::vector<std::string>& all) {
  const std::string text = joined(std::span(all).first(std::min(all.size(), named_at_most)), ", ");
  return all.size() > named_at_most ? text + ", …" : text;
}

Result<> refuse_while_in_use(const Settings& settings, const UninstallRequest& request, std::size_t& attachments) {
  PDL_TRY_ASSIGN(const std::vector<Record> records, load_records(settings.run_dir));
  attachments = records.size();
  if (request.force || request.part == Part::conflist) return {};
  if (!records.empty()) {
    std::vector<std::string> names;
    names.reserve(records.size());
    for (const Record& record : records) names.push_back(name_of(record));
    return fail("{} attached ({}): to remove a pod its runtime needs the plugins; drain the node, or --force",
                records.size() == 1 ? "a pod is" : formatted("{} pods are", records.size()), some_names(names));
  }
  PDL_TRY_ASSIGN(const auto others, networks_of_ours(request.places.conf_dir, request.places.conflist_name));
  if (!others.empty())
    return fail("{} in {} would lack the plugins; --force removes them all the same", some_names(others),
                request.places.conf_dir);
  return {};
}

// Removes the file where `is_ours` says so of its content.
template <typename IsOurs>
Result<> remove_ours(View& view, const std::string& folder, const std::string& name, IsOurs is_ours) {
  const std::string path = formatted("{}/{}", folder, name);
  PDL_TRY(remove_drafts(folder, name));
  const auto text = read_file(path);
  if (!text && text.error().code != ENOENT) return Failure(text.error());
  if (text && !is_ours(*text)) {
    add_file(view, path, "left", "it is not ours");
    return {};
  }
  if (text) PDL_TRY(remove_file(path));
  add_file(view, path, text ? "removed" : "absent", "");
  return {};
}

}  // namespace

Result<View> uninstall_view(const Settings& settings, const UninstallRequest& request) {
  const CniPlaces& places = request.places;
  View view = view_of_files();
  std::size_t attachments = 0;
  PDL_TRY(refuse_while_in_use(settings, request, attachments));
  view.document["attachments"] = attachments;
  auto lock = lock_folder(places.bin_dir);
  if (!lock && lock.error().code != ENOENT) return Failure(lock.error());

  if (request.part != Part::plugins)
    PDL_TRY(remove_ours(view, places.conf_dir, places.conflist_name, [](const std::string& text) {
      const auto list = parse_conflist(text);
      return list && list->is_ours();
    }));
  for (const char* name : plugin_names) {
    if (request.part == Part::conflist) break;
    PDL_TRY(remove_ours(view, places.bin_dir, name, [](const std::string& text) { return !!version_in(text); }));
  }
  if (attachments > 0 && request.part != Part::conflist)
    view.remarks.push_back(
        {Tone::warning, formatted("pods are still attached ({}): their runtime cannot remove them", attachments)});
  return view;
}

}  // namespace poduplink::ctl
