// SPDX-License-Identifier: Apache-2.0
// The part of a record that an external network has (docs/external-network.md): what ADD changes of the pod's first
// network, written before it is changed, so that whoever takes the attachment away can put it back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "loader/base/address.h"
#include "loader/base/result.h"
#include "loader/net/route.h"
#include "loader/net/rule.h"
#include "maps/json_text.h"

namespace poduplink {

struct RecordExternal {
  std::string if_name;                     // of the container's interface that was added
  std::uint64_t netns_cookie = 0;          // of the container's namespace: no other one is ever touched
  std::string first_name;                  // the interface of the first network
  int first_index = 0;                     // its index in the container
  std::vector<IpAddress> first_addresses;  // in their order; they are the pod's addresses for the runtime
  std::vector<Route> former;               // default routes by the first interface, whose place ours took
  std::vector<Route> made;                 // routes in the order in which they are made; the default ones last
  std::vector<Rule> rules;
  std::string failed_open;  // why there is no external interface ("failOpen"); empty: there is one

  friend bool operator==(const RecordExternal&, const RecordExternal&) = default;
};

nlohmann::json external_json(const RecordExternal& external);
// Errors: fields that are absent, of another type or impossible, by the key.
Result<RecordExternal> read_external(const JsonValue& json);

}  // namespace poduplink
