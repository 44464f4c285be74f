// SPDX-License-Identifier: Apache-2.0
// The CNI_ variables of the environment. One that is set but empty counts as unset: runtimes set all of them
// for every verb.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cni/spec/error.h"

namespace poduplink {

enum class Verb { add, del, check, gc, status, version };

std::string_view verb_name(Verb verb);  // "ADD"

struct Environment {
  std::string command;
  std::string container_id;
  std::string netns;
  std::string ifname;
  std::string path;
  std::string args;
  bool netns_override = false;  // CNI_NETNS_OVERRIDE is "1" or "true" in any case
};

using GetVariable = const char* (*)(const char* name);

// `get` stands for getenv in tests.
Environment read_environment(GetVariable get = nullptr);

// Errors: bad_environment where CNI_COMMAND is no verb of the specification.
CniResult<Verb> parse_verb(std::string_view command);

// Whether the variables that the verb needs are there and well formed. Errors: bad_environment; all missing
// names are in one message.
CniResult<> check_environment(const Environment& environment, Verb verb);

// The alphabet of container IDs and network names: begins alphanumeric, goes on with [A-Za-z0-9_.-].
bool is_valid_identifier(std::string_view text);

// CNI_ARGS, "K=V;K=V". Never an error: an item without '=' is left out, a value may contain '='.
class CniArgs {
 public:
  explicit CniArgs(std::string_view text);
  // The last value of that key; keys are case-sensitive.
  [[nodiscard]] std::optional<std::string> value(std::string_view key) const;

 private:
  std::vector<std::pair<std::string, std::string>> items_;
};

// The absolute folders of CNI_PATH in their order. Empty and relative ones are left out: they would depend on
// the folder that the runtime happens to run in.
std::vector<std::string> plugin_folders(std::string_view cni_path);

// The first regular file of that name in CNI_PATH. Errors: ipam_not_run, naming both.
CniResult<std::string> find_plugin(std::string_view cni_path, const std::string& type);

}  // namespace poduplink
