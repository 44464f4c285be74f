// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/ctl.h"

namespace poduplink::harness {

Outcome ctl(const Lab& lab, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{program_folder() + "/poduplinkctl", "--pin-dir", lab.pin_dir(), "--run-dir",
                                lab.run_dir()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return value_of(run({.argv = argv, .netns_fd = lab.node().fd(), .timeout = std::chrono::seconds(20)}));
}

nlohmann::json ctl_json(const Lab& lab, std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"-o", "json"});
  const Outcome outcome = ctl(lab, arguments);
  INFO(outcome.text());
  nlohmann::json document = nlohmann::json::parse(outcome.out, nullptr, false);
  REQUIRE_FALSE(document.is_discarded());
  return document;
}

}  // namespace poduplink::harness
