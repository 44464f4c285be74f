// SPDX-License-Identifier: Apache-2.0
// What `scripts/lab` does: a lab that stays up between commands, under a name. All print to standard output,
// report errors on standard error, and return the exit code.
#pragma once

#include <string>
#include <vector>

#include "tests/harness/lab.h"

namespace poduplink::harness {

struct UpRequest {
  LabOptions options;
  std::string agent_config;  // a path; empty: the configuration that lists all uplinks
  bool no_agent = false;
};

int lab_up(const UpRequest& request);
int lab_add(const std::string& lab, const std::string& pod, const PodOptions& options);
int lab_check(const std::string& lab, const std::string& pod);
int lab_del(const std::string& lab, const std::string& pod);
// Becomes the command; returns only where that fails.
int lab_exec(const std::string& lab, const std::string& where, const std::vector<std::string>& command);
int lab_status(const std::string& lab);
int lab_down(const std::string& lab, bool force);

}  // namespace poduplink::harness
