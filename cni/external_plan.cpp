// SPDX-License-Identifier: Apache-2.0
#include "cni/external_plan.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "cni/external.h"
#include "cni/pod_link.h"
#include "loader/base/log.h"

namespace poduplink {
namespace {

constexpr std::uint32_t main_table = RT_TABLE_MAIN;
// Tables of the pod's own are looked for from here on: the first network's, and behind it the external one's.
constexpr std::uint32_t first_table = 1000;
// Before the rule of the main table, behind that of VRFs.
constexpr std::uint32_t rule_preference = 1500;
// What the kernel gives an IPv6 route without a metric, and routes learnt from router advertisements.
constexpr std::uint32_t ipv6_metric = 1024;
constexpr std::uint32_t kernel_last_metric = std::numeric_limits<std::uint32_t>::max();
// Of a route that another interface has already, as for other second interfaces.
constexpr std::uint32_t second_metric = 2048;

constexpr std::array families{Family::v4, Family::v6};

std::uint32_t metric_of(const Route& route) {
  return route.metric == 0 && route.destination.family() == Family::v6 ? ipv6_metric : route.metric;
}

bool by_link(const Route& route, int link) {
  return std::ranges::any_of(route.next_hops, [link](const NextHop& hop) { return hop.link == link; });
}

// Of prefixes or addresses.
template <typename List>
bool has_family(const List& list, Family family) {
  return std::ranges::any_of(list, [family](const auto& one) { return one.family() == family; });
}

const char* name_of(Family family) { return family == Family::v4 ? "IPv4" : "IPv6"; }

Prefix link_local_prefix() { return {*IpAddress::parse("169.254.0.0"), 16}; }

std::vector<Route> main_defaults(const PodNetwork& pod, Family family) {
  std::vector<Route> routes;
  for (const Route& route : pod.routes) {
    if (!is_main_default(route) || route.destination.family() != family || route.type != RTN_UNICAST) continue;
    // By metric, else in the kernel's order.
    routes.insert(std::ranges::upper_bound(routes, metric_of(route), {}, &metric_of), route);
  }
  return routes;
}

// Global addresses, in the order in which the kernel lists those of one interface: the first is the primary one.
std::vector<IpAddress> addresses_of(const PodNetwork& pod, int link) {
  std::vector<IpAddress> addresses;
  for (const Family family : families) {
    for (const InterfaceAddress& one : pod.addresses) {
      const IpAddress& address = one.prefix.address();
      if (one.link == link && address.family() == family && !address.is_link_local()) addresses.push_back(address);
    }
  }
  return addresses;
}

class Planner {
 public:
  Planner(const PodNetwork& pod, const ExternalRequest& request, const Link& first)
      : pod_(pod), request_(request), first_(first) {
    plan_.if_name = request.if_name;
    plan_.netns_cookie = pod.cookie;
    plan_.first_name = first.name;
    plan_.first_index = first.index;
    plan_.first_addresses = addresses_of(pod, first.index);
    table_ = free_table();
  }

  CniResult<RecordExternal> run() {
    PDL_CNI_TRY(check_cluster());
    std::vector<Route> defaults;
    std::vector<Route> kept;
    for (const Family family : families) {
      if (!has_family(request_.addresses, family)) {
        note_left(family);
        continue;
      }
      PDL_CNI_TRY_ASSIGN(const auto former, take_default(family));
      copy_main_table(family);
      PDL_CNI_TRY(keep_cluster(family, former, kept));
      if (family == Family::v4) keep_link_local(former, kept);
      PDL_CNI_TRY(add_external_routes(family, former, defaults));
    }
    plan_.made.insert(plan_.made.end(), kept.begin(), kept.end());
    plan_.made.insert(plan_.made.end(), defaults.begin(), defaults.end());
    add_rules();
    return std::move(plan_);
  }

 private:
  // Two that nothing in the pod refers to.
  [[nodiscard]] std::uint32_t free_table() const {
    const auto used = [&](std::uint32_t table) {
      return std::ranges::any_of(pod_.routes, [table](const Route& route) { return route.table == table; }) ||
             std::ranges::any_of(pod_.rules, [table](const Rule& rule) { return rule.table == table; }) ||
             std::ranges::any_of(request_.from_ipam,
                                 [table](const ResultRoute& route) { return route.table == table; });
    };
    std::uint32_t table = first_table;
    while (used(table) || used(table + 1)) table += 2;
    return table;
  }
  [[nodiscard]] std::uint32_t external_table() const { return table_ + 1; }

