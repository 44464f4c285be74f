// SPDX-License-Identifier: Apache-2.0
#include "cni/options.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "loader/base/log.h"
#include "maps/bpf.h"

namespace poduplink {
namespace {

constexpr unsigned min_mtu = 68;         // of IPv4; the kernel refuses less
constexpr unsigned max_mtu = 65535;      // of veth
constexpr int max_ipam_timeout = 3600;   // s
constexpr int max_uplink_timeout = 600;  // s
constexpr MacAddress host_mac(std::array<std::uint8_t, 6>(PDL_HOST_MAC));

CniResult<> read_mode(const Section& root, Options& options) {
  PDL_CNI_TRY_ASSIGN(const auto mode, root.text("mode"));
  if (!mode || *mode == "fast") return {};
  if (*mode != "netfilter") return root.fault("mode", R"(is neither "fast" nor "netfilter")");
  options.mode = PDL_MODE_NETFILTER;
  return {};
}

CniResult<> read_uplink(const Section& root, Options& options) {
  PDL_CNI_TRY_ASSIGN(const auto required, root.flag("requireUplink"));
  options.require_uplink = required.value_or(true);
  PDL_CNI_TRY_ASSIGN(const auto on_link, root.flag("onLinkGateway"));
  options.on_link_gateway = on_link.value_or(false);
  PDL_CNI_TRY_ASSIGN(const auto timeout, root.number("uplinkTimeout", 0, max_uplink_timeout));
  if (timeout) options.uplink_timeout = std::chrono::seconds(*timeout);
  PDL_CNI_TRY_ASSIGN(const auto uplink, root.text("uplink"));
  if (!uplink) return {};
  PDL_CNI_TRY_ASSIGN(options.uplink, parse_uplink_key(*uplink));
  return {};
}

CniResult<> read_mtu(const Section& root, Options& options) {
  PDL_CNI_TRY_ASSIGN(const auto mtu, root.number("mtu", 0, max_mtu));
  options.mtu = static_cast<unsigned>(mtu.value_or(0));
  if (options.mtu != 0 && options.mtu < min_mtu) return root.fault("mtu", formatted("is less than {}", min_mtu));
  return {};
}

CniResult<> read_ipam_timeout(const Section& root, Options& options) {
  PDL_CNI_TRY_ASSIGN(const auto timeout, root.number("ipamTimeout", 1, max_ipam_timeout));
  if (timeout) options.ipam_timeout = std::chrono::seconds(*timeout);
  return {};
}

CniResult<> read_folder(const Section& root, std::string_view key, std::string& folder) {
  PDL_CNI_TRY_ASSIGN(const auto value, root.text(key));
  if (!value) return {};
  if (!value->starts_with('/')) return root.fault(key, "is not an absolute path");
  folder = *value;
  return {};
}

CniResult<> refuse_unsupported(const Section& root) {
  PDL_CNI_TRY_ASSIGN(const auto masquerade, root.flag("ipMasq"));
  if (masquerade.value_or(false)) {
    return cni_fail(cni_code::unsupported_field,
                    "key 'ipMasq': true is not supported: a masqueraded packet no longer bears the pod's address, by "
                    "which it is steered");
  }
  return {};
}

// A qdisc on the veth never sees a packet that is redirected before it, and below kernel 6.6 our filter and
// the bandwidth plugin's qdisc want the same place.
CniResult<> read_bandwidth(const Section& runtime, pdl_mode mode) {
  PDL_CNI_TRY_ASSIGN(const auto bandwidth, runtime.section("bandwidth"));
  if (!bandwidth) return {};
  bool limited = false;
  for (const char* key : {"ingressRate", "egressRate", "ingressBurst", "egressBurst"}) {
    PDL_CNI_TRY_ASSIGN(const auto value, bandwidth->number(key, 0, std::numeric_limits<std::int64_t>::max()));
    limited = limited || (std::string_view(key).ends_with("Rate") && value.value_or(0) > 0);
  }
  if (!limited || (mode == PDL_MODE_NETFILTER && bpf::have_tcx())) return {};
  CniFailure fault = mode == PDL_MODE_FAST
                         ? runtime.fault("bandwidth",
                                         "is not supported in fast mode, where packets pass no qdisc of "
                                         "the pod's veth: \"mode\": \"netfilter\" has it")
                         : runtime.fault("bandwidth", "is not supported on this kernel, which has no tcx (6.6)");
  fault.error().code = cni_code::unsupported_field;
  return fault;
}

bool can_be_pod_mac(const MacAddress& mac) { return !mac.is_zero() && !mac.is_multicast() && mac != host_mac; }

// In the order of what wins: the capability, `args`, CNI_ARGS.
CniResult<> read_mac(const Invocation& invocation, const std::optional<Section>& runtime, Options& options) {
  if (runtime) {
    PDL_CNI_TRY_ASSIGN(const auto text, runtime->text("mac"));
    if (text && !text->empty()) {
      const auto mac = MacAddress::parse(*text);
      if (!mac || !can_be_pod_mac(*mac)) return runtime->fault("mac", "is not a MAC that a container can have");
      options.mac = *mac;
      return {};
    }
  }
  // These speak of the first network's interface, which another plugin has made.
  if (options.external && options.external->chained()) return {};
  // What is wrong in `args` is never a reason to fail (the specification's word).
  if (const auto args = invocation.config.root().section("args"); args && *args) {
    if (const auto cni = (*args)->section("cni"); cni && *cni) {
      const auto text = (*cni)->text("mac");
      const auto mac = text && *text ? MacAddress::parse(**text) : Result<MacAddress>(fail("none"));
      if (mac && can_be_pod_mac(*mac)) {
        options.mac = *mac;
        return {};
      }
      if ((*cni)->has("mac")) log_warning("key 'args.cni.mac' is not a MAC that a container can have: ignored");
    }
  }
  const auto text = CniArgs(invocation.environment.args).value("MAC");
  if (!text || text->empty()) return {};
  const auto mac = MacAddress::parse(*text);
  if (!mac || !can_be_pod_mac(*mac)) {
    return cni_fail(cni_code::bad_environment, "CNI_ARGS: MAC '{}' is not a MAC that a container can have", *text);
  }
  options.mac = *mac;
  return {};
}

CniResult<> read_dns(const Invocation& invocation, const std::optional<Section>& runtime, Options& options) {
  PDL_CNI_TRY_ASSIGN(Dns dns, configured_dns(invocation.config));
  if (!dns.empty()) options.dns = std::move(dns);
  if (!runtime) return {};
  PDL_CNI_TRY_ASSIGN(const auto section, runtime->section("dns"));
  if (!section) return {};
  Dns asked;
  PDL_CNI_TRY_ASSIGN(const auto servers, section->texts("servers"));
  PDL_CNI_TRY_ASSIGN(const auto searches, section->texts("searches"));
  PDL_CNI_TRY_ASSIGN(const auto resolver_options, section->texts("options"));
  asked.nameservers = servers.value_or(std::vector<std::string>());
  asked.search = searches.value_or(std::vector<std::string>());
  asked.options = resolver_options.value_or(std::vector<std::string>());
  if (!asked.empty()) options.dns = std::move(asked);
  return {};
}

void read_labels(const Invocation& invocation, Options& options) {
  const CniArgs args(invocation.environment.args);
  for (const char* key : {"K8S_POD_NAMESPACE", "K8S_POD_NAME", "K8S_POD_UID"}) {
    if (auto value = args.value(key)) options.labels[key] = std::move(*value);
  }
}

}  // namespace

CniResult<Options> parse_options(const Invocation& invocation) {
  const Section root = invocation.config.root();
  Options options;
  PDL_CNI_TRY(refuse_unsupported(root));
  PDL_CNI_TRY(read_mode(root, options));
  PDL_CNI_TRY(read_uplink(root, options));
  PDL_CNI_TRY(read_mtu(root, options));
  PDL_CNI_TRY(read_ipam_timeout(root, options));
  PDL_CNI_TRY(read_folder(root, "pinDir", options.pin_dir));
  PDL_CNI_TRY(read_folder(root, "runDir", options.run_dir));
  PDL_CNI_TRY_ASSIGN(options.external, parse_external(invocation));
  if (options.external && !options.require_uplink)
    return root.fault("requireUplink", "cannot go with 'external', whose 'failOpen' is for nodes without the uplink");
  PDL_CNI_TRY_ASSIGN(const auto runtime, runtime_config(invocation.config));
  if (runtime) {
    PDL_CNI_TRY(read_bandwidth(*runtime, options.mode));
  }
  PDL_CNI_TRY(read_mac(invocation, runtime, options));
  PDL_CNI_TRY(read_dns(invocation, runtime, options));
  read_labels(invocation, options);
  return options;
}

Options readable_options(const Invocation& invocation) {
  const Section root = invocation.config.root();
  Options options;
  const auto note = [](const CniResult<>& read) {
    if (!read) log_warning("{}: the default is taken", read.error().msg);
  };
  note(read_ipam_timeout(root, options));
  note(read_folder(root, "pinDir", options.pin_dir));
  note(read_folder(root, "runDir", options.run_dir));
  return options;
}

}  // namespace poduplink
