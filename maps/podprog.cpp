// SPDX-License-Identifier: Apache-2.0
#include "maps/podprog.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "loader/base/file.h"
#include "loader/net/tc.h"
#include "maps/bpf.h"
#include "maps/paths.h"

namespace poduplink {
namespace {

constexpr const char* pod_program = "pod_egress";

bool wants_tcx(pdl_mode mode) { return mode == PDL_MODE_NETFILTER && bpf::have_tcx(); }

bool is_ours(const TcFilter& filter) { return filter.handle == tc_handle && filter.priority == tc_ingress_priority; }

// What a pinned link leads to. Nothing where there is no pin.
Result<std::optional<bpf::LinkInfo>> pinned_link(const std::string& path) {
  auto link = bpf::open_pinned(path);
  if (!link && link.error().code == ENOENT) return std::optional<bpf::LinkInfo>();
  if (!link) return Failure(std::move(link.error()));
  PDL_TRY_ASSIGN(const bpf::LinkInfo info, bpf::link_info(link->get()));
  return std::optional(info);
}

Result<> attach_by_link(int program_fd, const std::string& version_folder, const std::string& veth_name,
                        int veth_index) {
  const std::string path = link_pin(version_folder, veth_name);
  PDL_TRY_ASSIGN(const auto present, pinned_link(path));
  if (present && present->ifindex == static_cast<std::uint32_t>(veth_index)) {
    PDL_TRY_ASSIGN(const Fd link, bpf::open_pinned(path));
    return bpf::update_link(link.get(), program_fd);
  }
  // The link of a veth that is gone keeps its pin and would keep the name.
  PDL_TRY(remove_file(path));
  PDL_TRY_ASSIGN(const Fd link, bpf::attach_tcx(program_fd, veth_index, bpf::TcxHook::ingress, bpf::TcxPlace::tail));
  return bpf::pin(link.get(), path);
}

Result<> attach_by_filter(Netlink& netlink, int program_fd, int veth_index) {
  PDL_TRY(ensure_clsact(netlink, veth_index));
  return set_bpf_filter(netlink, BpfFilter{.link = veth_index,
                                           .hook = TcHook::ingress,
                                           .priority = tc_ingress_priority,
                                           .handle = tc_handle,
                                           .program_fd = program_fd,
                                           .name = pod_program});
}

// Id of our program on the veth; nothing where none is attached.
Result<std::optional<std::uint32_t>> attached_program(Netlink& netlink, const std::string& version_folder,
                                                      const std::string& veth_name, int veth_index, pdl_mode mode) {
  if (wants_tcx(mode)) {
    PDL_TRY_ASSIGN(const auto link, pinned_link(link_pin(version_folder, veth_name)));
    if (!link || link->ifindex != static_cast<std::uint32_t>(veth_index)) return std::optional<std::uint32_t>();
    return std::optional(link->program_id);
  }
  PDL_TRY_ASSIGN(const auto filters, dump_filters(netlink, veth_index, TcHook::ingress));
  const auto ours = std::ranges::find_if(filters, is_ours);
  return ours == filters.end() ? std::optional<std::uint32_t>() : std::optional(ours->program_id);
}

}  // namespace

Result<> attach_pod_program(Netlink& netlink, const std::string& version_folder, const std::string& veth_name,
                            int veth_index, pdl_mode mode) {
  PDL_TRY_ASSIGN(const Fd program, bpf::open_pinned(program_pin(version_folder, pod_program)));
  auto attached = wants_tcx(mode) ? attach_by_link(program.get(), version_folder, veth_name, veth_index)
                                  : attach_by_filter(netlink, program.get(), veth_index);
  if (!attached) return fail_within(std::move(attached.error()), formatted("{} on {}", pod_program, veth_name));
  return {};
}

Result<> find_pod_program(const std::string& version_folder) {
  const std::string path = program_pin(version_folder, pod_program);
  PDL_TRY_ASSIGN(const Fd program, bpf::open_pinned(path));
  const auto info = bpf::program_info(program.get());
  if (!info) return fail_within(info.error(), path);
  return {};
}

Result<std::string> check_pod_program(Netlink& netlink, const std::string& version_folder, const std::string& veth_name,
                                      int veth_index, pdl_mode mode) {
  PDL_TRY_ASSIGN(const Fd program, bpf::open_pinned(program_pin(version_folder, pod_program)));
  PDL_TRY_ASSIGN(const bpf::ProgramInfo wanted, bpf::program_info(program.get()));
  PDL_TRY_ASSIGN(const auto attached, attached_program(netlink, version_folder, veth_name, veth_index, mode));
  if (!attached) return formatted("{} is not attached to {}", pod_program, veth_name);
  if (*attached != wanted.id) {
    return formatted("{} bears program {} in the place of {} (program {})", veth_name, *attached, pod_program,
                     wanted.id);
  }
  return std::string();
}

Result<> detach_pod_program(const std::string& version_folder, const std::string& veth_name) {
  return remove_file(link_pin(version_folder, veth_name));
}

}  // namespace poduplink
