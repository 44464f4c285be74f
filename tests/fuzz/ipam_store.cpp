// SPDX-License-Identifier: Apache-2.0
// A file in the folder of poduplink-ipam. Input: its name, a newline, what is in it.
#include "cni/ipam/index.h"
#include "cni/ipam/store.h"
#include "tests/fuzz/check.h"

using namespace poduplink;
using namespace poduplink::fuzz;
using namespace poduplink::ipam;

void poduplink::fuzz::test(const std::string& text) {
  const TwoParts input = two_parts(text);
  // Else what is taken for a reservation could never be released: another file would be looked for.
  if (const auto reservation = parse_reservation_name(input.first))
    require(reservation_name(*reservation) == input.first, "one name for one reservation", input.first);
  if (const auto index = parse_index(input.rest))
    require(index_text(*index).size() == input.rest.size(), "one size for one index", input.first);
  const auto owner = parse_owner_text(input.rest);
  if (!owner) return;
  const std::string written = owner_text(*owner);
  const auto again = parse_owner_text(written);
  require(again && *again == *owner, "written and read it is the same", written);
  const Reservation made{*IpAddress::parse("fd00:2::5"), attachment_hash(*owner)};
  require(parse_reservation_name(reservation_name(made)) == made, "named and read it is the same",
          reservation_name(made));
}
