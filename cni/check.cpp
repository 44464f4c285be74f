// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <optional>

#include "cni/delegate.h"
#include "cni/external_pod.h"
#include "cni/options.h"
#include "cni/pod_link.h"
#include "cni/resolve.h"
#include "cni/state.h"
#include "cni/verbs.h"
#include "maps/podprog.h"

namespace poduplink {
namespace {

template <typename... Args>
CniFailure differs(fmt::format_string<Args...> text, Args&&... args) {
  return cni_fail(cni_code::check_failed, text, std::forward<Args>(args)...);
}

CniResult<AddResult> required_previous_result(const Invocation& invocation) {
  PDL_CNI_TRY_ASSIGN(auto previous, previous_result(invocation.config));
  if (!previous) return cni_fail(cni_code::bad_config, "key 'prevResult' is missing: CHECK compares with it");
  const auto count = static_cast<std::int64_t>(previous->interfaces.size());
  for (const ResultIp& ip : previous->ips) {
    if (!ip.interface || (*ip.interface >= -1 && *ip.interface < count)) continue;
    return cni_fail(cni_code::bad_config, "key 'prevResult': address {} points to interfaces[{}], but there are {}",
                    ip.address.text(), *ip.interface, count);
  }
  return std::move(*previous);
}

CniResult<Record> ready_record(const Options& options, const AttachmentId& id) {
  PDL_CNI_TRY_ASSIGN(const auto lock, with_code(cni_code::state, GlobalLock::take(options.run_dir)));
  PDL_CNI_TRY_ASSIGN(auto record, with_code(cni_code::state, load_record(options.run_dir, id)));
  if (!record) {
    return differs("there is no record of {} of container {} in network {}", id.if_name, id.container_id, id.network);
  }
  if (record->state != RecordState::ready) return differs("the attachment was never finished, or is being deleted");
  return std::move(*record);
}

// ---- Inside the container ----------------------------------------------------------------------

// The place of the container's interface in the previous result.
CniResult<std::size_t> own_interface(const AddResult& previous, const Environment& environment,
                                     const std::string& name) {
  std::optional<std::string> elsewhere;
  for (std::size_t i = 0; i < previous.interfaces.size(); ++i) {
    const ResultInterface& interface = previous.interfaces[i];
    if (interface.name != name || interface.sandbox.empty()) continue;
    if (interface.sandbox == environment.netns) return i;
    elsewhere = interface.sandbox;
  }
  if (elsewhere) {
    return differs("prevResult has {} in sandbox {}, but CNI_NETNS is {}", name, *elsewhere, environment.netns);
  }
  return differs("prevResult has no interface {} in a sandbox", name);
}

CniResult<Link> check_container_link(Netlink& container, const ResultInterface& wanted) {
  auto link = find_link_by_name(container, wanted.name);
  if (!link && link.error().code == ENODEV) return differs("the container has no interface {}", wanted.name);
  if (!link) return CniFailure(cni_error(cni_code::container_link, link.error()));
  if (link->kind != "veth")
    return differs("interface {} of the container is no veth but '{}'", wanted.name, link->kind);
  if (!link->is_admin_up()) return differs("interface {} of the container is down", wanted.name);
  const auto mac = MacAddress::parse(wanted.mac);
  if (mac && link->mac != *mac) {
    return differs("interface {} of the container has MAC {}, prevResult says {}", wanted.name,
                   link->mac.value_or(MacAddress()).text(), wanted.mac);
  }
  if (wanted.mtu != 0 && link->mtu != wanted.mtu) {
    return differs("interface {} of the container has MTU {}, prevResult says {}", wanted.name, link->mtu, wanted.mtu);
  }
  return std::move(*link);
}

CniResult<> check_addresses(Netlink& container, const Link& link, const AddResult& previous, std::size_t interface,
                            const Record& record) {
  PDL_CNI_TRY_ASSIGN(const auto present, with_code(cni_code::container_link, dump_addresses(container)));
  const auto require = [&](const IpAddress& address) -> CniResult<> {
    const bool there = std::ranges::any_of(present, [&](const InterfaceAddress& one) {
      return one.link == link.index && one.prefix.address() == address;
    });
    if (there) return {};
    return differs("interface {} of the container lacks address {}", link.name, address.text());
  };
  for (const ResultIp& ip : previous.ips) {
    if (ip.interface != static_cast<std::int64_t>(interface)) continue;
    PDL_CNI_TRY(require(ip.address.address()));
  }
  for (const RecordAddress& one : record.addresses) {
    PDL_CNI_TRY(require(one.address.address()));
  }
  return {};
}

// A route of the previous result that we made: by our gateway, or to it. Later plugins may add others.
bool is_ours(const ResultRoute& route) {
  const IpAddress gateway = link_gateway(route.dst.family());
  return route.gw == gateway || route.dst == Prefix(gateway, gateway.bits());
}

CniResult<> check_routes(Netlink& container, const Link& link, const AddResult& previous, const Record& record) {
  PDL_CNI_TRY_ASSIGN(const auto present, with_code(cni_code::container_link, dump_routes(container)));
  // Metrics are not compared: the kernel fills in its own, and results before 1.1.0 do not carry them.
  const auto require = [&](const ResultRoute& wanted) -> CniResult<> {
    const bool there = std::ranges::any_of(present, [&](const Route& one) {
      return one.destination == wanted.dst && (!wanted.table || one.table == *wanted.table) &&
             std::ranges::any_of(one.next_hops, [&](const NextHop& hop) {
               return hop.link == link.index && (!wanted.gw || hop.gateway == wanted.gw);
             });
    });
    if (there) return {};
    return differs("the container lacks the route to {} by {}", wanted.dst.text(), link.name);
  };
  for (const ResultRoute& route : previous.routes) {
    if (!is_ours(route)) continue;
    PDL_CNI_TRY(require(route));
  }
  std::vector<IpAddress> addresses;
  addresses.reserve(record.addresses.size());
  for (const RecordAddress& one : record.addresses) addresses.push_back(one.address.address());
  for (const ResultRoute& route : container_routes(addresses, {})) {
    if (route.gw) continue;  // a default that the IPAM plugin put elsewhere is in the previous result
    PDL_CNI_TRY(require(route));
  }
  return {};
}

CniResult<> check_container(const Invocation& invocation, const AddResult& previous, const Record& record) {
  PDL_CNI_TRY_ASSIGN(const Fd netns, open_container(invocation.environment));
  const std::string& name = record.external ? record.external->if_name : invocation.environment.ifname;
  PDL_CNI_TRY_ASSIGN(const std::size_t interface, own_interface(previous, invocation.environment, name));
  PDL_CNI_TRY_ASSIGN(Netlink container, with_code(cni_code::container_link, Netlink::open_in(netns.get())));
  PDL_CNI_TRY_ASSIGN(const Link link, check_container_link(container, previous.interfaces[interface]));
  PDL_CNI_TRY(check_addresses(container, link, previous, interface, record));
  if (record.external) return check_external_routes(container, *record.external);
  return check_routes(container, link, previous, record);
}

// ---- On the host -------------------------------------------------------------------------------

CniResult<> check_host_veth(Netlink& host, const Record& record) {
  const auto link = find_link(host, record.host_veth_index);
  if (!link && link.error().code != ENODEV) return CniFailure(cni_error(cni_code::container_link, link.error()));
  if (!link || link->name != record.host_veth) return differs("the host lacks veth {}", record.host_veth);
  if (!link->is_admin_up()) return differs("veth {} is down", record.host_veth);
  if (link->mac != link_gateway_mac()) return differs("veth {} has another MAC", record.host_veth);
  return {};
}

CniResult<> check_host_routes(Netlink& host, const Record& record) {
  PDL_CNI_TRY_ASSIGN(const auto present, with_code(cni_code::container_link, dump_routes(host)));
  for (const RecordAddress& one : record.addresses) {
    const Route wanted = host_route(one.address.address(), record.host_veth_index);
    const bool there = std::ranges::any_of(present, [&](const Route& route) {
      return route.destination == wanted.destination && route.table == wanted.table && !route.next_hops.empty() &&
             route.next_hops.front().link == record.host_veth_index;
    });
    if (!there) return differs("the host lacks the route to {} by {}", wanted.destination.text(), record.host_veth);
  }
  return {};
}

// The uplink of an address, found again much as the agent does: by MAC, and by index where several have it, or where
// none has it any more.
CniResult<std::pair<std::uint32_t, pdl_uplink>> find_home(const Tables& tables, const RecordAddress& address) {
  PDL_CNI_TRY_ASSIGN(const auto uplinks, with_code(cni_code::datapath, tables.uplinks.entries()));
  const std::pair<std::uint32_t, pdl_uplink>* found = nullptr;
  for (const auto& one : uplinks) {
    if (one.second.role != PDL_ROLE_HOME || to_mac(one.second.mac) != address.uplink_mac) continue;
    if (found == nullptr || one.first == static_cast<std::uint32_t>(address.uplink_index)) found = &one;
  }
  for (const auto& one : uplinks) {
    const bool same = one.second.role == PDL_ROLE_HOME && one.first == static_cast<std::uint32_t>(address.uplink_index);
    if (found == nullptr && same) found = &one;
  }
  if (found == nullptr) {
    return differs("uplink {} with MAC {} of address {} is gone, or managed by the agent no longer",
                   address.uplink_name, address.uplink_mac.text(), address.address.address().text());
  }
  return *found;
}

CniResult<> check_entry(const Tables& tables, const Record& record, const RecordAddress& address) {
  const std::string text = address.address.address().text();
  PDL_CNI_TRY_ASSIGN(const auto home, find_home(tables, address));
  PDL_CNI_TRY_ASSIGN(const auto entry, with_code(cni_code::datapath, tables.pods.find(address.address.address())));
  if (!entry) return differs("the map has no entry for address {}", text);
  if (entry->owner != attachment_hash(record.id)) return differs("the entry of address {} is another pod's", text);
  const auto wrong = [&](std::string_view what) {
    return differs("the entry of address {} has another {}", text, what);
  };
  if (entry->veth != static_cast<std::uint32_t>(record.host_veth_index)) return wrong("veth");
  if (entry->home != home.first) return wrong("home than uplink " + address.uplink_name);
  if (pod_gateway(*entry) != address.gateway) return wrong("gateway");
  if (entry->prefix_len != address.address.length()) return wrong("prefix length");
  if (entry->mode != record.mode) return wrong("mode");
  return {};
}

// Under the lock, so that the agent is not in the middle of changing one.
CniResult<> check_entries(const Options& options, const Tables& tables, const Record& record) {
  PDL_CNI_TRY_ASSIGN(const auto lock, with_code(cni_code::state, GlobalLock::take(options.run_dir)));
  for (const RecordAddress& one : record.addresses) {
    PDL_CNI_TRY(check_entry(tables, record, one));
  }
  return {};
}

CniResult<> check_proxy_neighbours(Netlink& host, const Tables& tables, const Record& record) {
  const bool any = std::ranges::any_of(record.addresses, &RecordAddress::announced);
  if (!any) return {};
  PDL_CNI_TRY_ASSIGN(const auto present, with_code(cni_code::container_link, dump_proxy_neighbours(host)));
  for (const RecordAddress& one : record.addresses) {
    if (!one.announced) continue;
    PDL_CNI_TRY_ASSIGN(const auto home, find_home(tables, one));
    const bool there = std::ranges::any_of(present, [&](const Neighbour& neighbour) {
      return neighbour.link == static_cast<int>(home.first) && neighbour.address == one.address.address();
    });
    if (!there) {
      return differs("uplink {} lacks the proxy neighbour for {}", one.uplink_name, one.address.address().text());
    }
  }
  return {};
}

CniResult<> check_datapath(Netlink& host, const Options& options, const Record& record) {
  const bool steered =
      std::ranges::any_of(record.addresses, [](const RecordAddress& one) { return !one.uplink_name.empty(); });
  if (!steered) return {};
  PDL_CNI_TRY_ASSIGN(const Tables tables, open_datapath(options.pin_dir));
  PDL_CNI_TRY(check_entries(options, tables, record));
  PDL_CNI_TRY_ASSIGN(const std::string fault,
                     with_code(cni_code::datapath, check_pod_program(host, tables.folder, record.host_veth,
                                                                     record.host_veth_index, record.mode)));
  if (!fault.empty()) return differs("{}", fault);
  return check_proxy_neighbours(host, tables, record);
}

}  // namespace

// Changes nothing. Neighbours of the container are not looked at: a chained plugin that sets another MAC
// flushes them, and pod_egress answers for the gateways anyway.
CniResult<> check_pod(const Invocation& invocation) {
  PDL_CNI_TRY_ASSIGN(const Options options, parse_options(invocation));
  PDL_CNI_TRY_ASSIGN(const AddResult previous, required_previous_result(invocation));
  PDL_CNI_TRY_ASSIGN(const Ipam ipam, Ipam::find(invocation, options.ipam_timeout));
  PDL_CNI_TRY_ASSIGN(const AttachmentLock lock, lock_attachment(options, invocation.attachment()));
  PDL_CNI_TRY_ASSIGN(const Record record, ready_record(options, invocation.attachment()));
  if (record.external && !record.external->failed_open.empty()) return {};  // there is nothing of ours to look at
  PDL_CNI_TRY(check_container(invocation, previous, record));
  PDL_CNI_TRY_ASSIGN(Netlink host, with_code(cni_code::container_link, Netlink::open()));
  PDL_CNI_TRY(check_host_veth(host, record));
  PDL_CNI_TRY(check_host_routes(host, record));
  PDL_CNI_TRY(check_datapath(host, options, record));
  return ipam.call(Verb::check);
}

}  // namespace poduplink
