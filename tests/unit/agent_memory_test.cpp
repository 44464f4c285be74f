// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "loader/memory.h"
#include "tests/harness/temporary_folder.h"
#include "tests/unit/agent_world.h"

using namespace poduplink;
using namespace poduplink::test;

namespace {

AgentMemory full_memory() {
  AgentMemory memory;
  memory.uplinks["eth1"] = {"wan1", mac(3), 3, {{"eth1", mac(3)}, {"eth1", mac(2)}}};
  memory.uplinks["discovered 02:00:00:00:00:04"] = {"eth2", mac(4), 4};
  memory.rp_filter[3] = {"wan1", 1};
  memory.clsact = {3, 7};
  memory.neighbours.insert({3, ip("10.2.0.1"), mac(9)});
  memory.neighbours.insert({3, ip("fe80::1"), mac(9)});
  return memory;
}

}  // namespace

TEST_CASE("the agent's memory is read back as it was written") {
  CHECK(parse_memory_text(write_memory_text(full_memory())).value() == full_memory());
  CHECK(parse_memory_text(write_memory_text({})).value() == AgentMemory{});
}

TEST_CASE("a memory that cannot be read is an empty one, and an absent one too") {
  const tests::TemporaryFolder folder;
  const std::string run_dir = folder.file("run");
  REQUIRE(make_directories(run_dir));
  CHECK(load_memory(run_dir) == AgentMemory{});
  REQUIRE(store_memory(run_dir, full_memory()));
  CHECK(load_memory(run_dir) == full_memory());
  for (const char* text : {"", "{", "[]", R"({"uplinks": {"a": {"name": "a", "mac": "zz", "ifindex": 1}}})"}) {
    CAPTURE(text);
    REQUIRE(write_file_atomically(agent_memory_path(run_dir), text));
    CHECK(load_memory(run_dir) == AgentMemory{});
  }
}