  CniResult<> check_cluster() const {
    for (const Prefix& cidr : request_.cluster) {
      for (const Prefix& outside : request_.outside) {
        if (!overlap(cidr, outside)) continue;
        return cni_fail(cni_code::bad_config,
                        "key 'external.clusterCIDRs': \"{}\" overlaps {}, which is outside on the uplink", cidr.text(),
                        outside.text());
      }
    }
    return {};
  }

  void note_left(Family family) const {
    if (!main_defaults(pod_, family).empty())
      log_info("{} has no {} address: the default route of that family stays with {}", request_.if_name,
               name_of(family), first_.name);
  }

  // The default routes by the first network, best first. None: the pod has nothing of this family.
  CniResult<std::vector<Route>> take_default(Family family) {
    std::vector<Route> former;
    std::optional<std::uint32_t> best;
    const auto all = main_defaults(pod_, family);
    for (const Route& route : all) {
      if (!by_link(route, first_.index)) continue;
      if (route.next_hops.size() > 1) {
        return cni_fail(cni_code::container_link, "the container's {} default route has several next hops",
                        name_of(family));
      }
      if (!best) best = metric_of(route);
      former.push_back(route);
      former.back().flags = 0;
    }
    if (former.empty() && has_family(plan_.first_addresses, family)) {
      return cni_fail(cni_code::container_link, "the container has no {} default route by {} that could be moved to {}",
                      name_of(family), first_.name, request_.if_name);
    }
    for (const Route& route : all) {
      if (by_link(route, first_.index) || (best && metric_of(route) > *best)) continue;
      return cni_fail(cni_code::container_link, "the container's {} default route does not lead by {}, but by {}",
                      name_of(family), first_.name, name_of_link(route));
    }
    plan_.former.insert(plan_.former.end(), former.begin(), former.end());
    return former;
  }

  [[nodiscard]] std::string name_of_link(const Route& route) const {
    const int index = route.next_hops.empty() ? 0 : route.next_hops.front().link;
    const auto link = std::ranges::find(pod_.links, index, &Link::index);
    return link == pod_.links.end() ? "another interface" : link->name;
  }

  // The main table as it is now, for what is sent from the first network's addresses.
  void copy_main_table(Family family) {
    if (!has_family(plan_.first_addresses, family)) return;
    // Those without a gateway first: they say where the gateways are.
    for (const bool with_gateway : {false, true}) {
      for (const Route& route : pod_.routes) {
        const bool has_gateway = !route.next_hops.empty() && route.next_hops.front().gateway.has_value();
        if (route.table != main_table || route.destination.family() != family || has_gateway != with_gateway) continue;
        if (route.metric == kernel_last_metric) continue;
        if (route.next_hops.size() > 1) {
          log_warning("route {} of the container has several next hops: answers of {} do without it",
                      route.destination.text(), first_.name);
          continue;
        }
        Route copy = route;
        copy.table = table_;
        copy.protocol = RTPROT_STATIC;
        copy.flags = 0;
        copy.on_link = has_gateway;
        plan_.made.push_back(std::move(copy));
      }
    }
  }

  // A route by the former gateway. None where there is no former default route.
  static std::optional<Route> by_former(const std::vector<Route>& former, const Prefix& destination) {
    if (former.empty()) return std::nullopt;
    Route route = former.front();
    route.destination = destination;
    route.metric = 0;
    route.protocol = RTPROT_STATIC;
    route.tos = 0;
    route.preference = 0;
    route.flags = 0;
    route.on_link = route.next_hops.front().gateway.has_value();
    return route;
  }

  [[nodiscard]] const Route* in_main_table(const Prefix& destination) const {
    const auto found = std::ranges::find_if(pod_.routes, [&](const Route& route) {
      return route.table == main_table && route.destination == destination && route.tos == 0;
    });
    return found == pod_.routes.end() ? nullptr : &*found;
  }

