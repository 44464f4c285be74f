// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "maps/agent_state.h"
#include "maps/paths.h"
#include "tests/harness/temporary_folder.h"

using namespace poduplink;
using tests::TemporaryFolder;

TEST_CASE("agent.json has the keys that the plugin and poduplinkctl read") {
  AgentState state;
  state.reasons = {"eth1: not found"};
  state.pid = 42;
  state.version = "1.2.3";
  state.uplinks.push_back({"eth1", "wan1", "02:00:00:00:00:03", 3, "home", "up", "configured", ""});
  const nlohmann::json document = nlohmann::json::parse(write_agent_state_text(state));
  CHECK(document.at("ready") == false);
  CHECK(document.at("reasons").at(0) == "eth1: not found");
  CHECK(document.at("pid") == 42);
  CHECK(document.at("version") == "1.2.3");
  const nlohmann::json& line = document.at("uplinks").at(0);
  CHECK(line.at("configured") == "eth1");
  CHECK(line.at("name") == "wan1");
  CHECK(line.at("mac") == "02:00:00:00:00:03");
  CHECK(line.at("ifindex") == 3);
  CHECK(line.at("role") == "home");
  CHECK(line.at("state") == "up");
  CHECK(line.at("how") == "configured");
  CHECK(line.at("reason").get<std::string>().empty());
}

TEST_CASE("agent.json is read back as it was written, and an absent one is no fault") {
  const TemporaryFolder folder;
  AgentState state;
  state.reasons = {"eth0 cannot bear the programs: Operation not supported", "map nodes4 is full"};
  state.pid = 42;
  state.version = "1.2.3";
  state.uplinks.push_back({"eth1", "wan1", "02:00:00:00:00:03", 3, "home", "up", "configured", "r"});
  CHECK_FALSE(load_agent_state(folder.path()).value());
  REQUIRE(store_agent_state(folder.path(), state));
  CHECK(load_agent_state(folder.path()).value() == state);
}

TEST_CASE("agent.json of another build is read, one that is damaged is an error with its path") {
  const TemporaryFolder folder;
  const std::string path = agent_state_path(folder.path());
  REQUIRE(write_file_atomically(path, R"({"ready":true,"reasons":[],"new":{},"uplinks":[{"name":"eth1","new":1}]})"));
  const auto other = load_agent_state(folder.path());
  REQUIRE(other);
  CHECK((*other)->ready);
  CHECK((*other)->uplinks.at(0).name == "eth1");
  for (const char* text : {"", "{", "[]", "7", R"({"ready":1,"reasons":[]})", R"({"ready":true,"reasons":"none"})",
                           R"({"ready":true})", R"({"ready":true,"reasons":[],"uplinks":[7]})"}) {
    CAPTURE(text);
    REQUIRE(write_file_atomically(path, text));
    const auto damaged = load_agent_state(folder.path());
    REQUIRE_FALSE(damaged);
    CHECK(damaged.error().message.find(path) != std::string::npos);
  }
}
