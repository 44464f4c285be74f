// SPDX-License-Identifier: Apache-2.0
#include "loader/net/rule.h"

#include <linux/fib_rules.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace poduplink {
namespace {

Result<> send_rule(Netlink& netlink, int type, int flags, const Rule& rule) {
  fib_rule_hdr header{};
  header.family = static_cast<unsigned char>(rule.from.address().address_family());
  header.src_len = static_cast<unsigned char>(rule.from.length());
  header.table = static_cast<unsigned char>(rule.table < 256 ? rule.table : 0U);
  header.action = FR_ACT_TO_TBL;
  Message message(type, flags, header);
  if (rule.from.length() != 0) message.put_address(FRA_SRC, rule.from.network());
  message.put_u32(FRA_TABLE, rule.table);
  message.put_u32(FRA_PRIORITY, rule.preference);
  message.put_u8(FRA_PROTOCOL, RTPROT_STATIC);
  auto sent = netlink.request(message);
  if (!sent) return fail_within(std::move(sent.error()), "rule from " + rule.from.text());
  return {};
}

Rule parse_rule(const nlmsghdr* message) {
  const auto* header = static_cast<const fib_rule_hdr*>(nlmsg_data(message));
  const Attributes attributes(message, sizeof(fib_rule_hdr));
  const IpAddress any = header->family == AF_INET ? IpAddress() : IpAddress::v6(std::array<std::uint8_t, 16>{});
  const IpAddress source = attributes.address(FRA_SRC).value_or(any);
  Rule rule;
  rule.from = Prefix(source, std::min<unsigned>(header->src_len, source.bits()));
  rule.table = attributes.has(FRA_TABLE) ? attributes.u32(FRA_TABLE) : header->table;
  rule.preference = attributes.u32(FRA_PRIORITY);
  return rule;
}

}  // namespace

Result<> add_rule(Netlink& netlink, const Rule& rule) {
  return send_rule(netlink, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule);
}

Result<> delete_rule(Netlink& netlink, const Rule& rule) { return send_rule(netlink, RTM_DELRULE, 0, rule); }

Result<std::vector<Rule>> dump_rules(Netlink& netlink) {
  std::vector<Rule> rules;
  for (const int family : {AF_INET, AF_INET6}) {
    fib_rule_hdr header{};
    header.family = static_cast<unsigned char>(family);
    Message message(RTM_GETRULE, NLM_F_DUMP, header);
    const std::size_t before = rules.size();
    const auto visit = [&](const nlmsghdr* answer) {
      if (static_cast<const fib_rule_hdr*>(nlmsg_data(answer))->family == family) rules.push_back(parse_rule(answer));
    };
    const auto asked = netlink.query(message, visit, [&] { rules.resize(before); });
    if (!asked && asked.error().code == EAFNOSUPPORT) continue;  // a kernel without this family, or without its rules
    if (!asked) return fail_within(asked.error(), "list of rules");
  }
  return rules;
}

}  // namespace poduplink
