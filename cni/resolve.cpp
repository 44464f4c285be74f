// SPDX-License-Identifier: Apache-2.0
#include "cni/resolve.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "cni/host_view.h"
#include "cni/process.h"
#include "loader/base/log.h"

namespace poduplink {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds poll_interval(100);

// The way out of the cluster has to be there before the pod is.
Result<std::optional<Uplink>> usable(std::optional<Uplink> uplink, const IpAddress& address) {
  if (!uplink) {
    return Failure(
        Error{EAGAIN, formatted("address {} has no uplink: the IPAM result and the key 'uplink' name none, it lies "
                                "in no subnet of a managed one, and none but the primary is managed",
                                address.text())});
  }
  if (uplink->entry.state != PDL_STATE_UP || !uplink->link.is_running())
    return Failure(Error{EAGAIN, formatted("uplink {} is down", uplink->link.name)});
  return uplink;
}

// Errors as of find_uplink(). Nothing: no name and no subnet leads to an uplink.
Result<std::optional<Uplink>> uplink_of(const WantedAddress& wanted, const HostView& view, const Options& options,
                                        const std::string& host_veth) {
  std::optional<Uplink> found;
  if (wanted.uplink) {
    PDL_TRY_ASSIGN(found, find_uplink(*wanted.uplink, view, host_veth));
  } else {
    PDL_TRY_ASSIGN(found, uplink_by_subnet(wanted.address.address(), view));
  }
  if (!options.external) return found;
  if (!found) {
    PDL_TRY_ASSIGN(found, only_secondary(view));
  }
  return usable(std::move(found), wanted.address.address());
}

// One look at the host.
Result<std::vector<std::optional<Uplink>>> uplinks_of(const std::vector<WantedAddress>& wanted, const HostView& view,
                                                      const Options& options, const std::string& host_veth) {
  std::vector<std::optional<Uplink>> uplinks;
  for (const WantedAddress& one : wanted) {
    PDL_TRY_ASSIGN(auto uplink, uplink_of(one, view, options, host_veth));
    uplinks.push_back(std::move(uplink));
  }
  return uplinks;
}

CniResult<> check_not_own(const std::vector<WantedAddress>& wanted, const HostView& view) {
  for (const WantedAddress& one : wanted) {
    const auto own = std::ranges::find_if(view.addresses, [&](const InterfaceAddress& address) {
      return address.prefix.address() == one.address.address();
    });
    if (own == view.addresses.end()) continue;
    return cni_fail(cni_code::ipam_result, "address {} of the IPAM result is this node's own",
                    one.address.address().text());
  }
  return {};
}

CniResult<PodAddress> steer(const WantedAddress& wanted, const Uplink& uplink, const HostView& view,
                            const Options& options) {
  PDL_CNI_TRY_ASSIGN(const Gateway gateway, choose_gateway(wanted, uplink, view, options.on_link_gateway));
  if (gateway.inferred) {
    log_warning("gateway {} of address {} is inferred from {}", gateway.address.text(), wanted.address.text(),
                gateway.origin);
  }
  if (uplink.entry.state != PDL_STATE_UP) log_warning("uplink {} is down", uplink.link.name);
  return PodAddress{wanted.address, SteeredBy{uplink, gateway.address}};
}

// No uplink for some address: for all or for none.
CniResult<> check_completeness(const std::vector<WantedAddress>& wanted,
                               const std::vector<std::optional<Uplink>>& uplinks, const Options& options) {
  const auto without = std::ranges::find_if(uplinks, [](const auto& uplink) { return !uplink; });
  if (without == uplinks.end()) return {};
  const auto place = static_cast<std::size_t>(without - uplinks.begin());
  const std::string address = wanted[place].address.text();
  if (options.require_uplink) {
    return cni_fail(cni_code::uplink,
                    "address {} has no uplink: the IPAM result and the key 'uplink' name none, and it lies in no "
                    "subnet of a managed one (\"requireUplink\": false allows it)",
                    address);
  }
  if (std::ranges::any_of(uplinks, [](const auto& uplink) { return uplink.has_value(); })) {
    return cni_fail(cni_code::uplink, "address {} has no uplink, but another address of the pod has one", address);
  }
  return {};
}

}  // namespace

CniResult<std::vector<PodAddress>> resolve_addresses(Netlink& netlink, const Tables& tables, const Options& options,
                                                     const std::vector<WantedAddress>& wanted,
                                                     const std::string& host_veth) {
  const auto deadline = Clock::now() + options.uplink_timeout;
  for (;;) {
    PDL_CNI_TRY_ASSIGN(const HostView view, with_code(cni_code::datapath, read_host(netlink, tables, wanted)));
    PDL_CNI_TRY(check_not_own(wanted, view));
    const auto uplinks = uplinks_of(wanted, view, options, host_veth);
    if (uplinks) {
      PDL_CNI_TRY(check_completeness(wanted, *uplinks, options));
      std::vector<PodAddress> addresses;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        PodAddress address{wanted[i].address, std::nullopt};
        if ((*uplinks)[i]) {
          PDL_CNI_TRY_ASSIGN(address, steer(wanted[i], *(*uplinks)[i], view, options));
        }
        addresses.push_back(std::move(address));
      }
      return addresses;
    }
    const int code = uplinks.error().code;
    if (code != ENODEV && code != EAGAIN) return CniFailure(cni_error(cni_code::uplink, uplinks.error()));
    if (stop_requested()) return cni_fail(cni_code::try_again, "asked to stop while waiting for an uplink");
    if (Clock::now() >= deadline) {
      return cni_fail(cni_code::uplink, "{}; waited {} s", uplinks.error().message,
                      options.uplink_timeout.count() / 1000);
    }
    std::this_thread::sleep_for(poll_interval);
  }
}

unsigned pod_mtu(const std::vector<PodAddress>& addresses, unsigned configured) {
  unsigned least = 0;
  for (const PodAddress& one : addresses) {
    if (!one.steer) continue;
    const unsigned mtu = one.steer->uplink.link.mtu;
    if (least == 0 || mtu < least) least = mtu;
  }
  if (least == 0) return configured;
  return configured != 0 && configured < least ? configured : least;
}

}  // namespace poduplink
