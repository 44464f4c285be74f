// SPDX-License-Identifier: Apache-2.0
#include "loader/ctl/install.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <thread>

#include "loader/base/file.h"
#include "loader/base/version.h"
#include "loader/ctl/cni_files.h"
#include "loader/ctl/plugin_check.h"
#include "maps/agent_state.h"
#include "maps/paths.h"

namespace poduplink::ctl {
namespace {

constexpr const char* packaged_plugins = "/usr/libexec/poduplink";
constexpr unsigned program_mode = 0755;
constexpr unsigned conflist_mode = 0644;
constexpr unsigned folder_mode = 0755;
constexpr auto look_pause = std::chrono::milliseconds(100);

// One file, what it becomes, and what is there.
struct Wanted {
  std::string path;
  std::string text;
  unsigned mode = 0;
  std::string what;  // "new", "replaced", "unchanged"
  std::string note;
};

// ---- what is to be installed ----

std::string plugin_folder(const std::string& asked) {
  if (!asked.empty()) return asked;
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  // A folder with this program and no plugin is where a package puts what people call.
  if (!error && std::filesystem::exists(own / plugin_names[0], error)) return own.string();
  return packaged_plugins;
}

Result<std::string> read_plugin(const std::string& path) {
  PDL_TRY_ASSIGN(std::string program, read_file(path));
  if (!version_in(program)) return fail("{} is no plugin of poduplink", path);
  return program;
}

// Nothing where none is named and there is no default one.
Result<std::optional<Conflist>> read_conflist(const InstallRequest& request) {
  const std::string path = request.conflist.empty() ? default_conflist : request.conflist;
  const auto text = read_file(path);
  const bool needed = !request.conflist.empty() || request.part == Part::conflist;
  if (!text && text.error().code == ENOENT && !needed) return std::optional<Conflist>();
  if (!text) return Failure(text.error());
  auto list = parse_conflist(*text);
  if (!list) return fail("{} {}", path, list.error().message);
  if (!list->is_ours()) return fail("{} calls no plugin of poduplink", path);
  return std::optional(std::move(*list));
}

// As the plugins themselves read it: those that are to be installed, or were before.
Result<> check_conflist(const Conflist& list, const std::string& folder, const std::string& bin_dir) {
  const std::string cni_path = folder + ":" + bin_dir;
  for (const Json& plugin : list.plugins) {
    if (plugin.at("type") != plugin_names[0]) continue;
    const auto judged = check_plugin_config(formatted("{}/{}", folder, plugin_names[0]), plugin, cni_path);
    if (!judged) return fail("network '{}': {}", list.name, judged.error().message);
    if (plugin.at("ipam").at("type") != plugin_names[1]) continue;
    const auto pools = check_plugin_config(formatted("{}/{}", folder, plugin_names[1]), plugin, cni_path);
    if (!pools) return fail("network '{}': ipam: {}", list.name, pools.error().message);
  }
  return {};
}

// ---- what is there ----

// The content of a file; nothing where there is none. A link stands for the file that it leads to, and is replaced
// itself.
Result<std::optional<std::string>> present_file(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return std::optional<std::string>();
    return fail_errno(errno, "{}", path);
  }
  if (!S_ISREG(status.st_mode)) return fail("{} is there and is no file", path);
  PDL_TRY_ASSIGN(std::string text, read_file(path));
  return std::optional(std::move(text));
}

bool has_mode(const std::string& path, unsigned mode) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && (status.st_mode & 0777U) == mode;
}

Result<> compare(Wanted& wanted, bool may_be_replaced, const std::string& refusal) {
  PDL_TRY_ASSIGN(const auto present, present_file(wanted.path));
  if (!present) {
    wanted.what = "new";
  } else if (*present == wanted.text && has_mode(wanted.path, wanted.mode)) {
    wanted.what = "unchanged";
  } else if (may_be_replaced || *present == wanted.text) {
    wanted.what = "replaced";
  } else {
    return fail("{} {}", wanted.path, refusal);
  }
  return {};
}

Result<Wanted> wanted_plugin(const InstallRequest& request, const std::string& folder, const std::string& name) {
  PDL_TRY_ASSIGN(std::string program, read_plugin(formatted("{}/{}", folder, name)));
  Wanted wanted{.path = formatted("{}/{}", request.places.bin_dir, name),
                .text = std::move(program),
                .mode = program_mode,
                .what = {},
                .note = {}};
  wanted.note = *version_in(wanted.text);
  PDL_TRY_ASSIGN(const auto present, present_file(wanted.path));
  const auto before = present ? version_in(*present) : std::nullopt;
  PDL_TRY(compare(wanted, request.force || before, "is no plugin of poduplink; --force replaces it"));
  if (wanted.what == "replaced" && before && *before != wanted.note) wanted.note += ", was " + *before;
  return wanted;
}

