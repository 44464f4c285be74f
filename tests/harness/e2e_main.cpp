// SPDX-License-Identifier: Apache-2.0
// main of every program made by pdl_e2e_test(): a world of its own, the tests, and a look at what they left.
#include <catch2/catch_session.hpp>
#include <iostream>

#include "loader/base/file.h"
#include "tests/harness/isolate.h"
#include "tests/harness/lab.h"

int main(int argc, char** argv) {
  using namespace poduplink;
  harness::isolate(false);
  const int status = Catch::Session().run(argc, argv);
  if (status != 0) return status;
  const auto processes = harness::other_processes();
  const auto namespaces = list_directory("/run/netns").value_or(std::vector<std::string>{});
  if (!processes || !processes->empty()) std::cerr << "processes left: " << processes.value_or("unknown") << "\n";
  for (const std::string& name : namespaces) std::cerr << "network namespace left: " << name << "\n";
  return harness::failures_at_end() == 0 && processes && processes->empty() && namespaces.empty() ? 0 : 1;
}
