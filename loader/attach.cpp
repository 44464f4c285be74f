// SPDX-License-Identifier: Apache-2.0
#include "loader/attach.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "loader/base/file.h"
#include "loader/base/log.h"
#include "loader/pins.h"
#include "maps/bpf.h"
#include "maps/paths.h"
#include "maps/podprog.h"

namespace poduplink {
namespace {

bpf::TcxHook tcx_hook(const UplinkHook& hook) {
  return hook.hook == TcHook::ingress ? bpf::TcxHook::ingress : bpf::TcxHook::egress;
}

bpf::TcxPlace place_of(const UplinkHook& hook) {
  return hook.hook == TcHook::ingress ? bpf::TcxPlace::tail : bpf::TcxPlace::head;
}

std::uint16_t priority_of(TcHook hook) { return hook == TcHook::ingress ? tc_ingress_priority : tc_egress_priority; }

Result<std::uint32_t> program_id(int fd) {
  PDL_TRY_ASSIGN(const bpf::ProgramInfo info, bpf::program_info(fd));
  return info.id;
}

// The link behind a pin, where it still sits on this interface. One whose device is gone keeps its name, so
// its pin is removed; so is one that sits elsewhere.
Result<Fd> usable_link(const std::string& path, int ifindex) {
  PDL_TRY_ASSIGN(const PinKind kind, pin_kind(path));
  if (kind == PinKind::absent) return Fd();
  if (kind != PinKind::link)
    return fail_errno(EEXIST, "{} is {} where a link belongs; it is left untouched", path, pin_kind_name(kind));
  PDL_TRY_ASSIGN(Fd link, bpf::open_pinned(path));
  PDL_TRY_ASSIGN(const bpf::LinkInfo info, bpf::link_info(link.get()));
  if (info.tcx && info.ifindex == static_cast<std::uint32_t>(ifindex)) return link;
  PDL_TRY(remove_file(path));
  return Fd();
}

std::vector<TcFilter> filters_or_none(Netlink& netlink, int ifindex, TcHook hook) {
  auto filters = dump_filters(netlink, ifindex, hook);
  return filters ? std::move(*filters) : std::vector<TcFilter>();
}

// The programs that older agents may have left: pod_egress shares its place with uplink_ingress on a veth.
bool is_any_of_ours(const TcFilter& filter, TcHook hook) {
  return is_our_filter(filter, hook, uplink_ingress_program) || is_our_filter(filter, hook, uplink_egress_program) ||
         is_our_filter(filter, hook, pod_egress_program);
}

}  // namespace

std::string uplink_link_name(int ifindex, const UplinkHook& hook) { return formatted("if{}-{}", ifindex, hook.suffix); }

int uplink_link_index(const std::string& name) {
  int index = 0;
  if (!name.starts_with("if")) return 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + 2, end, index);
  if (error != std::errc{} || index <= 0) return 0;
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  return suffix == "-ingress" || suffix == "-egress" ? index : 0;
}

bool is_our_filter(const TcFilter& filter, TcHook hook, const std::string& program) {
  return filter.kind == "bpf" && filter.handle == tc_handle && filter.priority == priority_of(hook) &&
         filter.name == program;
}

Result<> remove_our_filters(Netlink& netlink, int ifindex, bool made_by_us) {
  bool left = false;
  for (const TcHook hook : {TcHook::ingress, TcHook::egress}) {
    for (const TcFilter& filter : filters_or_none(netlink, ifindex, hook)) {
      if (!is_any_of_ours(filter, hook)) {
        left = true;
        continue;
      }
      const auto deleted = delete_bpf_filter(netlink, ifindex, hook, filter.priority, filter.handle);
      if (!deleted && deleted.error().code != ENOENT && deleted.error().code != ENODEV) return deleted;
    }
  }
  if (!made_by_us || left) return {};
  PDL_TRY_ASSIGN(const IngressQdisc qdisc, ingress_qdisc(netlink, ifindex));
  return qdisc == IngressQdisc::clsact ? delete_clsact(netlink, ifindex) : Result<>();
}

