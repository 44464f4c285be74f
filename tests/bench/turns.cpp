// SPDX-License-Identifier: Apache-2.0
#include "loader/base/format.h"
#include "tests/bench/sections.h"

namespace poduplink::bench {

std::vector<Series> in_turns(const Request& request, const std::string& what,
                             const std::vector<Candidate>& candidates) {
  return in_turns(candidates, request.rounds, [&](unsigned round) {
    request.progress(round == 0 ? formatted("{}: warming up", what)
                                : formatted("{}: round {} of {}", what, round, request.rounds));
  });
}

}  // namespace poduplink::bench
