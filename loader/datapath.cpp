// SPDX-License-Identifier: Apache-2.0
#include "loader/datapath.h"

#include <bpf/libbpf.h>
#include <datapath.skel.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

#include "loader/base/file.h"
#include "loader/base/log.h"
#include "loader/pins.h"
#include "maps/bpf.h"
#include "maps/paths.h"
#include "maps/tables.h"

namespace poduplink {
namespace {

constexpr std::array program_names{pod_egress_program, uplink_ingress_program, uplink_egress_program};

// The last warning of libbpf says why a load failed; its return value is an errno alone.
std::string last_warning;

int log_libbpf(libbpf_print_level level, const char* format, va_list arguments) {
  std::array<char, 2048> text{};
  // The format is libbpf's.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int size = std::vsnprintf(text.data(), text.size(), format, arguments);
#pragma GCC diagnostic pop
  std::string line(text.data());
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (level == LIBBPF_WARN) last_warning = line;
  log_debug("libbpf: {}", line);
  return size;
}

std::string why_libbpf_failed() {
  constexpr std::size_t most = 400;
  const std::string text =
      last_warning.size() > most ? "…" + last_warning.substr(last_warning.size() - most) : last_warning;
  return text.empty() ? text : " (" + text + ")";
}

// Maps of the program's own data have names with a dot and are never pinned.
bool is_pinned_map(const bpf_map* map) { return !bpf_map__is_internal(map); }

std::uint32_t wanted_entries(const MapSizes& sizes, const std::string& name, std::uint32_t otherwise) {
  if (name == "pods4" || name == "pods6") return sizes.pods;
  if (name == "nodes4" || name == "nodes6") return sizes.nodes;
  if (name == "uplinks" || name == "uplink_stats") return sizes.uplinks;
  if (name == "exempt4" || name == "exempt6") return sizes.exempt;
  return otherwise;
}

Result<> expect_kind(const std::string& path, PinKind wanted) {
  PDL_TRY_ASSIGN(const PinKind kind, pin_kind(path));
  if (kind == PinKind::absent || kind == wanted) return {};
  return fail_errno(EEXIST, "{} is {} where {} belongs; it is left untouched", path, pin_kind_name(kind),
                    pin_kind_name(wanted));
}

// Opens a pinned map that is the one this build means. Nothing where there is no pin.
Result<Fd> adoptable_map(const std::string& path, const bpf_map* map) {
  PDL_TRY(expect_kind(path, PinKind::map));
  auto fd = bpf::open_pinned(path);
  if (!fd && fd.error().code == ENOENT) return Fd();
  if (!fd) return fd;
  PDL_TRY_ASSIGN(const bpf::MapInfo info, bpf::map_info(fd->get()));
  const bool same = info.type == static_cast<std::uint32_t>(bpf_map__type(map)) &&
                    info.key_size == bpf_map__key_size(map) && info.value_size == bpf_map__value_size(map) &&
                    info.flags == bpf_map__map_flags(map) && info.name == bpf_map__name(map);
  if (!same)
    return fail_errno(EEXIST, "{} is another map ('{}', type {}, key {} and value {} octets); it is left untouched",
                      path, info.name, info.type, info.key_size, info.value_size);
  if (info.max_entries != bpf_map__max_entries(map))
    log_warning("map {} keeps its {} entries; mapSizes says {}, which holds after --unload", info.name,
                info.max_entries, bpf_map__max_entries(map));
  return fd;
}

Result<> check_program_pin(const std::string& path, const char* name) {
  PDL_TRY(expect_kind(path, PinKind::program));
  const auto fd = bpf::open_pinned(path);
  if (!fd) return {};
  PDL_TRY_ASSIGN(const bpf::ProgramInfo info, bpf::program_info(fd->get()));
  if (info.name != name)
    return fail_errno(EEXIST, "{} is the program '{}' of something else; it is left untouched", path, info.name);
  return {};
}

// Every name that a start writes, looked at before any is written.
Result<> check_names(const std::string& pin_dir, const std::string& folder) {
  PDL_TRY(expect_kind(pin_dir, PinKind::folder));
  PDL_TRY(expect_kind(folder, PinKind::folder));
  PDL_TRY(expect_kind(folder + "/progs", PinKind::folder));
  PDL_TRY(expect_kind(folder + "/links", PinKind::folder));
  for (const char* name : program_names) PDL_TRY(check_program_pin(program_pin(folder, name), name));
  PDL_TRY(expect_kind(current_link(pin_dir), PinKind::symlink));
  const auto abi = current_abi(pin_dir);
  if (!abi && abi.error().code == ENOENT) return {};
  if (!abi) return Failure(abi.error());
  if (*abi != PDL_ABI_VERSION) PDL_TRY(expect_kind(version_dir(pin_dir, *abi), PinKind::folder));
  return {};
}

Result<> prepare_maps(pdl_datapath* skeleton, const MapSizes& sizes, const std::string& folder) {
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, skeleton->obj) {
    if (!is_pinned_map(map)) continue;
    const std::string name = bpf_map__name(map);
    const std::uint32_t entries = wanted_entries(sizes, name, bpf_map__max_entries(map));
    if (const int code = bpf_map__set_max_entries(map, entries); code != 0)
      return fail_errno(-code, "size of map {}", name);
    PDL_TRY_ASSIGN(const Fd pinned, adoptable_map(map_pin(folder, name), map));
    if (!pinned) continue;
    // libbpf keeps a duplicate.
    if (const int code = bpf_map__reuse_fd(map, pinned.get()); code != 0)
      return fail_errno(-code, "adopting map {}", name);
  }
  return {};
}

Result<pdl_datapath*> open_skeleton(const DatapathOptions& options) {
  last_warning.clear();
  pdl_datapath* skeleton = pdl_datapath__open();
  if (skeleton == nullptr) return fail_errno(errno, "opening the programs{}", why_libbpf_failed());
  skeleton->rodata->config.conntrack = options.conntrack ? 1 : 0;
  skeleton->rodata->config.steer_node = options.steer_node ? 1 : 0;
  return skeleton;
}

Result<> load_skeleton(pdl_datapath* skeleton) {
  if (const int code = pdl_datapath__load(skeleton); code != 0)
    return fail_errno(-code, "loading the programs{}", why_libbpf_failed());
  return {};
}

}  // namespace

