// SPDX-License-Identifier: Apache-2.0
// The network configuration, with all that poduplink reads of it. Input: CNI_ARGS, a newline, the configuration.
#include "cni/options.h"
#include "tests/fuzz/check.h"

using namespace poduplink;
using namespace poduplink::fuzz;

namespace {

Invocation invocation_of(NetworkConfig config, const std::string& args) {
  Environment environment;
  environment.args = args;
  return {Verb::add, std::move(environment), std::move(config)};
}

void check_options(const Options& options) {
  require(options.mtu == 0 || (options.mtu >= 68 && options.mtu <= 65535), "mtu");
  require(options.ipam_timeout >= std::chrono::seconds(1) && options.ipam_timeout <= std::chrono::hours(1),
          "ipamTimeout");
  require(options.pin_dir.starts_with('/') && options.run_dir.starts_with('/'), "absolute paths");
  require(!options.mac || (!options.mac->is_zero() && !options.mac->is_multicast()), "a MAC that a pod can have");
  require(!options.uplink || !options.uplink->name.empty() || options.uplink->mac, "an uplink by name or MAC");
  require(!options.dns || !options.dns->empty(), "no empty dns");
  if (!options.external) return;
  require(!options.external->cluster.empty(), "a cluster");
  for (const Prefix& cidr : options.external->cluster)
    require(cidr.length() > 0 && !cidr.has_host_bits() && Prefix::parse(cidr.text()), "a range", cidr.text());
}

bool same(const Options& one, const Options& other) {
  return one.mode == other.mode && one.require_uplink == other.require_uplink &&
         one.on_link_gateway == other.on_link_gateway && one.mtu == other.mtu &&
         one.ipam_timeout == other.ipam_timeout && one.pin_dir == other.pin_dir && one.run_dir == other.run_dir &&
         one.mac == other.mac && one.labels == other.labels && one.dns.has_value() == other.dns.has_value() &&
         one.uplink.has_value() == other.uplink.has_value() && one.uplink_timeout == other.uplink_timeout &&
         one.external.has_value() == other.external.has_value() &&
         (!one.external ||
          (one.external->if_name == other.external->if_name && one.external->cluster == other.external->cluster &&
           one.external->fail_open == other.external->fail_open)) &&
         (!one.uplink || one.uplink->text() == other.uplink->text());
}

void check_plugin_keys(const Invocation& invocation, const std::string& args) {
  const auto options = parse_options(invocation);
  if (!options) require_refusal(options.error(), {2, 4, 7});
  const auto again = parse_options(invocation_of(printed_again(invocation.config), args));
  require(options.has_value() == again.has_value(), "printed again it is as good", invocation.config.raw());
  if (options) {
    check_options(*options);
    require(same(*options, *again), "printed again it says the same", invocation.config.raw());
  }
  check_options(readable_options(invocation));  // for DEL, which works with any
}

void check_attachment_list(const NetworkConfig& config) {
  const auto valid = valid_attachments(config);
  if (!valid) {
    require_refusal(valid.error(), {7});
    return;
  }
  const AttachmentId more{config.name(), "one-more", "eth9"};
  const auto longer = NetworkConfig::parse(with_valid_attachments(config, {more}));
  require(longer.has_value(), "a list with one more is a configuration", config.raw());
  const auto valid_again = valid_attachments(*longer);
  require(valid_again && valid_again->has_value() == valid->has_value(), "the list is still there", config.raw());
  if (!*valid) return;
  auto expected = **valid;
  expected.push_back(more);
  require(**valid_again == expected, "the list has one more", config.raw());
}

void check_common_keys(const NetworkConfig& config) {
  if (const auto type = ipam_type(config); !type) {
    require_refusal(type.error(), {7});
  } else if (*type) {
    require(!(*type)->empty() && (*type)->find_first_of("/\\") == std::string::npos, "the name of a file", **type);
  }
  if (const auto runtime = runtime_config(config); !runtime) require_refusal(runtime.error(), {7});
  if (const auto dns = configured_dns(config); !dns) require_refusal(dns.error(), {7});
  if (const auto previous = previous_result(config); !previous) require_refusal(previous.error(), {7});
  check_attachment_list(config);
}

}  // namespace

void poduplink::fuzz::test(const std::string& text) {
  const TwoParts input = two_parts(text);
  auto config = NetworkConfig::parse(input.rest);
  const std::string version = cni_version_of(input.rest);
  if (!config) {
    require_refusal(config.error(), {1, 6, 7});
    return;
  }
  require(config->raw() == input.rest, "octet by octet");
  require(config->cni_version() == version, "one version", version);
  require(is_valid_identifier(config->name()), "the name is one", config->name());
  check_common_keys(*config);
  const Invocation invocation = invocation_of(std::move(*config), input.first);
  check_plugin_keys(invocation, input.first);
}
