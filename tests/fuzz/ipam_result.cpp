// SPDX-License-Identifier: Apache-2.0
// What an IPAM plugin prints: its result, from which addresses, uplinks and gateways are taken, or its error.
#include "cni/gateway.h"
#include "cni/uplink.h"
#include "tests/fuzz/check.h"

using namespace poduplink;
using namespace poduplink::fuzz;

namespace {

// A node with one uplink that the agent discovered, so that gateways are inferred too.
HostView host() {
  HostView view;
  Link link;
  link.index = 2;
  link.name = "eth1";
  link.mac = *MacAddress::parse("02:00:00:00:01:02");
  view.links = {link};
  view.addresses = {{.link = 2, .prefix = *Prefix::parse("10.1.0.10/16")}};
  pdl_uplink entry{};
  entry.role = PDL_ROLE_HOME;
  entry.flags = PDL_UPLINK_DISCOVERED | PDL_UPLINK_PRIMARY;
  view.uplinks[2] = entry;
  return view;
}

void check_address(const WantedAddress& wanted, const HostView& view) {
  const IpAddress& address = wanted.address.address();
  require(!address.is_unspecified() && !address.is_multicast() && !address.is_loopback() && !address.is_link_local() &&
              !address.is_v4_mapped() && wanted.address.length() > 0,
          "an address that a pod can have", wanted.address.text());
  if (wanted.uplink) {
    require(!wanted.uplink->name.empty() || wanted.uplink->mac, "an uplink has a name or a MAC");
    if (const auto found = find_uplink(*wanted.uplink, view, "pdl0"); !found)
      require(!found.error().message.empty(), "a reason");
  }
  for (const bool on_link : {false, true}) {
    const auto gateway = choose_gateway(wanted, {view.links.front(), view.uplinks.at(2)}, view, on_link);
    if (!gateway) {
      require_refusal(gateway.error(), {104});
      require(gateway.error().msg.find(address.text()) != std::string::npos, "the message has the address",
              gateway.error().msg);
      continue;
    }
    require(gateway->address != address && !gateway->address.is_unspecified() && !gateway->address.is_multicast(),
            "a gateway that can be one", gateway->address.text());
    require(address.is_v4() || gateway->address.is_v6(), "IPv6 goes by IPv6", gateway->address.text());
    require(on_link || wanted.address.contains(gateway->address) || gateway->address.is_link_local(), "on the subnet",
            gateway->address.text());
  }
}

void check_error_document(const std::string& text) {
  const auto error = parse_error_document(text);
  if (!error) return;
  require(error->code >= 1, "a code that libcni can read");
  const std::string document = print_error(*error, "1.1.0");
  const auto again = parse_error_document(document);
  require(again && again->code == error->code && again->msg == error->msg && again->details == error->details,
          "passed on it is the same", document);
}

}  // namespace

void poduplink::fuzz::test(const std::string& text) {
  static const HostView view = host();
  check_error_document(text);
  const auto result = parse_add_result_text(text, "1.0.0");
  if (!result) {
    require_refusal(result.error(), {1, 6});
    return;
  }
  const auto wanted = wanted_addresses(*result, std::nullopt);
  if (!wanted) {
    require_refusal(wanted.error(), {103, 104});
    return;
  }
  require(wanted->size() == result->ips.size(), "each address is wanted");
  for (const WantedAddress& one : *wanted) check_address(one, view);
  // The configured uplink stands in where the result names none, and only there.
  const auto configured = wanted_addresses(*result, UplinkName{"eth1", std::nullopt, "key 'uplink'"});
  require(configured.has_value(), "the key 'uplink' breaks nothing", text);
  for (std::size_t i = 0; i < wanted->size(); ++i) {
    const bool named = (*wanted)[i].uplink.has_value();
    require((*configured)[i].uplink->text() == (named ? (*wanted)[i].uplink->text() : "eth1"),
            "the result comes first");
  }
}
