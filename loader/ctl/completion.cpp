// SPDX-License-Identifier: Apache-2.0
#include "loader/ctl/completion.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "loader/base/format.h"

namespace poduplink::ctl {
namespace {

// The words of "TEXT:{udp,tcp,icmp}"; none where an option takes anything.
std::string choices(std::string_view type) {
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  if (open == std::string_view::npos || close == std::string_view::npos) return {};
  std::vector<std::string> words = CLI::detail::split(std::string(type.substr(open + 1, close - open - 1)), ',');
  for (std::string& word : words)
    word.resize(std::min(word.size(), word.find("->")));  // "word->value" of a transformer
  return joined(words, " ");
}

// How bash finds what an option or a command's word may be; empty where nothing is known.
std::string source_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type == "FILE") return "_poduplinkctl_reply \"$(compgen -f -- \"$cur\")\"";
  if (type == "DIR") return "_poduplinkctl_reply \"$(compgen -d -- \"$cur\")\"";
  if (type == "ADDRESS") return "_poduplinkctl_words \"$(_poduplinkctl_pods)\"";
  const std::string words = choices(type);
  return words.empty() ? std::string() : formatted("_poduplinkctl_words \"{}\"", words);
}

std::set<std::string> spellings(const CLI::Option& option) {
  std::set<std::string> all;
  for (const std::string& name : option.get_snames()) all.insert("-" + name);
  for (const std::string& name : option.get_lnames()) all.insert("--" + name);
  return all;
}

// Cases of `case $command:$prev in`, one an option with a value that must be said.
std::string value_cases(const CLI::App& app, const std::string& command) {
  std::string cases;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() || option->get_expected_min() == 0) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : spellings(*option)) patterns.push_back(formatted("{}:{}", command, name));
    const std::string source = source_of(*option);
    cases += formatted("    {}) {}; return ;;\n", joined(patterns, " | "), source.empty() ? ":" : source);
  }
  return cases;
}

std::set<std::string> option_words(const CLI::App& app) {
  std::set<std::string> words;
  for (const CLI::Option* option : app.get_options()) words.merge(spellings(*option));
  return words;
}

// The first word of a command, where something is known of it.
std::string word_case(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string source = source_of(*option);
    return source.empty() ? std::string() : formatted("    {}) {} ;;\n", command.get_name(), source);
  }
  return {};
}

// What is typed is taken from the line: bash splits words at `=` and `:`, and IPv6 addresses have colons. It puts back
// only what stands behind the last of these.
constexpr std::string_view head =
    R"sh(# Completion of poduplinkctl for bash: `poduplinkctl completion bash` prints this.
_poduplinkctl_reply() {
  local IFS=$'\n' cut=${cur%"${cur##*[=:]}"}
  # shellcheck disable=SC2206 # one a line
  COMPREPLY=($1)
  COMPREPLY=("${COMPREPLY[@]#"$cut"}")
}
_poduplinkctl_words() { _poduplinkctl_reply "$(compgen -W "$1" -- "$cur")"; }
_poduplinkctl_pods() { "${COMP_WORDS[0]}" pods -o json 2>/dev/null | sed -n 's/^ *"address": "\([^"]*\)".*/\1/p'; }
_poduplinkctl() {
  local line=${COMP_LINE:0:COMP_POINT} command="" words=0 cur prev word
  local -a typed
  read -r -a typed <<<"$line"
  [[ $line == *[[:space:]] ]] && typed+=("")
  cur=${typed[-1]} prev=${typed[-2]}
  unset 'typed[-1]' 'typed[0]'
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*} cur=${cur#*=}
  fi
  for word in "${typed[@]}"; do
    if [[ -n $command ]]; then
      [[ $word == -* ]] || words=$((words + 1))
      continue
    fi
    case $word in
)sh";

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::vector<std::string> names;
  std::string values = value_cases(app, "*");
  std::string options;
  std::string words;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    values += value_cases(*command, command->get_name());
    std::set<std::string> all = option_words(app);
    all.merge(option_words(*command));
    options += formatted("      {}) _poduplinkctl_words \"{}\" ;;\n", command->get_name(), joined(all, " "));
    words += word_case(*command);
  }
  std::string script(head);
  script += formatted("      {}) command=$word ;;\n    esac\n  done\n", joined(names, " | "));
  script += "  case $command:$prev in\n" + values + "  esac\n";
  script += "  if [[ $cur == -* ]]; then\n    case $command in\n" + options;
  script +=
      formatted("      *) _poduplinkctl_words \"{}\" ;;\n    esac\n    return\n  fi\n", joined(option_words(app), " "));
  script += "  ((words == 0)) || return 0\n  case $command in\n";
  script += formatted("    \"\") _poduplinkctl_words \"{}\" ;;\n", joined(names, " "));
  script += words + "  esac\n}\ncomplete -F _poduplinkctl poduplinkctl\n";
  return script;
}

}  // namespace poduplink::ctl