void route_libbpf_messages() { libbpf_set_print(&log_libbpf); }

void Datapath::Destroy::operator()(pdl_datapath* skeleton) const { pdl_datapath__destroy(skeleton); }

Datapath::Datapath(DatapathOptions options, std::string folder, pdl_datapath* skeleton)
    : options_(std::move(options)), folder_(std::move(folder)), skeleton_(skeleton) {}
Datapath::Datapath(Datapath&& other) noexcept = default;
Datapath& Datapath::operator=(Datapath&& other) noexcept = default;
Datapath::~Datapath() = default;

Result<Datapath> Datapath::load(const DatapathOptions& options) {
  const std::string folder = version_dir(options.pin_dir, PDL_ABI_VERSION);
  PDL_TRY(check_names(options.pin_dir, folder));
  PDL_TRY_ASSIGN(pdl_datapath * skeleton, open_skeleton(options));
  Datapath datapath(options, folder, skeleton);
  PDL_TRY(prepare_maps(skeleton, options.sizes, folder));
  PDL_TRY(load_skeleton(skeleton));
  return datapath;
}

std::optional<std::string> Datapath::folder_before() const {
  const auto abi = current_abi(options_.pin_dir);
  if (!abi || *abi == PDL_ABI_VERSION) return std::nullopt;
  return version_dir(options_.pin_dir, *abi);
}

int Datapath::program_fd(const std::string& name) const {
  const bpf_program* program = bpf_object__find_program_by_name(skeleton_->obj, name.c_str());
  return program == nullptr ? -1 : bpf_program__fd(program);
}

Result<> Datapath::make_folders() const {
  PDL_TRY(make_directories(folder_ + "/progs"));
  return make_directories(folder_ + "/links");
}

