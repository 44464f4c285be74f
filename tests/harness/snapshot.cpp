// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/snapshot.h"

#include <cerrno>

#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "loader/net/netns.h"

namespace poduplink::harness {
namespace {

using Json = nlohmann::json;

Result<Json> json_list(const Namespace& space, const std::vector<std::string>& argv) {
  PDL_TRY_ASSIGN(const std::string text, space.run_ok(argv));
  Json parsed = Json::parse(text.empty() ? "[]" : text, nullptr, false);
  if (!parsed.is_array()) return fail("`{}` printed no JSON list: {}", argv.front(), text);
  return parsed;
}

Result<Json> ip_json(const Namespace& space, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{"ip", "-j", "-d"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return json_list(space, argv);
}

// Only the named keys, in the order given: what else `ip` prints may differ from one moment to the next.
std::string chosen(const Json& object, std::initializer_list<const char*> keys) {
  std::string text;
  for (const char* key : keys) {
    const auto found = object.find(key);
    if (found != object.end()) text += (text.empty() ? "" : " ") + std::string(key) + "=" + found->dump();
  }
  return text;
}

Result<> add_links(const Namespace& space, Snapshot& into) {
  PDL_TRY_ASSIGN(const Json links, ip_json(space, {"address", "show"}));
  for (const Json& link : links) {
    if (!link.contains("ifname")) continue;
    const std::string name = link["ifname"].get<std::string>();
    into.items["link " + name] = chosen(link, {"ifindex",
                                               "flags",
                                               "mtu",
                                               "address",
                                               "broadcast",
                                               "master",
                                               "operstate",
                                               "linkmode",
                                               "qdisc",
                                               "txqlen",
                                               "group",
                                               "ifalias",
                                               "altnames",
                                               "xdp",
                                               "promiscuity",
                                               "allmulti",
                                               "inet6_addr_gen_mode",
                                               "num_tx_queues",
                                               "num_rx_queues",
                                               "gso_max_size",
                                               "gso_max_segs",
                                               "gro_max_size"});
    for (const Json& address : link.value("addr_info", Json::array())) {
      const std::string prefix =
          formatted("{}/{}", address.value("local", std::string()), address.value("prefixlen", 0));
      into.items[formatted("address {} on {}", prefix, name)] =
          chosen(address, {"scope", "tentative", "dadfailed", "deprecated", "noprefixroute"});
    }
  }
  return {};
}

Result<> add_list(const Namespace& space, const std::string& kind, const std::vector<std::string>& arguments,
                  Snapshot& into) {
  PDL_TRY_ASSIGN(const Json entries, ip_json(space, arguments));
  for (const Json& entry : entries) {
    if (entry.empty()) continue;
    Json plain = entry;
    for (const char* passing : {"expires", "cacheinfo", "used", "refcnt", "confirmed", "updated", "probes"})
      plain.erase(passing);
    into.items[formatted("{} {}", kind, plain.dump())] = "";
  }
  return {};
}

Result<> add_settings(const Namespace& space, const std::vector<std::string>& uplinks, Snapshot& into) {
  PDL_TRY_ASSIGN(const NetnsScope inside, NetnsScope::enter(space.fd()));
  std::vector<std::string> links = uplinks;
  links.insert(links.end(), {"all", "default"});
  for (const std::string& link : links) {
    for (const char* part : {"ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh"}) {
      const std::string folder = formatted("/proc/sys/net/{}/{}", part, link);
      const auto names = list_directory(folder);
      // "all" has no neighbours, and an interface that a test took away is missed as a link.
      if (!names && names.error().code == ENOENT) continue;
      if (!names) return Failure(names.error());
      for (const std::string& name : *names) {
        // The secret is random, and some are write-only.
        const auto value = read_file(formatted("{}/{}", folder, name));
        if (name != "stable_secret" && value)
          into.items[formatted("sysctl {}/{}/{}", part, link, name)] = value->substr(0, value->find('\n'));
      }
    }
  }
  return {};
}

// What the links are members of, and which qdiscs they have, clsact too.
Result<> add_groups_and_qdiscs(const Namespace& space, Snapshot& into) {
  PDL_TRY_ASSIGN(const Json links, json_list(space, {"ip", "-j", "maddress", "show"}));
  for (const Json& link : links) {
    for (const Json& group : link.value("maddr", Json::array())) {
      const std::string address = group.value("address", group.value("link", std::string()));
      into.items[formatted("group {} on {}", address, link.value("ifname", std::string()))] = "";
    }
  }
  PDL_TRY_ASSIGN(const Json qdiscs, json_list(space, {"tc", "-j", "qdisc", "show"}));
  for (const Json& one : qdiscs)
    into.items[formatted("qdisc {} on {}", one.value("kind", std::string()), one.value("dev", std::string()))] = "";
  return {};
}

}  // namespace

Result<Snapshot> take_snapshot(const Namespace& space, const std::vector<std::string>& uplinks) {
  Snapshot result;
  PDL_TRY(add_links(space, result));
  PDL_TRY(add_list(space, "route", {"-4", "route", "show", "table", "all"}, result));
  PDL_TRY(add_list(space, "route6", {"-6", "route", "show", "table", "all"}, result));
  PDL_TRY(add_list(space, "rule", {"-4", "rule", "show"}, result));
  PDL_TRY(add_list(space, "rule6", {"-6", "rule", "show"}, result));
  PDL_TRY(add_list(space, "neighbour", {"neighbour", "show", "nud", "permanent"}, result));
  PDL_TRY(add_list(space, "proxy", {"neighbour", "show", "proxy"}, result));
  PDL_TRY(add_settings(space, uplinks, result));
  PDL_TRY(add_groups_and_qdiscs(space, result));
  return result;
}

std::vector<std::string> differences(const Snapshot& before, const Snapshot& now) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : before.items) {
    const auto found = now.items.find(name);
    if (found == now.items.end()) {
      lines.push_back("gone: " + name);
    } else if (found->second != value) {
      lines.push_back(formatted("changed: {}: {} -> {}", name, value, found->second));
    }
  }
  for (const auto& [name, value] : now.items) {
    if (!before.items.contains(name)) lines.push_back(formatted("left behind: {} {}", name, value));
  }
  return lines;
}

}  // namespace poduplink::harness
