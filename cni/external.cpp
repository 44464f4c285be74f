// SPDX-License-Identifier: Apache-2.0
#include "cni/external.h"

#include <algorithm>
#include <utility>

#include "cni/spec/result.h"

namespace poduplink {
namespace {

// Where host-local keeps its reservations unless it is told otherwise.
constexpr std::string_view host_local_store = "/var/lib/cni/networks";

// What is wrong with one item, put behind it; empty: nothing.
std::string fault_of(const std::string& text, const std::vector<Prefix>& before) {
  if (text.empty()) return "is empty";
  if (text.find_first_of(" \t\r\n") != std::string::npos) return "has blanks";
  const auto prefix = Prefix::parse(text);
  if (!prefix) return "is no CIDR";
  const IpAddress& address = prefix->address();
  if (prefix->length() == 0) return "is everything: nothing would be left for the external network";
  if (prefix->has_host_bits()) return formatted("has host bits: the prefix is {}", prefix->subnet().text());
  if (address.is_v4_mapped()) return "is IPv4 written as IPv6";
  if (address.is_loopback() || address.is_multicast() || (address.is_v6() && address.is_link_local()))
    return "is no range that is routed";
  if (std::ranges::find(before, *prefix) != before.end()) return "is there twice";
  return {};
}

CniResult<std::vector<Prefix>> read_cluster(const Section& external) {
  PDL_CNI_TRY_ASSIGN(const auto texts, external.texts("clusterCIDRs"));
  if (!texts) return external.fault("clusterCIDRs", "is missing: what the first network is to keep");
  if (texts->empty()) return external.fault("clusterCIDRs", "is empty: nothing would be left for the first network");
  std::vector<Prefix> cluster;
  for (std::size_t i = 0; i < texts->size(); ++i) {
    const std::string& text = (*texts)[i];
    if (const std::string fault = fault_of(text, cluster); !fault.empty()) {
      return cni_fail(cni_code::bad_config, "key '{}[{}]': \"{}\" {}", external.path_of("clusterCIDRs"), i, text,
                      fault);
    }
    cluster.push_back(*Prefix::parse(text));
  }
  return cluster;
}

CniResult<std::string> read_if_name(const Section& external, const std::string& first) {
  PDL_CNI_TRY_ASSIGN(const auto name, external.text("ifName"));
  if (!name) return std::string();
  if (!is_interface_name(*name)) return external.fault("ifName", "cannot be the name of an interface");
  if (*name == first) return external.fault("ifName", "is CNI_IFNAME, the interface of the first network");
  return *name;
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

CniResult<std::optional<ExternalOptions>> parse_external(const Invocation& invocation) {
  PDL_CNI_TRY_ASSIGN(const auto external, invocation.config.root().section("external"));
  if (!external) return std::nullopt;
  PDL_CNI_TRY(external->only({"ifName", "clusterCIDRs", "requireDistinctSubnet", "failOpen"}));
  ExternalOptions options;
  PDL_CNI_TRY_ASSIGN(options.if_name, read_if_name(*external, invocation.environment.ifname));
  PDL_CNI_TRY_ASSIGN(options.cluster, read_cluster(*external));
  PDL_CNI_TRY_ASSIGN(const auto distinct, external->flag("requireDistinctSubnet"));
  options.require_distinct_subnet = distinct.value_or(false);
  PDL_CNI_TRY_ASSIGN(const auto fail_open, external->flag("failOpen"));
  options.fail_open = fail_open.value_or(false);
  PDL_CNI_TRY(check_ipam_store(invocation));
  return options;
}

CniResult<> check_ipam_store(const Invocation& invocation) {
  const Section root = invocation.config.root();
  const auto external = root.section("external");
  if (!external || !*external || !(*external)->has("ifName")) return {};
  const auto type = ipam_type(invocation.config);
  if (!type || *type != "host-local") return {};
  PDL_CNI_TRY_ASSIGN(const auto ipam, root.section("ipam"));
  PDL_CNI_TRY_ASSIGN(const auto folder, ipam->text("dataDir"));
  if (!folder || folder->empty())
    return ipam->fault("dataDir",
                       "is missing: host-local would keep this address with that of the first network, and give both "
                       "back at once");
  if (without_slashes(*folder) == host_local_store)
    return ipam->fault("dataDir",
                       "is where the first network's addresses are: host-local would give both back at once");
  return {};
}

bool overlap(const Prefix& one, const Prefix& other) {
  if (one.family() != other.family()) return false;
  return one.length() < other.length() ? one.contains(other.address()) : other.contains(one.address());
}

}  // namespace poduplink
