// SPDX-License-Identifier: Apache-2.0
#include "cni/delegate.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cni/spec/output.h"
#include "loader/base/log.h"

namespace poduplink {
namespace {

constexpr std::chrono::milliseconds undo_timeout(10000);

// The first octets of an answer, for an error.
std::string beginning_of(const std::string& text) {
  constexpr std::size_t shown = 200;
  if (text.empty()) return "nothing on standard output";
  return formatted("standard output begins: {}", text.substr(0, shown));
}

}  // namespace

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  for (const auto& [name, value] : changes) {
    const std::string start = name + "=";
    const auto found =
        std::ranges::find_if(variables, [&](const std::string& variable) { return variable.starts_with(start); });
    if (found != variables.end()) {
      *found = start + value;
    } else {
      variables.push_back(start + value);
    }
  }
  return variables;
}

CniResult<std::optional<Ipam>> Ipam::find_if_any(const Invocation& invocation, std::chrono::milliseconds timeout) {
  PDL_CNI_TRY_ASSIGN(const auto type, ipam_type(invocation.config));
  if (!type) return std::nullopt;
  PDL_CNI_TRY_ASSIGN(auto path, find_plugin(invocation.environment.path, *type));
  return Ipam(invocation, *type, std::move(path), timeout);
}

CniResult<Ipam> Ipam::find(const Invocation& invocation, std::chrono::milliseconds timeout) {
  PDL_CNI_TRY_ASSIGN(auto ipam, find_if_any(invocation, timeout));
  if (!ipam) return cni_fail(cni_code::bad_config, "key 'ipam' is missing: this plugin gives no addresses itself");
  return std::move(*ipam);
}

CniResult<std::string> Ipam::run(const Changes& changes, std::chrono::milliseconds timeout, bool stoppable) const {
  return run_with(invocation_.config.raw(), changes, timeout, stoppable);
}

CniResult<std::string> Ipam::run_with(const std::string& input, const Changes& changes,
                                      std::chrono::milliseconds timeout, bool stoppable,
                                      const std::function<void()>& meanwhile) const {
  const std::string who = one_line("ipam " + type_);
  // A signal ends the plugin with its process group, and what the verb has left to do is done.
  hold_signals();
  auto outcome = run_process({.path = path_,
                              .environment = environment_with(changes),
                              .input = input,
                              .timeout = timeout,
                              .stoppable = stoppable,
                              .meanwhile = meanwhile});
  if (!outcome) return CniFailure(cni_error(cni_code::ipam_not_run, std::move(outcome.error()).within(who)));
  began_ = true;
  switch (outcome->end) {
    case ProcessEnd::exited:
      break;
    case ProcessEnd::signalled:
      return CniFailure(CniError{cni_code::ipam_not_run, formatted("{}: ended by signal {}", who, outcome->value),
                                 beginning_of(outcome->output)});
    case ProcessEnd::timed_out:
      return cni_fail(cni_code::ipam_timeout, "{}: no answer within {} s, ended", who, timeout.count() / 1000);
    case ProcessEnd::interrupted:
      return cni_fail(cni_code::try_again, "{}: ended, because a signal asked poduplink to stop", who);
    case ProcessEnd::flooding:
      return cni_fail(cni_code::ipam_not_run, "{}: more than {} octets on standard output, ended", who,
                      outcome->output.size());
  }
  if (outcome->value == 0) return std::move(outcome->output);
  if (auto error = parse_error_document(outcome->output)) return CniFailure(std::move(*error).within(who));
  return CniFailure(CniError{cni_code::ipam_not_run,
                             formatted("{}: exit status {} without a CNI error", who, outcome->value),
                             beginning_of(outcome->output)});
}

CniResult<AddResult> Ipam::add(const std::function<void()>& meanwhile) const {
  const auto text = run_with(invocation_.config.raw(), {{"CNI_COMMAND", "ADD"}}, timeout_, true, meanwhile);
  // One that does not know the version has done nothing.
  began_ = began_ && (text || text.error().code != cni_code::incompatible_version);
  if (!text) return CniFailure(text.error());
  auto result = parse_add_result_text(*text, invocation_.config.cni_version());
  if (result) return result;
  CniError error = std::move(result.error()).within("ipam " + type_);
  if (error.code != cni_code::incompatible_version) error.code = cni_code::ipam_result;
  return CniFailure(std::move(error).with_details(beginning_of(*text)));
}

bool Ipam::undo_add() const {
  const bool began = began_;
  const auto done = run({{"CNI_COMMAND", "DEL"}}, std::min(timeout_, undo_timeout), false);
  if (!done) log_error("releasing the address: {}", done.error().msg);
  return done.has_value() || !began;
}

CniResult<> Ipam::call(Verb verb) const {
  PDL_CNI_TRY(run({{"CNI_COMMAND", std::string(verb_name(verb))}}, timeout_));
  return {};
}

CniResult<> Ipam::collect(const std::vector<AttachmentId>& also_valid) const {
  if (also_valid.empty()) return call(Verb::gc);
  PDL_CNI_TRY(
      run_with(with_valid_attachments(invocation_.config, also_valid), {{"CNI_COMMAND", "GC"}}, timeout_, true));
  return {};
}

CniResult<> Ipam::del(const AttachmentId& id) const {
  PDL_CNI_TRY(
      run({{"CNI_COMMAND", "DEL"}, {"CNI_CONTAINERID", id.container_id}, {"CNI_IFNAME", id.if_name}, {"CNI_NETNS", ""}},
          timeout_));
  return {};
}

}  // namespace poduplink
