// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/firewall.h"

#include <charconv>

namespace poduplink::harness {
namespace {

// The bit that says "masquerade me" between the DNAT and the way out, as kube-proxy has it.
constexpr const char* masquerade_mark = "0x4000";

Result<std::uint64_t> number_behind(const std::string& text, const std::string& label) {
  const std::size_t place = text.find(label);
  std::uint64_t number = 0;
  if (place == std::string::npos) return fail("no '{}' in: {}", label, text);
  const char* first = text.data() + place + label.size();
  if (std::from_chars(first, text.data() + text.size(), number).ec != std::errc())
    return fail("no number behind '{}' in: {}", label, text);
  return number;
}

std::string nft_service(const Service& service) {
  const bool v4 = service.backend.address.is_v4();
  const std::string family = v4 ? "ip" : "ip6";
  const std::string where = service.address ? formatted("{} daddr {}", family, service.address->text())
                                            : formatted("meta nfproto {} fib daddr type local", v4 ? "ipv4" : "ipv6");
  const std::string match = formatted("{} meta l4proto {{ tcp, udp }} th dport {}", where, service.port);
  const std::string caller =
      service.masquerade ? std::string() : formatted("{} saddr {} ", family, service.backend.address.text());
  return formatted("    {} {}meta mark set meta mark or {}\n    {} dnat {} to {}\n", match, caller, masquerade_mark,
                   match, family, service.backend.text());
}

std::string nft_rules(const std::vector<Service>& services) {
  std::string rules =
      "table inet services\ndelete table inet services\ntable inet services {\n  counter invalid { }\n  chain services "
      "{\n";
  for (const Service& service : services) rules += nft_service(service);
  return rules + formatted(R"(  }}
  chain prerouting {{ type nat hook prerouting priority dstnat; jump services; }}
  chain output {{ type nat hook output priority -100; jump services; }}
  chain postrouting {{
    type nat hook postrouting priority srcnat
    meta mark & {0} == {0} masquerade fully-random
  }}
  chain forward {{
    type filter hook forward priority filter
    ct state invalid counter name invalid drop
  }}
}}
)",
                           masquerade_mark);
}

std::string iptables_service(const Service& service) {
  const std::string backend = service.backend.address.text();
  std::string rules;
  for (const char* protocol : {"tcp", "udp"}) {
    const std::string where =
        service.address ? "-d " + service.address->text() : std::string("-m addrtype --dst-type LOCAL");
    const std::string match = formatted("-A SERVICES {0} -p {1} -m {1} --dport {2}", where, protocol, service.port);
    rules +=
        formatted("{}{} -j MARK --or-mark {}\n", match, service.masquerade ? "" : " -s " + backend, masquerade_mark);
    rules += formatted("{} -j DNAT --to-destination {}\n", match, service.backend.text());
  }
  return rules;
}

std::string iptables_rules(const std::vector<Service>& services, Family family) {
  std::string rules =
      "*nat\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:SERVICES - [0:0]\n"
      "-A PREROUTING -j SERVICES\n-A OUTPUT -j SERVICES\n";
  rules += formatted("-A POSTROUTING -m mark --mark {0}/{0} -j MASQUERADE --random-fully\n", masquerade_mark);
  for (const Service& service : services) {
    if (service.backend.address.family() == family) rules += iptables_service(service);
  }
  return rules + "COMMIT\n*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -m conntrack --ctstate INVALID -j DROP\nCOMMIT\n";
}

// One `[packets:octets] rule` line a rule.
Result<std::uint64_t> iptables_invalid(const Namespace& node, const char* program) {
  PDL_TRY_ASSIGN(const std::string saved, node.run_ok({program, "-c", "-t", "filter"}));
  const std::size_t rule = saved.find("-A FORWARD -m conntrack --ctstate INVALID");
  if (rule == std::string::npos) return fail("{} shows no drop of invalid packets: {}", program, saved);
  return number_behind(saved.substr(saved.rfind('\n', rule) + 1), "[");
}

Result<> remove_table(const Namespace& node, const char* table) {
  return node.nft(formatted("table {0}\ndelete table {0}\n", table));
}

}  // namespace

Result<Firewall> Firewall::install(const Namespace& node, RuleKind kind, const std::vector<Service>& services) {
  if (kind == RuleKind::nftables) {
    PDL_TRY(node.nft(nft_rules(services)));
    // Debian's iptables keeps its rules in tables of nftables too.
    for (const char* table : {"ip nat", "ip filter", "ip6 nat", "ip6 filter"}) PDL_TRY(remove_table(node, table));
  } else {
    PDL_TRY(node.run_ok({"iptables-restore"}, iptables_rules(services, Family::v4)));
    PDL_TRY(node.run_ok({"ip6tables-restore"}, iptables_rules(services, Family::v6)));
    PDL_TRY(remove_table(node, "inet services"));
  }
  return Firewall(node, kind);
}

Result<std::uint64_t> Firewall::invalid() const {
  if (kind_ == RuleKind::nftables) return named_counter(*node_, "services", "invalid");
  PDL_TRY_ASSIGN(const std::uint64_t v4, iptables_invalid(*node_, "iptables-save"));
  PDL_TRY_ASSIGN(const std::uint64_t v6, iptables_invalid(*node_, "ip6tables-save"));
  return v4 + v6;
}

Result<std::uint64_t> named_counter(const Namespace& node, const std::string& table, const std::string& name) {
  PDL_TRY_ASSIGN(const std::string text, node.run_ok({"nft", "list", "counter", "inet", table, name}));
  return number_behind(text, "packets ");
}

}  // namespace poduplink::harness
