// SPDX-License-Identifier: Apache-2.0
// poduplinkd: options, log, and the two things it can do.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include "loader/agent.h"
#include "loader/base/log.h"
#include "loader/base/version.h"
#include "loader/config.h"
#include "loader/datapath.h"
#include "loader/unload.h"
#include "maps/paths.h"

namespace {

using namespace poduplink;

struct CommandLine {
  AgentOptions agent{.config_path = default_config_path,
                     .config_named = false,
                     .pin_dir = default_pin_dir,
                     .run_dir = default_run_dir,
                     .force_clsact = false};
  bool unload = false;
  std::string log_level = "info";
};

void write_log_line(LogLevel level, std::string_view line) {
  static constexpr spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                         spdlog::level::err};
  spdlog::log(levels[static_cast<unsigned>(level)], "{}", fmt::string_view(line.data(), line.size()));
}

// The journal has its own time stamps and reads the level from a prefix.
class JournalLevel final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/, spdlog::memory_buf_t& target) override {
    const char* prefix = "<6>";
    if (message.level == spdlog::level::debug) prefix = "<7>";
    if (message.level == spdlog::level::warn) prefix = "<4>";
    if (message.level == spdlog::level::err) prefix = "<3>";
    target.append(prefix, prefix + 3);
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JournalLevel>();
  }
};

void start_log(const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>("poduplinkd", std::make_shared<spdlog::sinks::stderr_sink_st>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (std::getenv("JOURNAL_STREAM") != nullptr) {
    formatter->add_flag<JournalLevel>('J').set_pattern("%J%v");
  } else {
    formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  }
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  set_log_sink(&write_log_line);
  route_libbpf_messages();
}

// The exit code where the command line alone decides it: --help, --version and mistakes.
std::optional<int> parse_command_line(int argc, char** argv, CommandLine& line) {
  CLI::App app("poduplinkd: sends each pod's traffic out of the uplink that its address belongs to");
  app.set_version_flag("--version", "poduplinkd " + build_version());
  const CLI::Option* config =
      app.add_option("--config", line.agent.config_path, "configuration file")->capture_default_str();
  app.add_option("--pin-dir", line.agent.pin_dir, "folder on a bpffs for maps, programs and links")
      ->capture_default_str();
  app.add_option("--run-dir", line.agent.run_dir, "folder for locks, records and state")->capture_default_str();
  app.add_flag("--unload", line.unload, "detach and unpin everything, then exit; records of pods stay");
  app.add_flag("--force-clsact", line.agent.force_clsact,
               "attach to uplinks by clsact filters even where the kernel has tcx");
  app.add_option("--log-level", line.log_level, "least level that is logged")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  line.agent.config_named = config->count() > 0;
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  if (const auto code = parse_command_line(argc, argv, line)) return *code;
  start_log(line.log_level);
  const Result<> done = line.unload ? unload_datapath(line.agent.pin_dir, line.agent.run_dir) : run_agent(line.agent);
  if (done) return 0;
  log_error("{}", done.error().message);
  return 1;
}
