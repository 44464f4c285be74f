// SPDX-License-Identifier: Apache-2.0
// The agent's metrics as a scraper gets them.
#pragma once

#include <map>
#include <string>

#include "tests/harness/http.h"
#include "tests/harness/require.h"

namespace poduplink::harness {

// Series of the text format: "name{labels}" to its value.
using Samples = std::map<std::string, double>;
Samples samples_of(const std::string& text);
// What is scraped now, and not the text that the agent keeps for a moment.
Samples scrape(const Lab& lab, const Door& door = Door::standard());

}  // namespace poduplink::harness