  CniResult<> keep_cluster(Family family, const std::vector<Route>& former, std::vector<Route>& kept) const {
    for (const Prefix& cidr : request_.cluster) {
      if (cidr.family() != family) continue;
      if (const Route* present = in_main_table(cidr)) {
        if (by_link(*present, first_.index)) continue;
        return cni_fail(cni_code::bad_config,
                        "key 'external.clusterCIDRs': the container's route to \"{}\" does not lead by {}, but by {}",
                        cidr.text(), first_.name, name_of_link(*present));
      }
      auto route = by_former(former, cidr);
      if (!route) {
        return cni_fail(cni_code::bad_config,
                        "key 'external.clusterCIDRs': \"{}\": the container has no {} default route, so no way to it",
                        cidr.text(), name_of(family));
      }
      kept.push_back(std::move(*route));
    }
    return {};
  }

  // The cloud's metadata, node-local DNS and the like are the node's business, as they were before.
  void keep_link_local(const std::vector<Route>& former, std::vector<Route>& kept) {
    const Prefix prefix = link_local_prefix();
    const bool present = in_main_table(prefix) != nullptr;
    const bool wanted = std::ranges::find(request_.cluster, prefix) != request_.cluster.end() ||
                        std::ranges::find(request_.claimed, prefix) != request_.claimed.end();
    if (!present && !wanted) kept.push_back(by_former(former, prefix).value_or(refused(prefix, main_table)));
    if (std::ranges::find(request_.claimed, prefix) == request_.claimed.end())
      plan_.made.push_back(refused(prefix, external_table()));
  }

  static Route refused(const Prefix& destination, std::uint32_t table) {
    Route route;
    route.destination = destination;
    route.table = table;
    route.type = RTN_PROHIBIT;
    return route;
  }

  static Route by_external(const Prefix& destination, std::uint32_t table) {
    Route route;
    route.destination = destination;
    route.table = table;
    route.next_hops = {{external_link, link_gateway(destination.family())}};
    route.on_link = true;
    return route;
  }

  // A metric that the pod's table has not yet at this destination.
  [[nodiscard]] std::uint32_t free_metric(const Route& wanted) const {
    const auto taken = [&](std::uint32_t metric) {
      return std::ranges::any_of(pod_.routes, [&](const Route& route) {
        return route.table == wanted.table && route.destination == wanted.destination && metric_of(route) == metric;
      });
    };
    std::uint32_t metric = metric_of(wanted);
    if (!taken(metric)) return wanted.metric;
    metric = second_metric;
    while (taken(metric)) ++metric;
    return metric;
  }

  CniResult<> check_ipam_route(const Route& route) const {
    const Prefix& destination = route.destination;
    // A wider one leaves these alone, whose routes are more specific.
    const auto within = [&](const Prefix& wider) {
      return overlap(destination, wider) && destination.length() >= wider.length();
    };
    if (within(link_local_prefix())) {
      return cni_fail(cni_code::ipam_result,
                      "route {} of the IPAM result holds link-local addresses: 'linkLocal' of an uplink is for them",
                      destination.text());
    }
    for (const Prefix& cidr : request_.cluster) {
      if (!within(cidr)) continue;
      return cni_fail(cni_code::ipam_result, "route {} of the IPAM result lies in {} of 'external.clusterCIDRs'",
                      destination.text(), cidr.text());
    }
    return {};
  }

  // To the link gateway, those of the IPAM plugin, the default route, and the table for what is sent from the external
  // address.
  CniResult<> add_external_routes(Family family, const std::vector<Route>& former, std::vector<Route>& defaults) {
    std::vector<IpAddress> addresses;
    for (const Prefix& one : request_.addresses) {
      if (one.family() == family) addresses.push_back(one.address());
    }
    std::vector<ResultRoute> given;
    for (const ResultRoute& route : request_.from_ipam) {
      if (route.dst.family() == family) given.push_back(route);
    }
    for (const ResultRoute& said : container_routes(addresses, given)) {
      Route route = kernel_route(said, external_link);
      if (is_main_default(route)) {
        route.metric = default_metric(family, former);
        defaults.push_back(std::move(route));
        continue;
      }
      if (route.next_hops.front().gateway) {
        PDL_CNI_TRY(check_ipam_route(route));
      }
      route.metric = free_metric(route);
      plan_.made.push_back(std::move(route));
    }
    for (const Prefix& claimed : request_.claimed) {
      if (claimed.family() != family) continue;
      for (const std::uint32_t table : {main_table, external_table()})
        plan_.made.push_back(by_external(claimed, table));
    }
    Route all = defaults.back();
    all.table = external_table();
    all.metric = 0;
    plan_.made.push_back(std::move(all));
    return {};
  }

