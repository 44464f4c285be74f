// SPDX-License-Identifier: Apache-2.0
// The result of ADD, read in any supported version and printed in the one that the configuration asks for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cni/spec/error.h"
#include "cni/spec/json.h"
#include "loader/base/address.h"

namespace poduplink {

struct ResultInterface {
  std::string name;       // may be empty where a MAC stands for it
  std::string mac;        // as given: whoever uses it checks it
  std::string sandbox;    // empty: on the host
  std::uint32_t mtu = 0;  // 0: not given
  std::string socket_path;
  std::string pci_id;
};

struct ResultIp {
  Prefix address;  // with its host bits
  std::optional<IpAddress> gateway;
  std::optional<std::int64_t> interface;  // index as given; it may point nowhere, and -1 is seen for none
};

struct ResultRoute {
  Prefix dst;
  std::optional<IpAddress> gw;
  std::optional<std::uint32_t> mtu;
  std::optional<std::uint32_t> advmss;
  std::optional<std::uint32_t> priority;
  std::optional<std::uint32_t> table;
  std::optional<std::uint32_t> scope;
};

struct Dns {
  std::vector<std::string> nameservers;
  std::string domain;
  std::vector<std::string> search;
  std::vector<std::string> options;

  [[nodiscard]] bool empty() const {
    return nameservers.empty() && domain.empty() && search.empty() && options.empty();
  }
};

struct AddResult {
  std::vector<ResultInterface> interfaces;
  std::vector<ResultIp> ips;
  std::vector<ResultRoute> routes;
  Dns dns;
};

// Reads what another plugin printed. An empty text is an error; `null`, `{}` and a missing cniVersion, which
// stands for the configuration's, are not. Errors: undecodable; incompatible_version for an unknown one.
CniResult<AddResult> parse_add_result_text(std::string_view text, std::string_view config_version);
CniResult<AddResult> parse_add_result(const nlohmann::json& value, std::string_view config_version);

// Errors: bad_config.
CniResult<Dns> parse_dns(const Section& section);
// The list "routes" of a section. Errors: bad_config.
CniResult<std::vector<ResultRoute>> parse_routes(const Section& section);

// One line with its newline, holding exactly the fields that `cni_version` has.
std::string print_add_result(const AddResult& result, std::string_view cni_version);

}  // namespace poduplink
