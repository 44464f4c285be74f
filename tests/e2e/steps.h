// SPDX-License-Identifier: Apache-2.0
// Steps that the tests of the packet contract share: pods whose packets can be looked at, talks of every kind, the
// service that they call, and what the counters have gone up by.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "tests/harness/firewall.h"
#include "tests/harness/outside.h"
#include "tests/harness/require.h"

namespace poduplink::harness {

inline constexpr std::array families{Family::v4, Family::v6};

// A service address in an exempt range, and a server that every gateway can be. Ports: 80 calls 8080.
inline constexpr std::uint16_t service_port = 80;
inline constexpr std::uint16_t server_port = 8080;
IpAddress service_address(Family family);
IpAddress server_address(Family family);
// The lab's agent configuration with the service ranges exempt, and `patch` (RFC 7386) over it.
std::string services_config(const Lab& lab, const std::string& patch = "{}");
// The service leads to the server.
std::vector<Service> remote_service();
// An echo server at the server's addresses on each gateway.
std::map<unsigned, EchoServer> start_servers(const Lab& lab);

IpAddress address_of(const Pod& pod, Family family);
// The node's own on this uplink.
IpAddress address_of(const Uplink& uplink, Family family);
inline constexpr std::array kinds{RuleKind::nftables, RuleKind::iptables};
std::string name_of(RuleKind kind);
// The pod's packets bear real checksums, so that those of the far side can be looked at.
Pod add_pod(Lab& lab, const std::string& name, const PodOptions& options);
EchoServer echo_in(const Pod& pod, std::uint16_t port = echo_port);

// UDP and TCP to `to`, answered.
void call(const Namespace& from, const Endpoint& to);
// The same and an ICMP echo.
void talk(const Namespace& from, const Endpoint& to);
// Everything that the pod says to the outside leaves by its home, in order, and is answered.
void leaves_by_home(const Lab& lab, const Pod& pod, const Outside& outside);
// Nothing from this address came to the gateway, or to any.
void nothing_from(const IpAddress& source, const Outside& outside, unsigned uplink);
void stays_inside(const Pod& pod, const Outside& outside);

// Verdicts since it was made, which waits until what was said before has ended (the last packets of a connection
// come when its user has long got the answer).
class VerdictsSince {
 public:
  explicit VerdictsSince(const Lab& lab);
  [[nodiscard]] pdl_verdicts operator()() const;
  // All that are not zero, for messages.
  [[nodiscard]] std::string text() const;

 private:
  const Lab* lab_;
  pdl_verdicts before_{};
};

// The gateway hears no ARP and no neighbour discovery any more, and the node has forgotten its MAC; and hears again.
void silence_gateway(const Lab& lab, unsigned uplink);
void let_gateway_answer(const Lab& lab, unsigned uplink);

// The counters of one uplink of the lab.
pdl_uplink_stats uplink_stats(const Lab& lab, unsigned uplink);
int link_index(const Namespace& space, const std::string& name);

}  // namespace poduplink::harness
