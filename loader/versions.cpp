// SPDX-License-Identifier: Apache-2.0
#include "loader/versions.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "loader/attach.h"
#include "loader/base/file.h"
#include "loader/pins.h"
#include "loader/snapshot.h"
#include "maps/bpf.h"
#include "maps/paths.h"
#include "maps/podprog.h"

namespace poduplink {
namespace {

void note(std::vector<std::string>& problems, const Result<>& result) {
  if (!result) problems.push_back(result.error().message);
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

Result<std::vector<std::string>> other_versions(const std::string& pin_dir, const std::string& own) {
  std::vector<std::string> folders;
  PDL_TRY_ASSIGN(const auto names, list_directory(pin_dir));
  for (const std::string& name : names) {
    const bool version =
        name.size() > 1 && name[0] == 'v' && name.find_first_not_of("0123456789", 1) == std::string::npos;
    const std::string folder = formatted("{}/{}", pin_dir, name);
    if (version && folder != own) folders.push_back(folder);
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

std::vector<std::string> restore_programs(Netlink& netlink, const std::string& folder, const Records& records,
                                          const std::vector<Link>& links) {
  std::vector<std::string> problems;
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

std::vector<std::string> retire_version(const std::string& folder) {
  std::vector<std::string> problems;
  for (const std::string& part : {folder + "/links", folder + "/progs", folder}) {
    const auto names = list_directory(part);
    if (!names) continue;
    for (const std::string& name : *names) {
      const std::string path = formatted("{}/{}", part, name);
      const auto kind = pin_kind(path);
      if (kind && (*kind == PinKind::map || *kind == PinKind::program || *kind == PinKind::link))
        note(problems, remove_file(path));
    }
    if (::rmdir(part.c_str()) != 0) problems.push_back(formatted("{}: {}", part, errno_text(errno)));
  }
  return problems;
}

}  // namespace poduplink