Result<> Datapath::each_map(const std::function<Result<>(int, const std::string&)>& visit) const {
  const bpf_map* map = nullptr;
  bpf_object__for_each_map(map, skeleton_->obj) {
    if (is_pinned_map(map)) PDL_TRY(visit(bpf_map__fd(map), map_pin(folder_, bpf_map__name(map))));
  }
  return {};
}

Result<> Datapath::pin() const {
  std::vector<std::string> made;
  const auto pin_all = [&]() -> Result<> {
    PDL_TRY(make_folders());
    PDL_TRY(each_map([&](int map, const std::string& path) -> Result<> {
      const Result<> pinned = bpf::pin(map, path);
      if (pinned) made.push_back(path);
      if (!pinned && pinned.error().code != EEXIST) return pinned;
      return {};
    }));
    for (const char* name : program_names) PDL_TRY(replace_pin(program_fd(name), program_pin(folder_, name)));
    return {};
  };
  Result<> done = pin_all();
  if (done) return done;
  for (const std::string& path : made) {
    if (const auto removed = remove_file(path); !removed) log_warning("{}", removed.error().message);
  }
  // Folders with something in them stay: rmdir refuses.
  for (const std::string& path : {folder_ + "/progs", folder_ + "/links", folder_, options_.pin_dir})
    (void)::rmdir(path.c_str());
  return done;
}

Result<std::vector<std::string>> Datapath::mend_pins() const {
  std::vector<std::string> mended;
  PDL_TRY(make_folders());
  PDL_TRY(each_map([&](int map, const std::string& path) -> Result<> {
    PDL_TRY_ASSIGN(const bpf::MapInfo ours, bpf::map_info(map));
    PDL_TRY(expect_kind(path, PinKind::map));
    const auto pinned = bpf::open_pinned(path);
    if (pinned) {
      PDL_TRY_ASSIGN(const bpf::MapInfo info, bpf::map_info(pinned->get()));
      if (info.id == ours.id) return {};
    }
    PDL_TRY(pinned ? replace_pin(map, path) : bpf::pin(map, path));
    mended.push_back(path);
    return {};
  }));
  for (const char* name : program_names) {
    const std::string path = program_pin(folder_, name);
    PDL_TRY_ASSIGN(const bpf::ProgramInfo ours, bpf::program_info(program_fd(name)));
    PDL_TRY(check_program_pin(path, name));
    const auto pinned = bpf::open_pinned(path);
    const auto info = pinned ? bpf::program_info(pinned->get()) : Result<bpf::ProgramInfo>(Failure(pinned.error()));
    if (info && info->id == ours.id) continue;
    PDL_TRY(replace_pin(program_fd(name), path));
    mended.push_back(path);
  }
  const auto abi = current_abi(options_.pin_dir);
  if (!abi || *abi != PDL_ABI_VERSION) {
    PDL_TRY(expect_kind(current_link(options_.pin_dir), PinKind::symlink));
    PDL_TRY(make_current());
    mended.push_back(current_link(options_.pin_dir));
  }
  return mended;
}

Result<> Datapath::make_current() const {
  return replace_symlink(formatted("v{}", PDL_ABI_VERSION), current_link(options_.pin_dir));
}

Result<Fd> Datapath::load_again(const std::string& name) const {
  PDL_TRY_ASSIGN(pdl_datapath * skeleton, open_skeleton(options_));
  const Datapath second(options_, folder_, skeleton);
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton->obj)
      bpf_program__set_autoload(program, name == bpf_program__name(program));
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, skeleton->obj) {
    const bpf_map* own = bpf_object__find_map_by_name(skeleton_->obj, bpf_map__name(map));
    if (!is_pinned_map(map) || own == nullptr) continue;
    if (const int code = bpf_map__reuse_fd(map, bpf_map__fd(own)); code != 0)
      return fail_errno(-code, "map {}", bpf_map__name(map));
  }
  PDL_TRY(load_skeleton(skeleton));
  Fd copy(::fcntl(second.program_fd(name), F_DUPFD_CLOEXEC, 0));
  if (!copy) return fail_errno(errno, "program {}", name);
  return copy;
}

}  // namespace poduplink