Result<> Attachments::attach(Netlink& netlink, int ifindex) {
  for (const UplinkHook& hook : uplink_hooks) {
    Result<bool> made = use_tcx_ ? attach_link(ifindex, hook) : attach_filter(netlink, ifindex, hook);
    if (!made) return fail_within(std::move(made.error()), hook.program);
    const bool first = known_.insert({ifindex, hook.hook}).second;
    if (*made && !first) ++mended_;
  }
  // What another way of attaching left, now that ours is in force: each packet meets one program a hook.
  if (use_tcx_) return remove_our_filters(netlink, ifindex, memory_->clsact.erase(ifindex) > 0);
  return remove_links(ifindex);
}

Result<> Attachments::remove_links(int ifindex) {
  for (const UplinkHook& hook : uplink_hooks) {
    links_.erase({ifindex, hook.hook});
    const std::string path = link_pin(datapath_->folder(), uplink_link_name(ifindex, hook));
    PDL_TRY_ASSIGN(const PinKind kind, pin_kind(path));
    if (kind != PinKind::link) continue;
    PDL_TRY_ASSIGN(const Fd link, bpf::open_pinned(path));
    PDL_TRY(detach_link(link.get()));
    PDL_TRY(remove_file(path));
  }
  return {};
}

Result<bool> Attachments::attach_link(int ifindex, const UplinkHook& hook) {
  const std::string path = link_pin(datapath_->folder(), uplink_link_name(ifindex, hook));
  const int program = datapath_->program_fd(hook.program);
  PDL_TRY_ASSIGN(Fd link, usable_link(path, ifindex));
  const bool missing = !link;
  if (missing) {
    PDL_TRY_ASSIGN(link, pin_held_link(ifindex, hook, path));
  }
  if (link) {
    PDL_TRY_ASSIGN(const bpf::LinkInfo info, bpf::link_info(link.get()));
    PDL_TRY_ASSIGN(const std::uint32_t wanted, program_id(program));
    if (info.program_id != wanted) PDL_TRY(bpf::update_link(link.get(), program));
  } else {
    PDL_TRY_ASSIGN(link, bpf::attach_tcx(program, ifindex, tcx_hook(hook), place_of(hook)));
    PDL_TRY(bpf::pin(link.get(), path));
  }
  links_[{ifindex, hook.hook}] = std::move(link);
  PDL_TRY_ASSIGN(const bool misplaced, restore_order(ifindex, hook, path));
  return missing || misplaced;
}

Result<Fd> Attachments::pin_held_link(int ifindex, const UplinkHook& hook, const std::string& path) {
  const auto held = links_.find({ifindex, hook.hook});
  if (held == links_.end()) return Fd();
  PDL_TRY_ASSIGN(const bpf::LinkInfo info, bpf::link_info(held->second.get()));
  if (info.ifindex != static_cast<std::uint32_t>(ifindex)) return Fd();
  // Held until it is pinned: the last of both to go takes the program off the interface.
  PDL_TRY(bpf::pin(held->second.get(), path));
  Fd link = std::move(held->second);
  links_.erase(held);
  return link;
}

Result<bool> Attachments::restore_order(int ifindex, const UplinkHook& hook, const std::string& path) {
  const int program = datapath_->program_fd(hook.program);
  PDL_TRY_ASSIGN(const std::uint32_t ours, program_id(program));
  PDL_TRY_ASSIGN(const auto programs, bpf::tcx_programs(ifindex, tcx_hook(hook)));
  if (programs.empty()) return fail_errno(ENODEV, "nothing is attached to interface {}", ifindex);
  const bpf::TcxProgram& expected = hook.hook == TcHook::ingress ? programs.back() : programs.front();
  if (expected.program_id == ours) return false;
  log_info("{} on interface {}: restoring its place among {} programs", hook.program, ifindex, programs.size());
  // A second object of the same program takes the right place before the first one leaves the wrong one.
  PDL_TRY_ASSIGN(const Fd second, datapath_->load_again(hook.program));
  PDL_TRY_ASSIGN(Fd link, bpf::attach_tcx(second.get(), ifindex, tcx_hook(hook), place_of(hook)));
  PDL_TRY(replace_pin(link.get(), path));
  Fd& held = links_[{ifindex, hook.hook}];
  PDL_TRY(detach_link(held.get()));
  held = std::move(link);
  PDL_TRY(bpf::update_link(held.get(), program));
  return true;
}

