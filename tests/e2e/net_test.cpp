// SPDX-License-Identifier: Apache-2.0
// loader/net against the kernel: every call with its success and with the error code that callers branch on.
#include <linux/rtnetlink.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include "loader/net/link.h"
#include "loader/net/netns.h"
#include "loader/net/route.h"
#include "loader/net/tc.h"
#include "tests/harness/namespace.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary_folder.h"

using namespace poduplink;
using harness::Namespace;
using harness::value_of;

namespace {

const MacAddress host_mac = *MacAddress::parse("02:70:6f:64:75:70");
const MacAddress pod_mac = *MacAddress::parse("02:00:00:00:00:05");

template <typename T>
int error_of(const Result<T>& result) {
  return result ? 0 : result.error().code;
}

// Two namespaces with a veth between them, made by create_veth().
struct VethPair {
  VethPair() {
    value_of(create_veth(host, request()));
    veth = value_of(find_link_by_name(host, "pdlabc"));
    peer = value_of(find_link_by_name(pod, "eth0"));
    value_of(set_link_up(host, veth.index));
    value_of(set_link_up(pod, peer.index));
  }
  VethPair(const VethPair&) = delete;
  VethPair& operator=(const VethPair&) = delete;
  ~VethPair() {
    value_of(host_space.remove());
    value_of(pod_space.remove());
  }
  [[nodiscard]] VethRequest request() const {
    return {.host_name = "pdlabc",
            .host_mac = host_mac,
            .peer_name = "eth0",
            .peer_mac = pod_mac,
            .peer_netns_fd = pod_space.fd(),
            .mtu = 1400};
  }

  Namespace host_space = value_of(Namespace::create("net-host"));
  Namespace pod_space = value_of(Namespace::create("net-pod"));
  Netlink host = value_of(Netlink::open_in(host_space.fd()));
  Netlink pod = value_of(Netlink::open_in(pod_space.fd()));
  Link veth;
  Link peer;
};

bool has_route(Netlink& netlink, const Route& wanted) {
  const auto routes = value_of(dump_routes(netlink));
  return std::ranges::any_of(routes, [&](const Route& route) {
    return route.table == RT_TABLE_MAIN && route.destination == wanted.destination && route.next_hops.size() == 1 &&
           route.next_hops[0].link == wanted.next_hops[0].link &&
           route.next_hops[0].gateway == wanted.next_hops[0].gateway && route.mtu == wanted.mtu;
  });
}

}  // namespace

TEST_CASE("one request makes a veth with final names, MACs and MTU, its peer in the other namespace") {
  VethPair pair;
  CHECK(pair.veth.mac == host_mac);
  CHECK(pair.veth.mtu == 1400);
  CHECK(pair.veth.kind == "veth");
  CHECK_FALSE(pair.veth.is_admin_up());
  CHECK_FALSE(pair.peer.is_admin_up());
  CHECK(pair.veth.is_ethernet());
  CHECK(pair.veth.parent_elsewhere);
  CHECK_FALSE(pair.veth.is_stacked());
  CHECK(pair.peer.mac == pod_mac);
  CHECK(value_of(find_link(pair.host, pair.veth.index)).is_running());
  CHECK(error_of(create_veth(pair.host, pair.request())) == EEXIST);
  value_of(delete_link(pair.host, pair.veth.index));
  CHECK(error_of(delete_link(pair.host, pair.veth.index)) == ENODEV);
  CHECK(error_of(find_link_by_name(pair.pod, "eth0")) == ENODEV);
}

TEST_CASE("links are found by index, name and alternative name, and absent ones are ENODEV") {
  VethPair pair;
  value_of(pair.host_space.ip("link property add dev pdlabc altname a-name-that-is-longer-than-fifteen"));
  value_of(pair.host_space.ip("link property add dev pdlabc altname short"));
  for (const char* name : {"pdlabc", "a-name-that-is-longer-than-fifteen", "short"}) {
    CHECK(value_of(find_link_by_name(pair.host, name)).index == pair.veth.index);
  }
  CHECK(value_of(find_link(pair.host, pair.veth.index)).alternative_names.size() == 2);
  CHECK(error_of(find_link_by_name(pair.host, "absent")) == ENODEV);
  CHECK(error_of(find_link(pair.host, 4711)) == ENODEV);
  CHECK(value_of(dump_links(pair.host)).size() == 2);
}

