// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/scraper.h"

#include <sstream>

namespace poduplink::harness {

Samples samples_of(const std::string& text) {
  Samples samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t space = line.rfind(' ');
    REQUIRE(space != std::string::npos);
    const bool fresh = samples.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second;
    INFO(line);
    REQUIRE(fresh);  // twice the same series makes a scrape fail
  }
  return samples;
}

Samples scrape(const Lab& lab, const Door& door) {
  std::this_thread::sleep_for(std::chrono::milliseconds(110));  // one text serves a tenth of a second
  const HttpReply reply = value_of(http_get(lab.node(), "/metrics", door));
  INFO(reply.head << reply.body);
  REQUIRE(reply.status == 200);
  return samples_of(reply.body);
}

}  // namespace poduplink::harness
