// SPDX-License-Identifier: Apache-2.0
// poduplinkctl: the operator's command.
#include <cstdio>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "loader/base/file.h"
#include "loader/config.h"
#include "loader/version.h"

namespace {

using namespace poduplink;

// Exit codes.
constexpr int all_is_well = 0;
constexpr int something_is_wrong = 1;
constexpr int wrong_usage = 2;

// What poduplinkd would say of this file, every mistake on a line of its own.
int check_config(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    std::fprintf(stderr, "%s\n", text.error().message.c_str());
    return something_is_wrong;
  }
  const CheckedConfig checked = check_config_text(*text);
  for (const std::string& problem : checked.problems) std::fprintf(stderr, "%s: %s\n", path.c_str(), problem.c_str());
  if (!checked.problems.empty()) return something_is_wrong;
  std::printf("%s: no mistakes\n", path.c_str());
  return all_is_well;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("poduplinkctl: looks at poduplink on this node");
  app.set_version_flag("--version", "poduplinkctl " + build_version());
  app.require_subcommand(1);
  std::string config_path;
  CLI::App* check = app.add_subcommand("check-config", "check an agent configuration without an agent");
  check->add_option("FILE", config_path, "configuration file")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? all_is_well : wrong_usage;
  }
  return check_config(config_path);
}