TEST_CASE("addresses, routes and neighbours of a pod, and the errors of doing it twice") {
  VethPair pair;
  const int link = pair.peer.index;
  for (const char* text : {"10.2.0.5/32", "fd00:2::5/128"}) {
    const Prefix prefix = *Prefix::parse(text);
    value_of(add_address(pair.pod, link, prefix));
    CHECK(error_of(add_address(pair.pod, link, prefix)) == EEXIST);
    const auto addresses = value_of(dump_addresses(pair.pod));
    const auto found = std::ranges::find_if(addresses, [&](const auto& entry) { return entry.prefix == prefix; });
    REQUIRE(found != addresses.end());
    CHECK((found->flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) == 0);
  }
  for (const Family family : {Family::v4, Family::v6}) {
    const auto own = value_of(dump_addresses(pair.pod, {.family = family, .link = link}));
    CHECK(std::ranges::all_of(own, [&](const auto& entry) { return entry.prefix.family() == family; }));
    CHECK(std::ranges::any_of(
        own, [&](const auto& entry) { return entry.prefix.length() == entry.prefix.address().bits(); }));
    for (const auto& entry : value_of(dump_addresses(pair.pod, {.family = family, .link = 1}))) CHECK(entry.link == 1);
    CHECK(value_of(dump_addresses(pair.pod, {.family = family, .link = 4711})).empty());
  }
  CHECK(value_of(find_address6(pair.pod, *IpAddress::parse("fd00:2::5")))->link == link);
  CHECK_FALSE(value_of(find_address6(pair.pod, *IpAddress::parse("fd00:2::6"))));
  const auto gateway4 = *IpAddress::parse("169.254.1.1");
  const auto gateway6 = *IpAddress::parse("fe80::1");
  const Route on_link{.destination = Prefix(gateway4, 32), .next_hops = {{link, {}}}};
  value_of(add_route(pair.pod, on_link));
  CHECK(error_of(add_route(pair.pod, on_link)) == EEXIST);
  for (const Route& route :
       {Route{.destination = *Prefix::parse("0.0.0.0/0"), .next_hops = {{link, gateway4}}, .mtu = 1300},
        Route{.destination = *Prefix::parse("::/0"), .next_hops = {{link, gateway6}}},
        Route{.destination = *Prefix::parse("192.0.2.0/24"), .next_hops = {{link, gateway6}}}}) {
    value_of(add_route(pair.pod, route));
    CHECK(has_route(pair.pod, route));
    value_of(delete_route(pair.pod, route));
    CHECK_FALSE(has_route(pair.pod, route));
    CHECK(error_of(delete_route(pair.pod, route)) == ESRCH);
  }
  for (const IpAddress& gateway : {gateway4, gateway6}) {
    value_of(set_permanent_neighbour(pair.pod, link, gateway, host_mac));
    value_of(set_permanent_neighbour(pair.pod, link, gateway, pod_mac));
    const auto neighbours = value_of(dump_neighbours(pair.pod));
    const auto found = std::ranges::find_if(neighbours, [&](const auto& entry) { return entry.address == gateway; });
    REQUIRE(found != neighbours.end());
    CHECK(found->mac == pod_mac);
    value_of(delete_neighbour(pair.pod, link, gateway));
    CHECK(error_of(delete_neighbour(pair.pod, link, gateway)) == ENOENT);
  }
}

TEST_CASE("proxy neighbours are added once and removed once") {
  VethPair pair;
  const auto address = *IpAddress::parse("fd00:2::9");
  value_of(add_proxy_neighbour(pair.host, pair.veth.index, address));
  value_of(add_proxy_neighbour(pair.host, pair.veth.index, address));
  const auto proxies = value_of(dump_proxy_neighbours(pair.host));
  REQUIRE(proxies.size() == 1);
  CHECK(proxies[0].address == address);
  CHECK(proxies[0].link == pair.veth.index);
  value_of(delete_proxy_neighbour(pair.host, pair.veth.index, address));
  CHECK(error_of(delete_proxy_neighbour(pair.host, pair.veth.index, address)) == ENOENT);
}

TEST_CASE("Of neighbour events only those of chosen links arrive, and every other event") {
  VethPair pair;
  value_of(set_link_up(pair.host, pair.veth.index));
  const int loopback = value_of(find_link_by_name(pair.host, "lo")).index;
  Netlink events = value_of(Netlink::open_in(pair.host_space.fd()));
  for (const int group : {RTNLGRP_NEIGH, RTNLGRP_IPV4_ROUTE}) value_of(events.join(group));
  const auto arrived = [&](const std::string& address) {
    const IpAddress neighbour = *IpAddress::parse(address);
    value_of(pair.host_space.ip("route add 198.51.100.0/24 dev pdlabc"));
    value_of(set_permanent_neighbour(pair.host, pair.veth.index, neighbour, pod_mac));
    value_of(delete_neighbour(pair.host, pair.veth.index, neighbour));
    value_of(pair.host_space.ip("route del 198.51.100.0/24 dev pdlabc"));
    std::vector<std::uint16_t> types;
    value_of(events.receive([&](const nlmsghdr* message) {
      const bool of_neighbour = message->nlmsg_type == RTM_NEWNEIGH || message->nlmsg_type == RTM_DELNEIGH;
      if (!of_neighbour || parse_neighbour(message).address == neighbour) types.push_back(message->nlmsg_type);
    }));
    types.erase(std::ranges::unique(types).begin(), types.end());  // the kernel tells of a deletion in steps
    return types;
  };
  const std::vector<std::uint16_t> routes{RTM_NEWROUTE, RTM_DELROUTE};
  const std::vector<std::uint16_t> all{RTM_NEWROUTE, RTM_NEWNEIGH, RTM_DELNEIGH, RTM_DELROUTE};
  const auto unfiltered = arrived("10.1.0.7");
  for (const std::uint16_t type : all) CHECK(std::ranges::find(unfiltered, type) != unfiltered.end());
  events.only_neighbours_of({loopback});
  CHECK(arrived("10.1.0.8") == routes);
  CHECK(arrived("fd00:1::8") == routes);
  events.only_neighbours_of({loopback, pair.veth.index});
  CHECK(arrived("10.1.0.9") == unfiltered);
  CHECK(arrived("fd00:1::9") == unfiltered);
  events.only_neighbours_of({});
  CHECK(arrived("10.1.0.10") == routes);
  // More than a filter can hold: better all than too few.
  std::set<int> many;
  for (int link = 1000; link < 6000; ++link) many.insert(link);
  events.only_neighbours_of(many);
  CHECK(arrived("10.1.0.11").size() > routes.size());
}

