// SPDX-License-Identifier: Apache-2.0
// What main() of a CNI plugin does, whatever the plugin is.
#pragma once

#include "cni/spec/config.h"
#include "cni/spec/environment.h"
#include "cni/spec/error.h"
#include "cni/spec/result.h"

namespace poduplink {

struct Invocation {
  Verb verb = Verb::version;
  Environment environment;
  NetworkConfig config;

  [[nodiscard]] AttachmentId attachment() const {
    return {config.name(), environment.container_id, environment.ifname};
  }
};

// One plugin: its name and a function a verb. They are called with variables and the configuration's common
// keys already checked, and never for a verb that the configuration's version lacks.
struct Plugin {
  const char* name = nullptr;
  CniResult<AddResult> (*add)(const Invocation&) = nullptr;
  CniResult<> (*del)(const Invocation&) = nullptr;  // also called where the result of add cannot be written
  CniResult<> (*check)(const Invocation&) = nullptr;
  CniResult<> (*gc)(const Invocation&) = nullptr;
  CniResult<> (*status)(const Invocation&) = nullptr;
};

// Runs the verb of the environment and returns the exit code. On success of ADD and VERSION standard output
// has one document, on success of other verbs nothing, on every error the error object. `--version` prints
// the program's own version; without CNI_COMMAND a text about the program goes to standard error.
int run_plugin(const Plugin& plugin, int argc, char** argv);

}  // namespace poduplink
