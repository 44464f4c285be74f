// SPDX-License-Identifier: Apache-2.0
#include "loader/pod_programs.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "loader/base/file.h"
#include "loader/base/log.h"
#include "loader/problems.h"
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

}  // namespace

std::vector<std::string> PodPrograms::switch_all(Netlink& netlink, const Tables& tables, const Records& records,
                                                 const std::vector<Link>& links) {
  const auto names = modes_by_name(records);
  const auto indexes = modes_by_index(tables);
  Problems problems;
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
  return few(std::move(problems));
}

Result<> PodPrograms::put_back(Netlink& netlink, const Tables& tables, const std::string& veth, int index,
                               pdl_mode mode) {
  PDL_TRY_ASSIGN(const std::string fault, check_pod_program(netlink, tables.folder, veth, index, mode));
  if (fault.empty()) return {};
  log_warning("{}: putting it back", fault);
  PDL_TRY(attach_pod_program(netlink, tables.folder, veth, index, mode));
  ++mended_;
  return {};
}

Result<PodPrograms::Held> PodPrograms::take_up(Netlink& netlink, const Tables& tables, const std::string& veth,
                                               int index) {
  PDL_TRY(put_back(netlink, tables, veth, index, PDL_MODE_NETFILTER));
  Held held;
  PDL_TRY_ASSIGN(held.fd, bpf::open_pinned(link_pin(tables.folder, veth)));
  PDL_TRY_ASSIGN(const bpf::LinkInfo info, bpf::link_info(held.fd.get()));
  held.program = info.program_id;
  return held;
}

// A link that was detached is on no interface, so that the hook itself need not be read.
bool PodPrograms::Held::is_in_place(int index) const {
  const auto now = bpf::known_link_info(fd.get());
  return now && now->ifindex == static_cast<std::uint32_t>(index) && now->program_id == program;
}

Result<> PodPrograms::audit_link(Netlink& netlink, const Tables& tables, const std::string& veth, int index,
                                 bool look_at_pin) {
  const auto held = links_.find(index);
  if (held == links_.end() || !held->second.is_in_place(index)) {
    if (held != links_.end()) links_.erase(held);
    PDL_TRY_ASSIGN(Held taken, take_up(netlink, tables, veth, index));
    links_.emplace(index, std::move(taken));
    return {};
  }
  const std::string path = look_at_pin ? link_pin(tables.folder, veth) : std::string();
  if (!look_at_pin || ::access(path.c_str(), F_OK) == 0) return {};
  log_warning("{} is not pinned any more: pinning it again", path);
  PDL_TRY(bpf::pin(held->second.fd.get(), path));
  ++mended_;
  return {};
}

std::vector<std::string> PodPrograms::audit(Netlink& netlink, const Tables& tables, const Records& records,
                                            const PodVeths& veths, const Events::PodNews& news, bool same_pods) {
  static const bool have_tcx = bpf::have_tcx();
  const bool look_at_pins = pins_.changed(tables.folder + "/links").value_or(true);
  // What is so all the time costs no look at the records.
  if (complete_ && same_pods && !news.any() && !look_at_pins &&
      std::ranges::all_of(links_, [](const auto& one) { return one.second.is_in_place(one.first); }))
    return {};
  Problems problems;
  std::set<int> looked_at;
  for (const auto& [name, file] : records.files()) {
    const Record& record = file.record;
    const auto veth = file.readable ? veths.find(record.host_veth_index) : veths.end();
    if (record.state != RecordState::ready || veth == veths.end() || veth->second != record.host_veth) continue;
    Result<> done;
    if (have_tcx && record.mode == PDL_MODE_NETFILTER) {
      looked_at.insert(veth->first);
      done = audit_link(netlink, tables, veth->second, veth->first, look_at_pins);
    } else if (news.all_suspect || news.suspect.contains(veth->first)) {
      done = put_back(netlink, tables, veth->second, veth->first, record.mode);
    }
    // One that was deleted in this moment is nothing to complain of.
    if (!done && done.error().code != ENODEV) problems.push_back(done.error().message);
  }
  std::erase_if(links_, [&](const auto& one) { return !looked_at.contains(one.first); });
  complete_ = problems.empty();
  if (!complete_) pins_ = {};  // what failed is tried again
  return few(std::move(problems));
}

}  // namespace poduplink