TEST_CASE("clsact is made once, and an ingress qdisc in its place is named") {
  VethPair pair;
  CHECK(value_of(ingress_qdisc(pair.host, pair.veth.index)) == IngressQdisc::none);
  value_of(pair.host_space.run_ok({"tc", "qdisc", "add", "dev", "pdlabc", "ingress"}));
  CHECK(value_of(ingress_qdisc(pair.host, pair.veth.index)) == IngressQdisc::ingress);
  value_of(pair.host_space.run_ok({"tc", "qdisc", "del", "dev", "pdlabc", "ingress"}));
  CHECK(value_of(ingress_qdisc(pair.host, pair.veth.index)) == IngressQdisc::none);
  CHECK(value_of(dump_filters(pair.host, pair.veth.index, TcHook::ingress)).empty());
  value_of(ensure_clsact(pair.host, pair.veth.index));
  value_of(ensure_clsact(pair.host, pair.veth.index));
  CHECK(value_of(ingress_qdisc(pair.host, pair.veth.index)) == IngressQdisc::clsact);
  // u32 is in every kernel that is run; matchall is not.
  value_of(pair.host_space.run_ok({"tc", "filter", "add", "dev", "pdlabc", "ingress", "prio", "7", "protocol", "all",
                                   "u32", "match", "u32", "0", "0", "classid", "1:1"}));
  const auto filters = value_of(dump_filters(pair.host, pair.veth.index, TcHook::ingress));
  REQUIRE_FALSE(filters.empty());
  for (const TcFilter& filter : filters) {
    CHECK(filter.kind == "u32");
    CHECK(filter.priority == 7);
  }
  value_of(delete_clsact(pair.host, pair.veth.index));
  value_of(pair.host_space.run_ok({"tc", "qdisc", "add", "dev", "pdlabc", "ingress"}));
  const auto refused = ensure_clsact(pair.host, pair.veth.index);
  CHECK(error_of(refused) == EBUSY);
  CHECK(refused.error().message.find("ingress") != std::string::npos);
}

TEST_CASE("only network namespaces are opened as such, and the thread comes back from one") {
  for (const char* path : {"/proc/self/ns/mnt", "/etc/hostname", "/proc", "/dev/null"}) {
    CHECK(error_of(open_netns(path)) == EINVAL);
  }
  CHECK(error_of(open_netns("/run/netns/none")) == ENOENT);
  const VethPair pair;
  const Fd home = value_of(current_netns());
  {
    const auto scope = value_of(NetnsScope::enter(pair.pod_space.fd()));
    CHECK_FALSE(value_of(same_netns(home.get(), value_of(current_netns()).get())));
    value_of(write_net_sysctl("ipv6/conf/eth0/accept_ra", "0"));
    CHECK(value_of(read_net_sysctl("ipv6/conf/eth0/accept_ra")) == "0");
  }
  CHECK(value_of(same_netns(home.get(), value_of(current_netns()).get())));
  CHECK(error_of(read_net_sysctl("ipv6/conf/eth0/accept_ra")) == ENOENT);
}

TEST_CASE("lists are whole while links come and go") {
  const VethPair pair;
  const tests::TemporaryFolder folder;
  // Each change during a dump makes the kernel mark it as interrupted.
  auto churn = value_of(
      harness::Background::start({.argv = {"sh", "-c",
                                           "for i in $(seq 60); do ip link add d$i type veth peer name e$i; done; "
                                           "for i in $(seq 60); do ip link del d$i; done"},
                                  .netns_fd = pair.host_space.fd()},
                                 folder.file("log")));
  Netlink netlink = value_of(Netlink::open_in(pair.host_space.fd()));
  while (churn.running()) {
    const auto links = dump_links(netlink);
    if (!links) {
      CHECK(links.error().code == EBUSY);
      continue;
    }
    CHECK(std::ranges::count_if(*links, [](const Link& link) { return link.name == "pdlabc"; }) == 1);
  }
  CHECK(churn.wait(std::chrono::seconds(10)) == 0);
  CHECK(value_of(dump_links(netlink)).size() == 2);
}
