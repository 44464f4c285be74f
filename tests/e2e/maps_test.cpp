// SPDX-License-Identifier: Apache-2.0
// The pinned maps as an operator and as outside tools meet them: by path and by bpftool.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "loader/base/file.h"
#include "maps/paths.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary_folder.h"
#include "tests/harness/traffic.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

constexpr std::array map_names{"pods4",   "pods6",    "nodes4",       "nodes6", "uplinks",   "exempt4",
                               "exempt6", "verdicts", "uplink_stats", "events", "fastflows", "generation"};

// What `bpftool map dump pinned` prints, without the blanks that it puts into arrays.
std::string dump(const std::string& path) {
  std::string text = value_of(run_ok({.argv = {"bpftool", "map", "dump", "pinned", path}}));
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
  return text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("bpftool reads every map by its pin as names and dotted octets") {
  auto lab = lab_with_agent({}, R"({"uplinks": [{"name": "eth1"}, {"name": "eth2"}, {"name": "eth3"}],
                                    "exempt": ["10.96.0.0/12", "fd00:96::/112"]})");
  const Pod pod = value_of(lab->add_pod("a", {.ipam = Ipam::host_local, .uplink = 2}));
  const std::string current = current_link(lab->pin_dir());

  const std::string pods4 = dump(map_pin(current, "pods4"));
  CHECK(has(pods4, "\"key\":{\"addr\":[10,2,"));
  CHECK(has(pods4, "\"gateway4\":[10,2,0,1]"));
  CHECK(has(pods4, "\"prefix_len\":16"));
  CHECK(has(pods4, "\"mode\":\"PDL_MODE_FAST\""));
  CHECK(has(dump(map_pin(current, "pods6")), "\"addr\":[253,0,0,2,"));
  CHECK(has(dump(map_pin(current, "nodes4")), "\"addr\":[10,1,0,10]"));
  const std::string uplinks = dump(map_pin(current, "uplinks"));
  CHECK(has(uplinks, "\"name\":\"eth2\""));
  CHECK(has(uplinks, "\"mac\":[2,0,0,0,2,2]"));
  CHECK(has(uplinks, "\"role\":\"PDL_ROLE_HOME\""));
  CHECK(has(uplinks, "\"state\":\"PDL_STATE_UP\""));
  CHECK(has(uplinks, "\"when_down\":\"PDL_WHEN_DOWN_DROP\""));
  CHECK(has(dump(map_pin(current, "exempt4")), "\"prefix_len\":12,\"addr\":[10,96,0,0]"));
  CHECK(has(dump(map_pin(current, "exempt6")), "\"item\":1"));
  CHECK(has(dump(map_pin(current, "verdicts")), "\"redirected\":"));
  CHECK(has(dump(map_pin(current, "uplink_stats")), "\"out_packets\":"));
  value_of(send_udp(*pod.space, {.to = {*IpAddress::parse(outside4), 9}}));
  CHECK(eventually([&] { return has(dump(map_pin(current, "fastflows")), "\"peer\":[198,51,100,10,0,0,"); }));
  CHECK(has(dump(map_pin(current, "generation")), "\"number\":"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("the pins are the maps, programs and links of the design, with BTF and short names") {
  auto lab = lab_with_agent();
  const std::string folder = version_dir(lab->pin_dir(), PDL_ABI_VERSION);
  CHECK(value_of(current_abi(lab->pin_dir())) == PDL_ABI_VERSION);
  for (const std::string name : map_names) {
    const Fd map = value_of(bpf::open_pinned(map_pin(folder, name)));
    const bpf::MapInfo info = value_of(bpf::map_info(map.get()));
    CHECK(info.name == name);
    CHECK(name.size() <= 15);
    // The kernel takes no BTF for a ring buffer.
    CHECK((info.btf_id != 0 || name == "events"));
  }
  CHECK(value_of(list_directory(folder + "/progs")) ==
        std::vector<std::string>{"pod_egress", "uplink_egress", "uplink_ingress"});
  auto entries = value_of(list_directory(folder));
  CHECK(entries.size() == map_names.size() + 2);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("typed tables refuse a pin that is missing or is something else, and name it") {
  auto lab = lab_with_agent();
  const std::string folder = version_dir(lab->pin_dir(), PDL_ABI_VERSION);
  value_of(open_tables(folder));

  const std::string nodes4 = map_pin(folder, "nodes4");
  REQUIRE(::rename(nodes4.c_str(), (folder + "/aside").c_str()) == 0);
  auto opened = open_tables(folder);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == ENOENT);
  CHECK(has(opened.error().message, nodes4));

  const Fd other = value_of(bpf::open_pinned(map_pin(folder, "pods4")));
  value_of(bpf::pin(other.get(), nodes4));
  opened = open_tables(folder);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == EINVAL);
  CHECK(has(opened.error().message, nodes4));

  REQUIRE(::rename((folder + "/aside").c_str(), nodes4.c_str()) == 0);
  value_of(open_tables(folder));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("a version that this build does not know is refused by its number") {
  const tests::TemporaryFolder folder;
  CHECK(current_abi(folder.path()).error().code == ENOENT);
  REQUIRE(::symlink("v99", current_link(folder.path()).c_str()) == 0);
  const auto opened = open_current_tables(folder.path());
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == EPROTO);
  CHECK(has(opened.error().message, "99"));
  REQUIRE(::unlink(current_link(folder.path()).c_str()) == 0);
  for (const char* target : {"elsewhere", "v", "v1x", "1"}) {
    REQUIRE(::symlink(target, current_link(folder.path()).c_str()) == 0);
    CHECK(current_abi(folder.path()).error().code == EPROTO);
    REQUIRE(::unlink(current_link(folder.path()).c_str()) == 0);
  }
}

TEST_CASE("entries come back as they were written, and a full table says so") {
  auto lab = lab_with_agent({}, R"({"uplinks": [{"name": "eth1"}], "mapSizes": {"pods": 4, "exempt": 2}})");
  const Tables tables = value_of(lab->tables());
  pdl_pod entry{};
  entry.owner = 7;
  set_pod_gateway(entry, *IpAddress::parse("fe80::1"));
  for (unsigned i = 1; i <= 4; ++i) value_of(tables.pods.put(lab->uplink(1).pod4(9, i), entry, bpf::Update::create));
  CHECK(tables.pods.put(lab->uplink(1).pod4(9, 1), entry, bpf::Update::create).error().code == EEXIST);
  const auto full = tables.pods.put(lab->uplink(1).pod4(9, 5), entry);
  REQUIRE_FALSE(full);
  CHECK(full.error().code == ENOSPC);
  CHECK(has(full.error().message, "pods4 is full (4 entries)"));
  CHECK(value_of(tables.pods.entries()).size() == 4);
  const auto found = value_of(tables.pods.find(lab->uplink(1).pod4(9, 2)));
  REQUIRE(found);
  CHECK(found->owner == 7);
  CHECK(pod_gateway(*found) == *IpAddress::parse("fe80::1"));
  for (unsigned i = 1; i <= 4; ++i) CHECK(value_of(tables.pods.erase(lab->uplink(1).pod4(9, i))));
  CHECK_FALSE(value_of(tables.pods.erase(lab->uplink(1).pod4(9, 1))));

  value_of(tables.exempt.put(*Prefix::parse("10.0.0.1/8"), 3));
  value_of(tables.exempt.put(*Prefix::parse("10.1.0.0/16"), 4));
  CHECK(tables.exempt.put(*Prefix::parse("10.2.0.0/16"), 5).error().code == ENOSPC);
  const auto prefixes = value_of(tables.exempt.entries());
  CHECK(std::ranges::find(prefixes, std::pair(*Prefix::parse("10.0.0.0/8"), 3U)) != prefixes.end());
  CHECK(value_of(tables.exempt.erase(*Prefix::parse("10.0.0.0/8"))));
  CHECK(value_of(tables.exempt.erase(*Prefix::parse("10.1.0.0/16"))));
  REQUIRE_CLOSED(*lab);
}
