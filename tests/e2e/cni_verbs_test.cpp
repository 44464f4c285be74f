// SPDX-License-Identifier: Apache-2.0
// ADD, CHECK and DEL of the plugin as runtimes call them.
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/e2e/stand_in.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("every version of the specification has its ADD, CHECK and DEL") {
  StandIn node;
  for (const std::string version : {"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}) {
    INFO(version);
    PodOptions options = stub_pod("", "", version);
    options.uplink = 2;
    const Pod pod = value_of(node->add_pod("one", options));
    if (!version.starts_with("0.3")) value_of(node->check_pod("one"));
    value_of(node->del_pod("one"));
    REQUIRE_CLEAN(*node);
  }
}