  // IPv4: that of the route whose place it takes. IPv6: less, since two of the same metric would share the packets, and
  // less than that of a router advertisement that comes later.
  static std::uint32_t default_metric(Family family, const std::vector<Route>& former) {
    if (family == Family::v4) return former.empty() ? 0 : former.front().metric;
    const std::uint32_t metric = former.empty() ? ipv6_metric : std::min(ipv6_metric, metric_of(former.front()));
    return metric > 1 ? metric - 1 : 1;
  }

  void add_rules() {
    for (const IpAddress& address : plan_.first_addresses) {
      if (has_family(request_.addresses, address.family()))
        plan_.rules.push_back({Prefix(address, address.bits()), table_, rule_preference});
    }
    for (const Prefix& one : request_.addresses)
      plan_.rules.push_back({Prefix(one.address(), one.address().bits()), external_table(), rule_preference});
  }

  const PodNetwork& pod_;
  const ExternalRequest& request_;
  const Link& first_;
  std::uint32_t table_ = first_table;
  RecordExternal plan_;
};

}  // namespace

bool is_main_default(const Route& route) { return route.is_default() && route.table == main_table; }

bool is_made(const Route& present, const Route& made) {
  if (present.destination != made.destination || present.table != made.table || present.type != made.type) return false;
  if (metric_of(present) != metric_of(made)) return false;
  // Of a route that refuses, the kernel names a device of its own.
  return made.next_hops.empty() || present.next_hops == made.next_hops;
}

CniResult<> refuse_second_external(const PodNetwork& pod) {
  const auto ours = [](const Rule& rule) { return rule.preference == rule_preference && rule.table >= first_table; };
  const auto rule = std::ranges::find_if(pod.rules, ours);
  if (rule == pod.rules.end()) return {};
  return cni_fail(cni_code::already_added,
                  "the container has an external network already: it has a rule from {} to table {}", rule->from.text(),
                  rule->table);
}

CniResult<const Link*> find_first(const PodNetwork& pod, const std::string& name) {
  if (!name.empty()) {
    const auto link = std::ranges::find(pod.links, name, &Link::name);
    if (link != pod.links.end()) return &*link;
    return cni_fail(cni_code::container_link,
                    "the container has no interface {}, which the first network's plugin is to have made", name);
  }
  for (const Family family : families) {
    for (const Route& route : main_defaults(pod, family)) {
      if (route.next_hops.size() != 1) continue;
      const auto link = std::ranges::find(pod.links, route.next_hops.front().link, &Link::index);
      if (link != pod.links.end()) return &*link;
    }
  }
  return cni_fail(cni_code::container_link,
                  "the container has no default route: it has no first network beside which an external one could be");
}

CniResult<RecordExternal> plan_external(const PodNetwork& pod, const ExternalRequest& request) {
  PDL_CNI_TRY_ASSIGN(const Link* const first, find_first(pod, request.first));
  return Planner(pod, request, *first).run();
}

void set_external_link(RecordExternal& external, int index) {
  for (Route& route : external.made) {
    for (NextHop& hop : route.next_hops) {
      if (hop.link == external_link) hop.link = index;
    }
  }
}

std::vector<ResultRoute> reported_routes(const RecordExternal& external) {
  std::vector<ResultRoute> routes;
  const auto is_own_table = [&](std::uint32_t table) {
    return std::ranges::any_of(external.rules, [table](const Rule& rule) { return rule.table == table; });
  };
  for (const Route& route : external.made) {
    if (route.type != RTN_UNICAST || is_own_table(route.table)) continue;
    ResultRoute said;
    said.dst = route.destination;
    said.gw = route.next_hops.front().gateway;
    if (route.mtu != 0) said.mtu = route.mtu;
    if (route.advmss != 0) said.advmss = route.advmss;
    if (route.metric != 0) said.priority = route.metric;
    if (route.table != main_table) said.table = route.table;
    routes.push_back(said);
  }
  return routes;
}

}  // namespace poduplink