Result<Wanted> wanted_conflist(const InstallRequest& request, const Conflist& list) {
  Wanted wanted{.path = request.places.conflist(),
                .text = list.text,
                .mode = conflist_mode,
                .what = {},
                .note = formatted("network '{}'", list.name)};
  PDL_TRY(compare(wanted, request.force, "is another one than the one to be installed; --force replaces it"));
  return wanted;
}

// What a runtime would make of it, which is no reason not to install it.
Result<> add_remarks(View& view, const InstallRequest& request, const Conflist& list) {
  for (const std::string& type : list.types()) {
    if (!is_plugin_of_ours(type) && ::access(formatted("{}/{}", request.places.bin_dir, type).c_str(), X_OK) != 0)
      view.remarks.push_back(
          {Tone::warning, formatted("plugin '{}' of network '{}' is not in {}: pods cannot be added where the runtime "
                                    "has no other folder",
                                    type, list.name, request.places.bin_dir)});
  }
  PDL_TRY_ASSIGN(const std::vector<std::string> others, network_files(request.places.conf_dir));
  if (!others.empty() && others.front() < request.places.conflist_name)
    view.remarks.push_back({Tone::warning, formatted("{}/{} comes first: kubelet's runtime takes that network",
                                                     request.places.conf_dir, others.front())});
  return {};
}

// ---- the agent ----

struct Readiness {
  bool ready = false;
  std::string why;  // not
};

std::optional<timespec> modified(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_mtim;
}

// An agent of this build has said so since it started. Not by looking for its process, which may be in another PID
// namespace: it writes its lock when it starts, and agent.json afterwards.
Readiness readiness(const std::string& run_dir) {
  const auto state = load_agent_state(run_dir);
  if (!state) return {.ready = false, .why = state.error().message};
  const auto said = modified(agent_state_path(run_dir));
  if (!*state || !said) return {.ready = false, .why = "there is no " + agent_state_path(run_dir)};
  if ((*state)->version != build_version())
    return {.ready = false,
            .why = formatted("the agent is version {}, and this is {}", (*state)->version, build_version())};
  const auto started = modified(run_dir + "/agent.lock");
  if (started && std::pair(said->tv_sec, said->tv_nsec) < std::pair(started->tv_sec, started->tv_nsec))
    return {.ready = false, .why = "it is starting"};
  return {.ready = (*state)->ready, .why = joined((*state)->reasons, "; ")};
}

Result<> wait_until_ready(const std::string& run_dir, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const Readiness now = readiness(run_dir);
    if (now.ready) return {};
    if (std::chrono::steady_clock::now() >= deadline)
      return fail("nothing was installed: the agent was not ready within {} s: {}", patience.count() / 1000, now.why);
    std::this_thread::sleep_for(look_pause);
  }
}

// ---- all together ----

// Written beside their places first: a full disk, for one, is found before anything has changed.
Result<> put_all(const std::vector<Wanted>& files) {
  std::vector<StagedFile> staged;
  for (const Wanted& file : files) {
    if (file.what == "unchanged") continue;
    PDL_TRY_ASSIGN(StagedFile one, StagedFile::write(file.path, file.text, file.mode));
    staged.push_back(std::move(one));
  }
  for (StagedFile& one : staged) PDL_TRY(one.put_in_place());
  return {};
}

}  // namespace

Result<View> install_view(const Settings& settings, const InstallRequest& request) {
  View view = view_of_files();
  const std::string folder = plugin_folder(request.source);
  std::optional<Conflist> list;
  if (request.part != Part::plugins) {
    PDL_TRY_ASSIGN(list, read_conflist(request));
    if (list) PDL_TRY(check_conflist(*list, folder, request.places.bin_dir));
  }
  // The agent first: after an upgrade the new plugins need the new agent's maps.
  if (request.ready_within.count() > 0) PDL_TRY(wait_until_ready(settings.run_dir, request.ready_within));
  PDL_TRY(make_directories(request.places.bin_dir, folder_mode));
  if (list) PDL_TRY(make_directories(request.places.conf_dir, folder_mode));
  PDL_TRY_ASSIGN(const Fd lock, lock_folder(request.places.bin_dir));

  std::vector<Wanted> files;
  for (const char* name : plugin_names) {
    if (request.part == Part::conflist) break;
    PDL_TRY_ASSIGN(Wanted plugin, wanted_plugin(request, folder, name));
    files.push_back(std::move(plugin));
    PDL_TRY(remove_drafts(request.places.bin_dir, name));
  }
  if (list) {
    PDL_TRY_ASSIGN(Wanted conflist, wanted_conflist(request, *list));
    files.push_back(std::move(conflist));  // last
    PDL_TRY(remove_drafts(request.places.conf_dir, request.places.conflist_name));
    PDL_TRY(add_remarks(view, request, *list));
  } else if (request.part == Part::all) {
    view.remarks.push_back(
        {Tone::plain, formatted("without a conflist: there is no {}, and --conflist names none", default_conflist)});
  }
  PDL_TRY(put_all(files));
  for (const Wanted& file : files) add_file(view, file.path, file.what, file.note);
  return view;
}

}  // namespace poduplink::ctl
