// SPDX-License-Identifier: Apache-2.0
#include "cni/spec/entry.h"

#include <unistd.h>

#include <exception>
#include <string>
#include <string_view>

#include "cni/spec/output.h"
#include "cni/spec/versions.h"
#include "loader/base/file.h"
#include "loader/base/log.h"
#include "loader/base/version.h"

namespace poduplink {
namespace {

int print_about(const Plugin& plugin) {
  log_line(LogLevel::info, formatted("{} {}: CNI plugin, run by a container runtime\nCNI versions: {}", plugin.name,
                                     build_version(), supported_versions_text()));
  return 0;
}

int print_text(const std::string& text) {
  if (const auto written = write_document(text); !written) {
    log_error("standard output: {}", written.error().message);
    return 1;
  }
  return 0;
}

CniResult<> add(const Plugin& plugin, const Invocation& invocation) {
  PDL_CNI_TRY_ASSIGN(const AddResult result, plugin.add(invocation));
  const auto written = write_document(print_add_result(result, invocation.config.cni_version()));
  if (written) return {};
  // The runtime never learns of this attachment.
  if (const auto undone = plugin.del(invocation); !undone) log_error("undoing ADD: {}", undone.error().msg);
  return cni_fail(cni_code::io_failure, "writing the result: {}", written.error().message);
}

CniResult<> dispatch(const Plugin& plugin, const Invocation& invocation) {
  PDL_CNI_TRY(check_verb_version(invocation.verb, invocation.config.cni_version()));
  switch (invocation.verb) {
    case Verb::add:
      return add(plugin, invocation);
    case Verb::del:
      return plugin.del(invocation);
    case Verb::check:
      return plugin.check(invocation);
    case Verb::gc:
      return plugin.gc(invocation);
    case Verb::status:
      return plugin.status(invocation);
    case Verb::version:
      break;  // answered before there is a configuration
  }
  return cni_fail(cni_code::internal, "verb {} has no handler", verb_name(invocation.verb));
}

int run_verb(const Plugin& plugin, Environment environment, std::string& cni_version) {
  const auto verb = parse_verb(environment.command);
  if (verb && *verb == Verb::version) return print_text(print_versions(peek_cni_version(STDIN_FILENO)));
  auto checked = verb ? check_environment(environment, *verb) : CniResult<>(CniFailure(verb.error()));
  if (!checked) return report_error(checked.error(), peek_cni_version(STDIN_FILENO));

  auto raw = read_config(STDIN_FILENO);
  if (!raw) return report_error(raw.error(), cni_version);
  auto config = NetworkConfig::parse(*raw);
  if (!config) return report_error(config.error(), cni_version_of(*raw));
  cni_version = config->cni_version();
  prepare_crash_documents(cni_version);
  const Invocation invocation{*verb, std::move(environment), std::move(*config)};
  const auto done = dispatch(plugin, invocation);
  return done ? 0 : report_error(done.error(), cni_version);
}

}  // namespace

int run_plugin(const Plugin& plugin, int argc, char** argv) {
  prepare_standard_streams();
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    return print_text(formatted("{} {}\n", plugin.name, build_version()));
  }
  install_crash_handlers();
  std::string cni_version(newest_version);
  try {
    Environment environment = read_environment();
    if (environment.command.empty()) return print_about(plugin);
    return run_verb(plugin, std::move(environment), cni_version);
  } catch (const std::exception& error) {
    return report_error(CniError{cni_code::internal, formatted("internal fault: {}", error.what()), {}}, cni_version);
  }
}

}  // namespace poduplink
