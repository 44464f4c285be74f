// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "cni/announce.h"
#include "cni/capabilities.h"
#include "cni/delegate.h"
#include "cni/external_add.h"
#include "cni/external_pod.h"
#include "cni/options.h"
#include "cni/pod_link.h"
#include "cni/process.h"
#include "cni/resolve.h"
#include "cni/state.h"
#include "cni/undo.h"
#include "cni/verbs.h"
#include "loader/base/log.h"

namespace poduplink {
namespace {

// IPv6 needs links of at least this.
constexpr unsigned min_ipv6_mtu = 1280;

CniResult<> stop_if_asked() {
  if (!stop_requested()) return {};
  return cni_fail(cni_code::try_again, "a signal asked poduplink to stop: ADD is undone");
}

// What ADD works with, opened before anything is changed.
struct Setting {
  Options options;
  AttachmentId id;
  Fd netns;
  Netlink host;
  Netlink container;
  Tables tables;
  std::optional<AddResult> previous;  // of the plugins before ours
  std::optional<PodNetwork> first;    // of an external network: the pod as it was
  Announcer announcer;
};

CniResult<> refuse_existing_interface(Netlink& container, const Environment& environment, const Options& options) {
  const std::string& name = options.container_interface(environment);
  const auto link = find_link_by_name(container, name);
  if (!link && link.error().code == ENODEV) return {};
  if (!link) return CniFailure(cni_error(cni_code::container_link, link.error()));
  const bool chained = options.external && options.external->chained();
  return cni_fail(cni_code::already_added, "{}: the container has an interface {} already",
                  chained ? "key 'external.ifName'" : "CNI_IFNAME", name);
}

CniResult<Setting> prepare(const Invocation& invocation, const Options& options,
                           const std::optional<AddResult>& previous) {
  PDL_CNI_TRY(check_capabilities());
  PDL_CNI_TRY_ASSIGN(Fd netns, open_container(invocation.environment));
  PDL_CNI_TRY_ASSIGN(Netlink host, with_code(cni_code::container_link, Netlink::open()));
  PDL_CNI_TRY_ASSIGN(Netlink container, with_code(cni_code::container_link, Netlink::open_in(netns.get())));
  PDL_CNI_TRY(refuse_existing_interface(container, invocation.environment, options));
  std::optional<PodNetwork> first;
  if (options.external) {
    PDL_CNI_TRY_ASSIGN(first, read_first_network(container, invocation, options));
  }
  PDL_CNI_TRY_ASSIGN(Tables tables, open_datapath(options.pin_dir));
  return Setting{options,         invocation.attachment(), std::move(netns),
                 std::move(host), std::move(container),    std::move(tables),
                 previous,        std::move(first),        {}};
}

std::vector<IpAddress> plain_addresses(const std::vector<PodAddress>& addresses) {
  std::vector<IpAddress> plain;
  plain.reserve(addresses.size());
  for (const PodAddress& one : addresses) plain.push_back(one.address.address());
  return plain;
}

CniResult<unsigned> choose_mtu(const std::vector<PodAddress>& addresses, unsigned configured) {
  const unsigned mtu = pod_mtu(addresses, configured);
  if (configured > mtu) log_warning("key 'mtu': {} is more than the uplink has; {} is taken", configured, mtu);
  const bool has_v6 =
      std::ranges::any_of(addresses, [](const PodAddress& one) { return one.address.address().is_v6(); });
  if (!has_v6 || mtu == 0 || mtu >= min_ipv6_mtu) return mtu;
  if (mtu == configured) {
    return cni_fail(cni_code::bad_config, "key 'mtu': {} is less than the {} that IPv6 needs", mtu, min_ipv6_mtu);
  }
  return cni_fail(cni_code::uplink, "the uplink's MTU {} is less than the {} that IPv6 needs", mtu, min_ipv6_mtu);
}

bool answers_neighbours(const SteeredBy& steer) {
  return (steer.uplink.entry.flags & PDL_UPLINK_ANSWER_NEIGHBOURS) != 0;
}

RecordAddress record_address(const PodAddress& address) {
  RecordAddress made;
  made.address = address.address;
  if (!address.steer) return made;
  const Uplink& uplink = address.steer->uplink;
  made.gateway = address.steer->gateway;
  made.uplink_name = uplink.link.name;
  made.uplink_mac = uplink.link.mac.value_or(MacAddress());
  made.uplink_index = uplink.link.index;
  made.on_link = (uplink.entry.flags & PDL_UPLINK_ON_LINK) != 0;
  // Written before it is done, so that whoever undoes it knows.
  made.announced = address.address.address().is_v6() && answers_neighbours(*address.steer);
  return made;
}

// Without owner and veth, which claim() fills in.
std::optional<pdl_pod> pod_entry(Netlink& host, const PodAddress& address, const Record& record) {
  if (!address.steer) return std::nullopt;
  const Uplink& uplink = address.steer->uplink;
  pdl_pod entry{};
  entry.home = static_cast<std::uint32_t>(uplink.link.index);
  entry.mtu = uplink.link.mtu;
  set_pod_gateway(entry, address.steer->gateway);
  if (const auto neighbour = find_neighbour(host, uplink.link.index, address.steer->gateway)) {
    set_mac(entry.gateway_mac, neighbour->mac.value_or(MacAddress()));
  }
  set_mac(entry.pod_mac, record.pod_mac);
  entry.prefix_len = static_cast<std::uint8_t>(address.address.length());
  entry.mode = record.mode;
  if ((uplink.entry.flags & PDL_UPLINK_ON_LINK) != 0) entry.flags |= PDL_POD_ON_LINK;
  return entry;
}

// The neighbours on the uplinks learn where the addresses are. A real NIC filters multicast: with the proxy
// neighbour the uplink joins the solicited-node group of an IPv6 address.
CniResult<> announce_addresses(Netlink& host, Announcer& announcer, const std::vector<PodAddress>& addresses) {
  std::vector<Announcement> announcements;
  for (const PodAddress& one : addresses) {
    if (!one.steer || !answers_neighbours(*one.steer)) continue;
    const Link& link = one.steer->uplink.link;
    const IpAddress& address = one.address.address();
    if (address.is_v6()) {
      auto added = add_proxy_neighbour(host, link.index, address);
      if (!added) {
        return CniFailure(cni_error(cni_code::uplink, std::move(added.error()).within("proxy on uplink " + link.name)));
      }
    }
    announcements.push_back({link.index, address, link.mac.value_or(MacAddress())});
  }
  // Whoever misses it asks again sooner or later: no reason to fail.
  if (const auto done = announcer.announce(announcements); !done) log_warning("{}", done.error().message);
  return {};
}

AddResult result_of(const Invocation& invocation, const Record& record, const Link& host, const Link& container,
                    const std::vector<PodAddress>& addresses, std::vector<ResultRoute> routes) {
  AddResult result;
  ResultInterface veth;
  veth.name = host.name;
  veth.mac = host.mac.value_or(MacAddress()).text();
  veth.mtu = host.mtu;
  ResultInterface inside;
  inside.name = container.name;
  inside.mac = container.mac.value_or(record.pod_mac).text();
  inside.mtu = container.mtu;
  inside.sandbox = invocation.environment.netns;
  // The container's last: go-cni files interfaces by name, and a later entry replaces an earlier one.
  result.interfaces = {std::move(veth), std::move(inside)};
  for (const PodAddress& one : addresses) {
    const IpAddress& address = one.address.address();
    result.ips.push_back({Prefix(address, address.bits()), link_gateway(address.family()), 1});
  }
  result.routes = std::move(routes);
  return result;
}

// One netlink request for both ends, then the host end as the kernel has it. Both stay down until everything around
// them is ready.
CniResult<Link> make_veth(Setting& setting, const Record& record, const std::string& peer_name, Undo& undo) {
  const VethRequest request{.host_name = record.host_veth,
                            .host_mac = link_gateway_mac(),
                            .peer_name = peer_name,
                            .peer_mac = record.pod_mac,
                            .peer_netns_fd = setting.netns.get(),
                            .mtu = record.mtu};
  PDL_CNI_TRY(with_code(cni_code::container_link, create_veth(setting.host, request)));
  undo.add([&setting] {
    const auto removed = take_down(setting.options, setting.id);
    if (!removed) log_error("undoing ADD: {}", removed.error().msg);
  });
  return with_code(cni_code::container_link, find_link_by_name(setting.host, record.host_veth));
}

// What is known before there is an address: enough for whoever has to clear away what a killed ADD left.
Record first_record(const Invocation& invocation, const Options& options) {
  Record record;
  record.id = invocation.attachment();
  record.mode = options.mode;
  record.netns = invocation.environment.netns;
  record.host_veth = host_veth_name(record.id);
  record.labels = options.labels;
  return record;
}

CniResult<Record> new_record(const Invocation& invocation, const Setting& setting,
                             const std::vector<PodAddress>& addresses) {
  Record record = first_record(invocation, setting.options);
  PDL_CNI_TRY_ASSIGN(record.mtu, choose_mtu(addresses, setting.options.mtu));
  if (setting.options.mac) {
    record.pod_mac = *setting.options.mac;
  } else {
    PDL_CNI_TRY_ASSIGN(record.pod_mac, with_code(cni_code::container_link, random_mac()));
  }
  for (const PodAddress& one : addresses) record.addresses.push_back(record_address(one));
  return record;
}

// Returns the routes as the result of ADD reports them.
CniResult<std::vector<ResultRoute>> configure_pod(Setting& setting, const Record& record, const Link& inside,
                                                  const std::vector<IpAddress>& addresses,
                                                  const std::vector<ResultRoute>& from_ipam) {
  const auto configure = [&](std::vector<ResultRoute> routes) {
    return configure_container(setting.container, setting.netns.get(), inside, addresses, std::move(routes));
  };
  if (!record.external) return configure(container_routes(addresses, from_ipam));
  PDL_CNI_TRY(configure({}));
  PDL_CNI_TRY(make_external_routes(setting.container, *record.external));
  return reported_routes(*record.external);
}

// From addresses to a pod that sends and receives.
CniResult<AddResult> attach(const Invocation& invocation, Setting& setting, const std::vector<PodAddress>& addresses,
                            const AddResult& from_ipam, Undo& undo) {
  const std::vector<IpAddress> plain = plain_addresses(addresses);
  PDL_CNI_TRY_ASSIGN(Record record, new_record(invocation, setting, addresses));
  if (setting.first) {
    PDL_CNI_TRY_ASSIGN(record.external, plan_for(setting.host, *setting.first, invocation, setting.options, addresses,
                                                 from_ipam.routes));
  }
  const std::string& name = setting.options.container_interface(invocation.environment);
  PDL_CNI_TRY_ASSIGN(const Link veth, make_veth(setting, record, name, undo));
  record.host_veth_index = veth.index;
  if (record.mtu == 0) record.mtu = veth.mtu;
  PDL_CNI_TRY_ASSIGN(const Link inside,
                     with_code(cni_code::container_link, find_link_by_name(setting.container, name)));
  if (record.external) set_external_link(*record.external, inside.index);
  PDL_CNI_TRY(stop_if_asked());

  std::vector<std::optional<pdl_pod>> entries;
  entries.reserve(addresses.size());
  for (const PodAddress& one : addresses) entries.push_back(pod_entry(setting.host, one, record));
  PDL_CNI_TRY(claim(setting.host, setting.options, record, entries));
  PDL_CNI_TRY(configure_host_side(setting.host, veth, plain));
  PDL_CNI_TRY_ASSIGN(auto routes, configure_pod(setting, record, inside, plain, from_ipam.routes));
  PDL_CNI_TRY(stop_if_asked());
  PDL_CNI_TRY(announce_addresses(setting.host, setting.announcer, addresses));
  PDL_CNI_TRY_ASSIGN(const Link finished,
                     with_code(cni_code::container_link, find_link(setting.container, inside.index)));
  PDL_CNI_TRY(mark_ready(setting.options, record));
  AddResult result = result_of(invocation, record, veth, finished, addresses, std::move(routes));
  result.dns = setting.options.dns.value_or(from_ipam.dns);
  return setting.previous ? chained_result(*setting.previous, result) : result;
}

CniResult<std::vector<PodAddress>> find_uplinks(Setting& setting, const AddResult& from_ipam) {
  PDL_CNI_TRY_ASSIGN(const auto wanted, wanted_addresses(from_ipam, setting.options.uplink));
  if (setting.previous) {
    PDL_CNI_TRY(refuse_foreign_links(*setting.previous, wanted));
  }
  PDL_CNI_TRY_ASSIGN(auto addresses, resolve_addresses(setting.host, setting.tables, setting.options, wanted,
                                                       host_veth_name(setting.id)));
  if (setting.previous) {
    PDL_CNI_TRY(refuse_foreign_links(*setting.previous, addresses));
  }
  return addresses;
}

// All of ADD, or nothing of it.
CniResult<AddResult> add_or_undo(const Invocation& invocation, const Options& options,
                                 const std::optional<AddResult>& previous) {
  PDL_CNI_TRY_ASSIGN(const Ipam ipam, Ipam::find(invocation, options.ipam_timeout));
  PDL_CNI_TRY_ASSIGN(Setting setting, prepare(invocation, options, previous));

  // Until here there is nothing to undo, and a signal may end the program as it likes.
  hold_signals();
  PDL_CNI_TRY(begin_attachment(setting.options, first_record(invocation, setting.options)));
  Undo undo;
  // Before the IPAM plugin runs: one that fails may have reserved an address all the same. The record goes last, for as
  // long as there is something to take back, GC has to know of it.
  undo.add([&ipam, &setting] {
    if (!ipam.undo_add()) return;
    if (const auto forgotten = forget(setting.options, setting.id); !forgotten)
      log_error("undoing ADD: {}", forgotten.error().msg);
  });
  PDL_CNI_TRY_ASSIGN(const AddResult from_ipam, ipam.add([&setting] { setting.announcer.prepare(); }));
  PDL_CNI_TRY(stop_if_asked());
  PDL_CNI_TRY_ASSIGN(const auto addresses, find_uplinks(setting, from_ipam));
  PDL_CNI_TRY_ASSIGN(AddResult result, attach(invocation, setting, addresses, from_ipam, undo));
  PDL_CNI_TRY(stop_if_asked());
  undo.keep();
  return result;
}

}  // namespace

CniResult<AddResult> add_pod(const Invocation& invocation) {
  PDL_CNI_TRY_ASSIGN(const Options options, parse_options(invocation));
  PDL_CNI_TRY_ASSIGN(const auto previous, take_previous_result(invocation, options));
  PDL_CNI_TRY_ASSIGN(const AttachmentLock lock, lock_attachment(options, invocation.attachment()));
  auto added = add_or_undo(invocation, options, previous);
  if (added || !may_fail_open(options, added.error())) return added;
  return fail_open(options, first_record(invocation, options), invocation, previous, added.error());
}

}  // namespace poduplink
