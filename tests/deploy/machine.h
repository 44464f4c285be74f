// SPDX-License-Identifier: Apache-2.0
// A machine with systemd in a lab's node: this system's own, booted on an overlay of this system. What runs in it uses
// the default paths; the lab sees the same pins and records, so that pods are added and traffic is looked at as
// everywhere.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/harness/lab.h"
#include "tests/harness/process.h"

namespace poduplink::harness {

class Machine {
 public:
  // The lab's agent must not run, and no pod be there. Errors: it did not boot, with its log.
  static Result<std::unique_ptr<Machine>> boot(Lab& lab);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine();  // ends all that runs in it

  // A path of the machine, as the test sees it.
  [[nodiscard]] std::string path(const std::string& inside) const { return folder_ + "/root" + inside; }
  // The folder with all files that differ from the system beneath.
  [[nodiscard]] std::string changes() const { return folder_ + "/upper"; }
  // A program in the machine.
  [[nodiscard]] Result<Outcome> run(std::vector<std::string> argv) const;
  // The same by its shell; an exit code other than 0 is an error. Returns its output.
  [[nodiscard]] Result<std::string> sh(const std::string& script) const;
  // What systemd knows of a unit: property("poduplinkd", "ActiveState").
  [[nodiscard]] std::string property(const std::string& unit, const std::string& name) const;
  [[nodiscard]] std::string log() const;

 private:
  Machine(Lab& lab, std::string folder) : lab_(lab), folder_(std::move(folder)) {}
  Result<> start();
  Result<> share_run_dir() const;

  Lab& lab_;
  std::string folder_;
  Background boot_;
  pid_t systemd_ = -1;
};

}  // namespace poduplink::harness