Result<bool> Attachments::attach_filter(Netlink& netlink, int ifindex, const UplinkHook& hook) {
  PDL_TRY_ASSIGN(const IngressQdisc before, ingress_qdisc(netlink, ifindex));
  PDL_TRY(ensure_clsact(netlink, ifindex));
  if (before == IngressQdisc::none) memory_->clsact.insert(ifindex);
  const std::uint16_t priority = priority_of(hook.hook);
  bool missing = true;
  for (const TcFilter& filter : filters_or_none(netlink, ifindex, hook.hook)) {
    if (is_our_filter(filter, hook.hook, hook.program)) missing = false;
    const bool same_place = filter.priority == priority && (filter.handle == tc_handle || filter.kind != "bpf");
    if (same_place && !is_our_filter(filter, hook.hook, hook.program))
      return fail_errno(EEXIST, "a foreign {} filter {} has priority {}; it is left untouched", filter.kind,
                        filter.name, priority);
  }
  PDL_TRY(set_bpf_filter(netlink, BpfFilter{.link = ifindex,
                                            .hook = hook.hook,
                                            .priority = priority,
                                            .handle = tc_handle,
                                            .program_fd = datapath_->program_fd(hook.program),
                                            .name = hook.program}));
  return missing;
}

Result<> Attachments::detach(Netlink& netlink, int ifindex) {
  for (const UplinkHook& hook : uplink_hooks) known_.erase({ifindex, hook.hook});
  PDL_TRY(remove_links(ifindex));
  return remove_our_filters(netlink, ifindex, memory_->clsact.erase(ifindex) > 0);
}

Result<std::vector<std::string>> Attachments::programs_before(Netlink& netlink, int ifindex) const {
  std::vector<std::string> names;
  PDL_TRY_ASSIGN(const std::uint32_t ours, program_id(datapath_->program_fd(uplink_ingress_program)));
  if (use_tcx_) {
    PDL_TRY_ASSIGN(const auto programs, bpf::tcx_programs(ifindex, bpf::TcxHook::ingress));
    for (const bpf::TcxProgram& one : programs) {
      if (one.program_id == ours) return names;
      const auto fd = bpf::program_by_id(one.program_id);
      const auto info = fd ? bpf::program_info(fd->get()) : Result<bpf::ProgramInfo>(Failure(fd.error()));
      names.push_back(info ? info->name : formatted("program {}", one.program_id));
    }
    return names;
  }
  for (const TcFilter& filter : filters_or_none(netlink, ifindex, TcHook::ingress)) {
    if (is_our_filter(filter, TcHook::ingress, uplink_ingress_program)) return names;
    names.push_back(formatted("{} filter {} of priority {}", filter.kind, filter.name, filter.priority));
  }
  return names;
}

Result<std::set<int>> Attachments::attached(Netlink& netlink, const std::set<int>& candidates) {
  std::set<int> found;
  PDL_TRY_ASSIGN(const auto names, list_directory(datapath_->folder() + "/links"));
  for (const std::string& name : names) {
    if (const int index = uplink_link_index(name); index != 0) found.insert(index);
  }
  for (const int index : candidates) {
    for (const UplinkHook& hook : uplink_hooks) {
      const auto filters = filters_or_none(netlink, index, hook.hook);
      if (std::ranges::any_of(filters,
                              [&](const TcFilter& one) { return is_our_filter(one, hook.hook, hook.program); }))
        found.insert(index);
    }
  }
  return found;
}

}  // namespace poduplink
