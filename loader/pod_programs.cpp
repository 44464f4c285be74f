// SPDX-License-Identifier: Apache-2.0
#include "loader/pod_programs.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>

#include "loader/base/file.h"
#include "loader/base/log.h"
#include "maps/bpf.h"
#include "maps/paths.h"
#include "maps/podprog.h"

namespace poduplink {
namespace {

std::map<std::string, pdl_mode> modes_by_name(const Records& records) {
  std::map<std::string, pdl_mode> modes;
  for (const auto& [name, file] : records.files()) {
    if (file.readable) modes[file.record.host_veth] = file.record.mode;
  }
  return modes;
}

std::map<int, pdl_mode> modes_by_index(const Tables& tables) {
  std::map<int, pdl_mode> modes;
  if (const auto entries = tables.pods.entries()) {
    for (const auto& [address, pod] : *entries) modes[static_cast<int>(pod.veth)] = pod.mode;
  }
  return modes;
}

// Attaches the program where it is not.
Result<> put_back(Netlink& netlink, const Tables& tables, const std::string& veth, int index, pdl_mode mode) {
  PDL_TRY_ASSIGN(const std::string fault, check_pod_program(netlink, tables.folder, veth, index, mode));
  if (fault.empty()) return {};
  log_warning("{}: putting it back", fault);
  return attach_pod_program(netlink, tables.folder, veth, index, mode);
}

}  // namespace

std::vector<std::string> PodPrograms::switch_all(Netlink& netlink, const Tables& tables, const Records& records,
                                                 const std::vector<Link>& links) {
  const auto names = modes_by_name(records);
  const auto indexes = modes_by_index(tables);
  std::vector<std::string> problems;
  std::set<std::string> living;
  for (const Link& link : links) {
    if (!is_pod_veth(link)) continue;
    living.insert(link.name);
    const auto by_name = names.find(link.name);
    const auto by_index = indexes.find(link.index);
    // A veth that nobody knows is one whose ADD has not come to its program yet.
    if (by_name == names.end() && by_index == indexes.end()) continue;
    const pdl_mode mode = by_name != names.end() ? by_name->second : by_index->second;
    const auto attached = attach_pod_program(netlink, tables.folder, link.name, link.index, mode);
    if (!attached) problems.push_back(attached.error().message);
  }
  const auto pins = list_directory(tables.folder + "/links");
  for (const std::string& name : pins ? *pins : std::vector<std::string>()) {
    if (!is_pod_veth_name(name) || living.contains(name)) continue;
    if (const auto removed = remove_file(link_pin(tables.folder, name)); !removed)
      problems.push_back(removed.error().message);
  }
  links_.clear();
  return problems;
}

Result<> PodPrograms::audit_link(Netlink& netlink, const Tables& tables, const std::string& veth, int index) {
  const std::string path = link_pin(tables.folder, veth);
  Held& held = links_[veth];
  PDL_TRY_ASSIGN(const auto programs, bpf::tcx_programs(index, bpf::TcxHook::ingress));
  if (held.id != 0 && std::ranges::any_of(programs, [&](const auto& one) { return one.link_id == held.id; })) {
    if (::access(path.c_str(), F_OK) == 0) return {};
    log_warning("{} is not pinned any more: pinning it again", path);
    return bpf::pin(held.fd.get(), path);
  }
  held = {};
  PDL_TRY(put_back(netlink, tables, veth, index, PDL_MODE_NETFILTER));
  PDL_TRY_ASSIGN(held.fd, bpf::open_pinned(path));
  PDL_TRY_ASSIGN(const bpf::LinkInfo info, bpf::link_info(held.fd.get()));
  held.id = info.id;
  return {};
}

std::vector<std::string> PodPrograms::audit(Netlink& netlink, const Tables& tables, const Records& records,
                                            const PodVeths& veths, const Events::PodNews& news) {
  static const bool have_tcx = bpf::have_tcx();
  std::vector<std::string> problems;
  std::set<std::string_view> looked_at;
  for (const auto& [name, file] : records.files()) {
    const Record& record = file.record;
    const auto veth = file.readable ? veths.find(record.host_veth_index) : veths.end();
    if (record.state != RecordState::ready || veth == veths.end() || veth->second != record.host_veth) continue;
    Result<> done;
    if (have_tcx && record.mode == PDL_MODE_NETFILTER) {
      looked_at.insert(veth->second);
      done = audit_link(netlink, tables, veth->second, veth->first);
    } else if (news.all_suspect || news.suspect.contains(veth->first)) {
      done = put_back(netlink, tables, veth->second, veth->first, record.mode);
    }
    // One that was deleted in this moment is nothing to complain of.
    if (!done && done.error().code != ENODEV) problems.push_back(done.error().message);
  }
  std::erase_if(links_, [&](const auto& one) { return !looked_at.contains(one.first); });
  return problems;
}

}  // namespace poduplink
