// SPDX-License-Identifier: Apache-2.0
// What a CNI plugin was asked, what it answered, and whether the answer keeps the specification. Read here a
// second time, by other code than the plugin's, so that a fault in that code does not pass its own test.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/result.h"
#include "tests/harness/process.h"

namespace poduplink::harness {

struct Invocation {
  std::string verb;  // CNI_COMMAND
  std::string container_id;
  std::string netns;  // CNI_NETNS
  std::string if_name = "eth0";
  std::string args;                   // CNI_ARGS
  std::string config;                 // standard input
  std::string program = "poduplink";  // in build/bin
};

struct ResultInterface {
  std::string name;
  std::string mac;
  std::string sandbox;
  std::optional<unsigned> mtu;
};

struct ResultAddress {
  std::string address;  // with prefix length
  std::string gateway;
  std::optional<long> interface;
};

struct AddResult {
  std::string cni_version;
  std::vector<ResultInterface> interfaces;
  std::vector<ResultAddress> ips;
  std::string json;  // as printed: the prevResult of later verbs
  std::string own;   // the same without what the plugins before ours said: the lists above are of this
};

struct PluginAnswer {
  Outcome process;
  // Of an error document.
  unsigned code = 0;
  std::string message;
  std::string details;
  // Of a successful ADD.
  std::optional<AddResult> result;
  // What the answer broke of the contract, a line each; empty: nothing.
  std::vector<std::string> faults;

  [[nodiscard]] bool ok() const { return process.ok() && faults.empty(); }
  [[nodiscard]] std::string text() const;
};

// Reads the output of one verb and checks it: exit code against output; one document or none, as the verb
// has it; version echoed; what a prevResult has first and unchanged, and behind it: container interface last, in
// `netns`, others without sandbox; every address with an index that points to it; no key that the version has not
// (`version` of ips, `mtu` of interfaces, those of routes); canonical texts; an error's code a number from 1. What the
// kernel shows is faults_against_kernel()'s.
PluginAnswer read_answer(const Invocation& invocation, Outcome outcome);

// The configuration with `prevResult` put in. Errors: either is no JSON object.
Result<std::string> with_previous_result(const std::string& config, const std::string& result);
// RFC 7386 merge patch. Errors: either is no JSON object.
Result<std::string> merged(const std::string& config, const std::string& patch);

}  // namespace poduplink::harness
