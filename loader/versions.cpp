// SPDX-License-Identifier: Apache-2.0
#include "loader/versions.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "loader/attach.h"
#include "loader/base/file.h"
#include "loader/datapath.h"
#include "loader/pins.h"
#include "loader/snapshot.h"
#include "maps/bpf.h"
#include "maps/paths.h"
#include "maps/podprog.h"

namespace poduplink {
namespace {

constexpr std::array map_names{"pods4",   "pods6",    "nodes4",       "nodes6", "uplinks",   "exempt4",
                               "exempt6", "verdicts", "uplink_stats", "events", "fastflows", "generation"};
constexpr std::array program_names{pod_egress_program, uplink_ingress_program, uplink_egress_program};

template <typename Names>
bool contains(const Names& names, const std::string& name) {
  return std::ranges::any_of(names, [&](std::string_view one) { return one == name; });
}

// Whether a pin is what its name says: only then is it ours to remove.
bool is_ours(const std::string& path, const std::string& name, PinKind kind) {
  const auto fd = bpf::open_pinned(path);
  if (!fd) return false;
  if (kind == PinKind::map) {
    const auto info = bpf::map_info(fd->get());
    return info && info->name == name && contains(map_names, name);
  }
  if (kind == PinKind::program) {
    const auto info = bpf::program_info(fd->get());
    // A temporary name is left by a start that was killed between pinning and renaming.
    const std::string base = name.starts_with("new-") ? name.substr(4) : name;
    return info && info->name == base && contains(program_names, base);
  }
  return kind == PinKind::link;
}

bool is_object(PinKind kind) { return kind == PinKind::map || kind == PinKind::program || kind == PinKind::link; }

Result<> detach_and_remove(const std::string& path) {
  PDL_TRY_ASSIGN(const Fd link, bpf::open_pinned(path));
  PDL_TRY(detach_link(link.get()));
  return remove_file(path);
}

void remove_pins(const std::string& folder, PinKind wanted, Removal removal, Problems& problems) {
  const auto names = list_directory(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    const std::string path = formatted("{}/{}", folder, name);
    const auto kind = pin_kind(path);
    if (!kind) {
      note(problems, Failure(kind.error()));
    } else if (removal == Removal::retire && is_object(*kind)) {
      note(problems, remove_file(path));
    } else if (removal == Removal::unload && *kind == wanted && is_ours(path, name, *kind)) {
      note(problems, wanted == PinKind::link ? detach_and_remove(path) : remove_file(path));
    } else if (*kind != PinKind::folder || (name != "progs" && name != "links")) {
      problems.push_back(formatted("{} is {} that is not ours; it is left untouched", path, pin_kind_name(*kind)));
    }
  }
}

Result<> restore_uplink_link(const std::string& folder, const std::string& name) {
  for (const UplinkHook& hook : uplink_hooks) {
    if (!name.ends_with(formatted("-{}", hook.suffix))) continue;
    PDL_TRY_ASSIGN(const Fd program, bpf::open_pinned(program_pin(folder, hook.program)));
    PDL_TRY_ASSIGN(const Fd link, bpf::open_pinned(link_pin(folder, name)));
    const auto updated = bpf::update_link(link.get(), program.get());
    if (!updated && updated.error().code != ENOLINK) return updated;
  }
  return {};
}

Result<> restore_uplink_filters(Netlink& netlink, const std::string& folder, int ifindex) {
  for (const UplinkHook& hook : uplink_hooks) {
    const auto filters = dump_filters(netlink, ifindex, hook.hook);
    if (!filters) continue;
    for (const TcFilter& filter : *filters) {
      if (!is_our_filter(filter, hook.hook, hook.program)) continue;
      PDL_TRY_ASSIGN(const Fd program, bpf::open_pinned(program_pin(folder, hook.program)));
      PDL_TRY(set_bpf_filter(netlink, BpfFilter{.link = ifindex,
                                                .hook = hook.hook,
                                                .priority = filter.priority,
                                                .handle = filter.handle,
                                                .program_fd = program.get(),
                                                .name = hook.program}));
    }
  }
  return {};
}

}  // namespace

bool is_version_name(const std::string& name) {
  return name.size() > 1 && name[0] == 'v' && name.find_first_not_of("0123456789", 1) == std::string::npos;
}

Result<std::vector<std::string>> other_versions(const std::string& pin_dir, const std::string& own) {
  std::vector<std::string> folders;
  PDL_TRY_ASSIGN(const auto names, list_directory(pin_dir));
  for (const std::string& name : names) {
    const std::string folder = formatted("{}/{}", pin_dir, name);
    if (is_version_name(name) && folder != own) folders.push_back(folder);
  }
  return folders;
}

Result<> carry_links(const std::string& from, const std::string& to) {
  const auto names = list_directory(from + "/links");
  if (!names && names.error().code == ENOENT) return {};
  if (!names) return Failure(names.error());
  for (const std::string& name : *names) {
    PDL_TRY_ASSIGN(const PinKind kind, pin_kind(link_pin(from, name)));
    if (kind != PinKind::link) continue;
    PDL_TRY_ASSIGN(const Fd link, bpf::open_pinned(link_pin(from, name)));
    // What an earlier try left there is replaced: its link may be another one by now.
    PDL_TRY(replace_pin(link.get(), link_pin(to, name)));
  }
  return {};
}

Problems restore_programs(Netlink& netlink, const std::string& folder, const Records& records,
                          const std::vector<Link>& links) {
  Problems problems;
  for (const auto& [name, file] : records.files()) {
    const Record& record = file.record;
    const bool living = std::ranges::any_of(
        links, [&](const Link& link) { return link.index == record.host_veth_index && link.name == record.host_veth; });
    if (!file.readable || !living) continue;
    note(problems, attach_pod_program(netlink, folder, record.host_veth, record.host_veth_index, record.mode));
  }
  const auto names = list_directory(folder + "/links");
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    if (uplink_link_index(name) != 0) note(problems, restore_uplink_link(folder, name));
  }
  for (const Link& link : links) {
    if (link.is_ethernet() && !is_pod_veth(link)) note(problems, restore_uplink_filters(netlink, folder, link.index));
  }
  return problems;
}

Result<> remove_folder(const std::string& folder) {
  // Not empty: what is in it was named already.
  if (::rmdir(folder.c_str()) == 0 || errno == ENOENT || errno == ENOTEMPTY) return {};
  return fail_errno(errno, "removing {}", folder);
}

Problems remove_version(const std::string& folder, Removal removal) {
  Problems problems;
  remove_pins(folder + "/links", PinKind::link, removal, problems);
  remove_pins(folder + "/progs", PinKind::program, removal, problems);
  remove_pins(folder, PinKind::map, removal, problems);
  for (const std::string& one : {folder + "/links", folder + "/progs", folder}) note(problems, remove_folder(one));
  return problems;
}

}  // namespace poduplink
