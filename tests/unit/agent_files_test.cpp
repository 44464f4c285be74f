// SPDX-License-Identifier: Apache-2.0
// What the agent reads again and again: its configuration, the records, what it warns of.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "loader/base/file.h"
#include "loader/config_file.h"
#include "loader/folder_stamp.h"
#include "loader/problems.h"
#include "loader/records.h"
#include "loader/warnings.h"
#include "maps/paths.h"
#include "tests/harness/temporary_folder.h"

using namespace poduplink;
using Catch::Matchers::ContainsSubstring;

namespace {

std::optional<AgentConfig> looked(ConfigFile& file, bool asked = false) {
  auto fresh = file.look(asked);
  if (!fresh) FAIL(fresh.error().message);
  return *fresh;
}

Record record_of(const std::string& container) {
  Record record;
  record.id = {.network = "net", .container_id = container, .if_name = "eth0"};
  record.state = RecordState::ready;
  record.host_veth = "pdl000000000001";
  return record;
}

}  // namespace

TEST_CASE("A configuration is read again where its content has changed, and only then") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.file("config.json");
  REQUIRE(write_file_atomically(path, R"({"exempt": ["10.96.0.0/12"]})"));
  ConfigFile file(path, true);
  REQUIRE(file.load().value().exempt.size() == 1);
  CHECK_FALSE(looked(file));
  CHECK(looked(file, true)->exempt.size() == 1);
  REQUIRE(write_file_atomically(path, R"({"exempt": ["10.96.0.0/12"]})"));  // the same in another file
  CHECK_FALSE(looked(file));
  REQUIRE(write_file_atomically(path, R"({"exempt": []})"));
  CHECK(looked(file)->exempt.empty());
  CHECK_FALSE(looked(file));
}

TEST_CASE("A bad configuration is told once, and again when it is asked for") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.file("config.json");
  REQUIRE(write_file_atomically(path, "{}"));
  ConfigFile file(path, true);
  REQUIRE(file.load());
  REQUIRE(write_file_atomically(path, R"({"exempt": ["10.96.0.0/40"]})"));
  const auto bad = file.look(false);
  REQUIRE_FALSE(bad);
  CHECK_THAT(bad.error().message, ContainsSubstring(path) && ContainsSubstring("10.96.0.0/40"));
  CHECK_FALSE(looked(file));
  CHECK_FALSE(file.look(true));
  REQUIRE(write_file_atomically(path, "{}"));
  CHECK(looked(file));
}

TEST_CASE("A configuration that vanishes is told of; one that was never there may come") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.file("config.json");
  const auto named = ConfigFile(path, true).load();
  REQUIRE_FALSE(named);
  CHECK(named.error().code == ENOENT);
  CHECK_THAT(named.error().message, ContainsSubstring(path));
  ConfigFile file(path, false);
  REQUIRE(file.load() == AgentConfig());
  CHECK_FALSE(looked(file));
  REQUIRE(write_file_atomically(path, R"({"steerNode": true})"));
  CHECK(looked(file)->steer_node);
  REQUIRE(remove_file(path));
  const auto gone = file.look(false);
  REQUIRE_FALSE(gone);
  CHECK_THAT(gone.error().message, ContainsSubstring("is gone"));
  CHECK_FALSE(looked(file));
}

TEST_CASE("Records are read again where they have changed: new, replaced, removed, and all of them gone") {
  const tests::TemporaryFolder folder;
  Records records(folder.path());
  CHECK_FALSE(records.refresh().value());
  REQUIRE(store_record(folder.path(), record_of("one")));
  REQUIRE(store_record(folder.path(), record_of("two")));
  CHECK(records.refresh().value());
  CHECK(records.files().size() == 2);
  CHECK_FALSE(records.refresh().value());

  Record changed = record_of("one");
  changed.mtu = 1400;
  REQUIRE(store_record(folder.path(), changed));
  CHECK(records.refresh().value());
  const auto mtus = [&] {
    unsigned sum = 0;
    for (const auto& [name, file] : records.files()) sum += file.record.mtu;
    return sum;
  };
  CHECK(mtus() == 1400);
  CHECK_FALSE(records.refresh().value());

  REQUIRE(remove_record(folder.path(), changed.id));
  CHECK(records.refresh().value());
  CHECK(records.files().size() == 1);
  REQUIRE(write_file_atomically(records_dir(folder.path()) + "/0000000000000001.json", "{"));
  CHECK(records.refresh().value());
  CHECK(records.files().size() == 2);
  CHECK_FALSE(records.files().at("0000000000000001.json").readable);
  CHECK_FALSE(records.refresh().value());
}

TEST_CASE("A cluster whose services are not exempt is warned of by the address of its API server") {
  AgentConfig config;
  config.exempt = {*Prefix::parse("10.96.0.0/12"), *Prefix::parse("fd00:96::/112")};
  CHECK(service_warnings(config, std::nullopt).empty());
  CHECK(service_warnings(config, "10.96.0.1").empty());
  CHECK(service_warnings(config, "fd00:96::1").empty());
  CHECK(service_warnings(config, "kubernetes.default").empty());
  const auto warned = service_warnings(config, "172.20.0.1");
  REQUIRE(warned.size() == 1);
  CHECK_THAT(warned.front(), ContainsSubstring("172.20.0.1"));
}

TEST_CASE("A folder's stamp tells of every entry that came, went or was renamed, and of nothing else") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.file("watched");
  FolderStamp stamp;
  CHECK(stamp.changed(path).error().code == ENOENT);
  REQUIRE(make_directories(path));
  const auto changed = [&] { return stamp.changed(path).value(); };
  // What is young may change again within the same tick.
  const auto settled = [&] {
    ::usleep(200'000);
    const bool once = changed();
    return once && !changed() && !changed();
  };
  CHECK((changed() && changed()));
  CHECK(settled());
  REQUIRE(write_file_atomically(path + "/a", "1"));
  CHECK((changed() && changed() && settled()));
  REQUIRE(write_file_atomically(path + "/a", "2"));  // a rename
  CHECK(settled());
  REQUIRE(remove_file(path + "/a"));
  CHECK(settled());
  // Another folder in its place, as of a file system that was mounted anew.
  REQUIRE(::rename(path.c_str(), (path + ".old").c_str()) == 0);
  CHECK(stamp.changed(path).error().code == ENOENT);
  REQUIRE(::rename((path + ".old").c_str(), path.c_str()) == 0);
  CHECK(settled());
}

TEST_CASE("Of many problems the first are told and the rest counted") {
  Problems problems{"1", "2", "3", "4", "5"};
  CHECK(few(problems) == problems);
  problems.insert(problems.end(), {"6", "7"});
  CHECK(few(problems) == Problems{"1", "2", "3", "4", "5", "and 2 more"});
  CHECK(few({}).empty());
}
