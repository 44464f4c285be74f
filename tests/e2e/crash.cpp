// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/crash.h"

#include <algorithm>
#include <sstream>

#include "loader/base/file.h"

namespace poduplink::harness {
namespace {

harness::Invocation asked_of(const std::string& verb, const Pod& pod) {
  return {.verb = verb, .container_id = pod.container_id, .netns = pod.space->path(), .config = pod.config};
}

// A runtime that has no attachment any more.
PluginAnswer collect(StandIn& node, const Pod& pod) {
  const std::string config = value_of(merged(pod.config, R"({"cni.dev/valid-attachments":[]})"));
  return value_of(node->invoke({.verb = "GC", .if_name = "", .config = config}));
}

}  // namespace

PluginAnswer plain(StandIn& node, const std::string& verb, const Pod& pod) {
  return value_of(node->invoke(asked_of(verb, pod)));
}

PluginAnswer faulty(StandIn& node, const std::string& verb, const Pod& pod, std::size_t at, const std::string& how) {
  harness::Invocation asked = asked_of(verb, pod);
  asked.program = "tests/poduplink-faults";
  return value_of(node->invoke(asked, {formatted("PDL_FAULT_AT={}", at), "PDL_FAULT_HOW=" + how}));
}

std::vector<Step> steps_of(StandIn& node, const std::string& verb, const Pod& pod) {
  const std::string log = node->folder() + "/steps";
  harness::Invocation asked = asked_of(verb, pod);
  asked.program = "tests/poduplink-faults";
  const PluginAnswer answer = value_of(node->invoke(asked, {"PDL_FAULT_LOG=" + log}));
  INFO(answer.text());
  CHECK(answer.faults.empty());
  std::vector<Step> steps;
  std::istringstream lines(value_of(read_file(log)));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    steps.push_back({line.substr(0, space) == "change", line.substr(space + 1)});
  }
  value_of(remove_file(log));
  return steps;
}

void require_cleared(StandIn& node, const Pod& pod, Cleaner by, const std::string& if_name) {
  const PluginAnswer answer = by == Cleaner::del ? plain(node, "DEL", pod) : collect(node, pod);
  INFO((by == Cleaner::del ? "DEL: " : "GC: ") << answer.text());
  REQUIRE(answer.ok());
  REQUIRE_CLEAN(*node);
  REQUIRE(value_of(pod.space->run_ok({"ip", "-br", "link"})).find(if_name) == std::string::npos);
}

void require_new_add_works(StandIn& node, const Pod& pod) {
  const PluginAnswer again = plain(node, "ADD", pod);
  INFO("new ADD: " << again.text());
  REQUIRE(again.ok());
  require_cleared(node, pod, Cleaner::del);
}

void require_has(const std::vector<Step>& steps, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto is_it = [&](const Step& step) { return step.change && step.name.starts_with(name); };
    INFO(name);
    CHECK(std::ranges::any_of(steps, is_it));
  }
}

}  // namespace poduplink::harness
