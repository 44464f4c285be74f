// SPDX-License-Identifier: Apache-2.0
#include "cni/external_pod.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ranges>
#include <utility>

#include "loader/base/log.h"
#include "loader/net/netns.h"

namespace poduplink {
namespace {

CniResult<> in_container(Result<> result) {
  if (result) return {};
  return CniFailure(cni_error(cni_code::container_link, std::move(result.error()).within("container")));
}

bool is_gone(int code) { return code == ESRCH || code == ENOENT || code == ENODEV; }

// What the kernel will say again however often it is asked: the first interface is down, gone or has lost its
// addresses.
bool is_final(int code) {
  constexpr std::array codes{ENODEV, ENETUNREACH, EHOSTUNREACH, ENETDOWN, EINVAL};
  return std::ranges::find(codes, code) != codes.end();
}

// The container and its namespace have ended, or something else is in their place.
bool is_no_namespace(int code) {
  constexpr std::array codes{ENOENT, ENOTDIR, EINVAL, ENXIO, ELOOP, ESRCH};
  return std::ranges::find(codes, code) != codes.end();
}

void restore_defaults(Netlink& container, const RecordExternal& external, FirstError& errors) {
  for (const Route& route : external.former) {
    auto restored = prepend_route(container, route);
    if (restored || restored.error().code == EEXIST) continue;
    if (is_final(restored.error().code)) {
      log_warning("the default route by {} cannot be put back: {}", external.first_name, restored.error().message);
    } else {
      errors.note(cni_code::container_link, restored);
    }
  }
}

void remove_made(Netlink& container, const RecordExternal& external, FirstError& errors) {
  for (Route route : std::views::reverse(external.made)) {
    route.protocol = RTPROT_UNSPEC;  // also one that somebody has made again by hand
    const auto removed = delete_route(container, route);
    if (!removed && !is_gone(removed.error().code)) errors.note(cni_code::container_link, removed);
  }
  for (const Rule& rule : std::views::reverse(external.rules)) {
    const auto removed = delete_rule(container, rule);
    if (!removed && !is_gone(removed.error().code)) errors.note(cni_code::container_link, removed);
  }
}

}  // namespace

CniResult<PodNetwork> read_pod_network(Netlink& container) {
  PodNetwork pod;
  PDL_CNI_TRY_ASSIGN(pod.cookie, with_code(cni_code::container_link, container.namespace_cookie()));
  PDL_CNI_TRY_ASSIGN(pod.links, with_code(cni_code::container_link, dump_links(container)));
  PDL_CNI_TRY_ASSIGN(pod.addresses, with_code(cni_code::container_link, dump_addresses(container)));
  PDL_CNI_TRY_ASSIGN(pod.routes, with_code(cni_code::container_link, dump_routes(container)));
  PDL_CNI_TRY_ASSIGN(pod.rules, with_code(cni_code::container_link, dump_rules(container)));
  return pod;
}

CniResult<> make_external_routes(Netlink& container, const RecordExternal& external) {
  for (const Route& route : external.made) {
    if (is_main_default(route)) continue;
    // A copied table may have several to one destination, as fe80::/64 by each interface.
    PDL_CNI_TRY(
        in_container(route.table == RT_TABLE_MAIN ? add_route(container, route) : append_route(container, route)));
  }
  for (const Rule& rule : external.rules) {
    PDL_CNI_TRY(in_container(add_rule(container, rule)));
  }
  for (const Route& route : external.made) {
    if (is_main_default(route)) {
      PDL_CNI_TRY(in_container(prepend_route(container, route)));
    }
  }
  for (const Route& route : external.former) {
    PDL_CNI_TRY(in_container(delete_route(container, route)));
  }
  return {};
}

void restore_first_network(const Record& record, FirstError& errors) {
  if (!record.external || record.external->netns_cookie == 0) return;
  const auto netns = open_netns(record.netns);
  if (!netns && is_no_namespace(netns.error().code)) return;
  if (!errors.note(cni_code::container_link, netns)) return;
  auto container = Netlink::open_in(netns->get());
  if (!errors.note(cni_code::container_link, container)) return;
  const auto cookie = container->namespace_cookie();
  if (!errors.note(cni_code::container_link, cookie) || *cookie != record.external->netns_cookie) return;
  restore_defaults(*container, *record.external, errors);
  remove_made(*container, *record.external, errors);
}

CniResult<> check_external_routes(Netlink& container, const RecordExternal& external) {
  PDL_CNI_TRY_ASSIGN(const PodNetwork pod, read_pod_network(container));
  const auto differs = [](const std::string& what) { return cni_fail(cni_code::check_failed, "{}", what); };
  if (pod.cookie != external.netns_cookie) return differs("CNI_NETNS is another network namespace than at ADD");
  for (const Route& made : external.made) {
    if (std::ranges::any_of(pod.routes, [&](const Route& present) { return is_made(present, made); })) continue;
    return differs(formatted("the container lacks the route to {} of table {}", made.destination.text(), made.table));
  }
  for (const Rule& rule : external.rules) {
    if (std::ranges::find(pod.rules, rule) != pod.rules.end()) continue;
    return differs(formatted("the container lacks the rule from {} to table {}", rule.from.text(), rule.table));
  }
  // Nothing comes before ours, and the first network's is not back.
  for (const Route& former : external.former) {
    if (std::ranges::none_of(pod.routes, [&](const Route& present) { return is_made(present, former); })) continue;
    return differs(formatted("the container's default route by {} is back", external.first_name));
  }
  return {};
}

}  // namespace poduplink
