// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/run_bench.h"

#include "loader/base/file.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary_folder.h"

namespace poduplink::bench {

Report run_bench(const std::vector<std::string>& arguments) {
  const tests::TemporaryFolder folder;
  harness::Command command{.argv = {PODUPLINK_BENCH}, .timeout = std::chrono::seconds(240)};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.argv.insert(command.argv.end(), {"--json", folder.file("report.json")});
  const harness::Outcome outcome = harness::value_of(harness::run(command));
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  return harness::value_of(from_json(harness::value_of(read_file(folder.file("report.json")))));
}

std::string text_of(const Subject& subject) { return subject.metric + ": " + label(subject); }

}  // namespace poduplink::bench
