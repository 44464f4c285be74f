// SPDX-License-Identifier: Apache-2.0
// Which addresses the runtime asks for, of the three places where it can.
#include <algorithm>

#include "cni/ipam/ipam_config.h"
#include "loader/base/log.h"

namespace poduplink::ipam {
namespace {

using Texts = std::vector<std::string>;

Texts split_at_commas(std::string_view text) {
  Texts parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    if (const auto part = text.substr(0, comma); !part.empty()) parts.emplace_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

// The addresses of these texts, each named once, at most one a family. Errors: what is wrong, with the text.
Result<std::vector<IpAddress>> parse_all(const Texts& texts) {
  std::vector<IpAddress> addresses;
  for (const std::string& text : texts) {
    const auto parsed = Prefix::parse_or_host(text);
    if (!parsed) return fail("\"{}\" is no IP address", text);
    const IpAddress& address = parsed->address();
    const auto same = std::ranges::find(addresses, address.family(), &IpAddress::family);
    if (same == addresses.end()) {
      addresses.push_back(address);
    } else if (*same != address) {
      return fail("{} and {} are of one family, and a pod gets one address of each", same->text(), address.text());
    }
  }
  return addresses;
}

// args.cni.ips, or nothing where any of it has another shape than the conventions say.
Texts texts_of_args(const NetworkConfig& config) {
  const auto args = config.root().section("args");
  if (!args || !*args) return {};
  const auto cni = (**args).section("cni");
  if (!cni || !*cni) return {};
  const auto ips = (**cni).texts("ips");
  return ips ? ips->value_or(Texts()) : Texts();
}

}  // namespace

CniResult<std::vector<IpAddress>> requested_addresses(const NetworkConfig& config, const std::string& cni_args) {
  PDL_CNI_TRY_ASSIGN(const auto runtime, runtime_config(config));
  if (runtime) {
    PDL_CNI_TRY_ASSIGN(const auto ips, runtime->texts("ips"));
    if (ips && !ips->empty()) {
      auto addresses = parse_all(*ips);
      if (!addresses) return cni_fail(cni_code::bad_config, "key 'runtimeConfig.ips': {}", addresses.error().message);
      return std::move(*addresses);
    }
  }
  if (const Texts ips = texts_of_args(config); !ips.empty()) {
    auto addresses = parse_all(ips);
    if (addresses) return std::move(*addresses);
    log_warning("key 'args.cni.ips' is ignored: {}", addresses.error().message);
  }
  auto addresses = parse_all(split_at_commas(CniArgs(cni_args).value("IP").value_or("")));
  if (!addresses) return cni_fail(cni_code::bad_environment, "IP of CNI_ARGS: {}", addresses.error().message);
  return std::move(*addresses);
}

}  // namespace poduplink::ipam
