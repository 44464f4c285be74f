// SPDX-License-Identifier: Apache-2.0
#include "loader/net/tc.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>

#include <algorithm>
#include <cerrno>

namespace poduplink {
namespace {

tcmsg tc_header(int link, std::uint32_t parent, std::uint32_t handle = 0, std::uint32_t info = 0) {
  tcmsg header{};
  header.tcm_family = AF_UNSPEC;
  header.tcm_ifindex = link;
  header.tcm_parent = parent;
  header.tcm_handle = handle;
  header.tcm_info = info;
  return header;
}

std::uint32_t parent_of(TcHook hook) {
  return TC_H_MAKE(TC_H_CLSACT, hook == TcHook::ingress ? TC_H_MIN_INGRESS : TC_H_MIN_EGRESS);
}

// Priority in the upper half, protocol in the order of the wire in the lower.
std::uint32_t filter_info(std::uint16_t priority) {
  return (std::uint32_t{priority} << 16U) | htons(static_cast<std::uint16_t>(ETH_P_ALL));
}

Message clsact_message(int type, int flags, int link) {
  Message message(type, flags, tc_header(link, TC_H_CLSACT, TC_H_MAKE(TC_H_CLSACT, 0)));
  message.put_string(TCA_KIND, "clsact");
  return message;
}

}  // namespace

int parse_tc_link(const nlmsghdr* message) { return static_cast<const tcmsg*>(nlmsg_data(message))->tcm_ifindex; }

Result<IngressQdisc> ingress_qdisc(Netlink& netlink, int link) {
  // Asked for by its place: a dump would bring the qdiscs of all interfaces. Kernels before 6.13 answer to the group
  // alone unless they are told to echo.
  Message message(RTM_GETQDISC, NLM_F_ECHO, tc_header(link, TC_H_CLSACT));
  IngressQdisc found = IngressQdisc::none;
  const auto asked = netlink.query(message, [&](const nlmsghdr* answer) {
    const std::string kind = Attributes(answer, sizeof(tcmsg)).text(TCA_KIND);
    if (kind == "clsact") found = IngressQdisc::clsact;
    if (kind == "ingress") found = IngressQdisc::ingress;
  });
  // EINVAL: there was one, and the place still has its queue.
  if (!asked && asked.error().code != ENOENT && asked.error().code != EINVAL)
    return fail_within(asked.error(), formatted("ingress qdisc of interface {}", link));
  return found;
}

Result<> ensure_clsact(Netlink& netlink, int link) {
  Message message = clsact_message(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, link);
  auto added = netlink.request(message);
  if (added) return {};
  // An `ingress` qdisc has the same place and answers EEXIST as well.
  PDL_TRY_ASSIGN(const IngressQdisc present, ingress_qdisc(netlink, link));
  if (present == IngressQdisc::clsact) return {};
  if (present == IngressQdisc::ingress) {
    return fail_errno(EBUSY, "interface {} has an 'ingress' qdisc, which excludes clsact", link);
  }
  return fail_within(std::move(added.error()), formatted("clsact on interface {}", link));
}

Result<> delete_clsact(Netlink& netlink, int link) {
  Message message = clsact_message(RTM_DELQDISC, 0, link);
  auto deleted = netlink.request(message);
  if (!deleted) return fail_within(std::move(deleted.error()), formatted("deleting clsact of interface {}", link));
  return {};
}

Result<> set_bpf_filter(Netlink& netlink, const BpfFilter& filter) {
  Message message(RTM_NEWTFILTER, NLM_F_CREATE,
                  tc_header(filter.link, parent_of(filter.hook), filter.handle, filter_info(filter.priority)));
  message.put_string(TCA_KIND, "bpf");
  message.nest(TCA_OPTIONS, [&] {
    message.put_u32(TCA_BPF_FD, static_cast<std::uint32_t>(filter.program_fd));
    message.put_string(TCA_BPF_NAME, filter.name);
    message.put_u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
  });
  auto set = netlink.request(message);
  if (!set) {
    return fail_within(std::move(set.error()), formatted("filter {} on interface {}", filter.name, filter.link));
  }
  return {};
}

Result<> delete_bpf_filter(Netlink& netlink, int link, TcHook hook, std::uint16_t priority, std::uint32_t handle) {
  Message message(RTM_DELTFILTER, 0, tc_header(link, parent_of(hook), handle, filter_info(priority)));
  message.put_string(TCA_KIND, "bpf");
  auto deleted = netlink.request(message);
  if (!deleted) return fail_within(std::move(deleted.error()), formatted("deleting a filter of interface {}", link));
  return {};
}

Result<std::vector<TcFilter>> dump_filters(Netlink& netlink, int link, TcHook hook) {
  Message message(RTM_GETTFILTER, NLM_F_DUMP, tc_header(link, parent_of(hook)));
  std::vector<TcFilter> filters;
  const auto visit = [&](const nlmsghdr* answer) {
    const auto* header = static_cast<const tcmsg*>(nlmsg_data(answer));
    const Attributes attributes(answer, sizeof(tcmsg));
    const Attributes options = attributes.nested(TCA_OPTIONS);
    // Each priority is announced by an entry without a handle before its filters.
    if (header->tcm_handle == 0) return;
    filters.push_back({.handle = header->tcm_handle,
                       .priority = static_cast<std::uint16_t>(header->tcm_info >> 16U),
                       .kind = attributes.text(TCA_KIND),
                       .name = options.text(TCA_BPF_NAME),
                       .program_id = options.u32(TCA_BPF_ID),
                       .direct_action = (options.u32(TCA_BPF_FLAGS) & TCA_BPF_FLAG_ACT_DIRECT) != 0});
  };
  const auto asked = netlink.query(message, visit, [&] { filters.clear(); });
  if (!asked) {
    // No clsact: the kernel knows no such parent.
    if (asked.error().code == EINVAL || asked.error().code == ENOENT) return filters;
    return fail_within(asked.error(), formatted("filters of interface {}", link));
  }
  return filters;
}

}  // namespace poduplink
