// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "loader/base/file.h"
#include "maps/paths.h"
#include "maps/record.h"
#include "tests/harness/temporary_folder.h"

using namespace poduplink;
using tests::TemporaryFolder;

namespace {

Record sample() {
  Record record;
  record.id = {"net-a", "0123456789abcdef", "eth0"};
  record.state = RecordState::ready;
  record.mode = PDL_MODE_NETFILTER;
  record.netns = "/run/netns/p1";
  record.host_veth = host_veth_name(record.id);
  record.host_veth_index = 7;
  record.pod_mac = *MacAddress::parse("02:00:00:00:00:05");
  record.mtu = 1400;
  record.addresses.push_back({.address = *Prefix::parse("10.2.0.5/16"),
                              .gateway = *IpAddress::parse("10.2.0.1"),
                              .uplink_name = "eth1",
                              .uplink_mac = *MacAddress::parse("02:00:00:00:00:01"),
                              .uplink_index = 3,
                              .on_link = false});
  record.addresses.push_back({.address = *Prefix::parse("fd00:2::5/64"), .announced = true});
  record.labels["K8S_POD_NAME"] = "web-0";
  return record;
}

// With everything that an external network has.
Record external_sample() {
  Record record = sample();
  RecordExternal& external = record.external.emplace();
  external.if_name = "ext0";
  external.netns_cookie = 4294967301;
  external.first_name = "eth0";
  external.first_index = 2;
  external.first_addresses = {*IpAddress::parse("10.244.1.5"), *IpAddress::parse("fd00:244::5")};
  Route route;
  route.destination = *Prefix::parse("0.0.0.0/0");
  route.next_hops = {{2, *IpAddress::parse("10.244.1.1")}};
  route.metric = 100;
  route.source = *IpAddress::parse("10.244.1.5");
  route.mtu = 1400;
  route.tos = 16;
  route.metrics = {{11, 20}, {5, 7}};
  external.former.push_back(route);
  route.destination = *Prefix::parse("fd00:244::/32");
  route.next_hops = {{2, std::nullopt}};
  route.on_link = true;
  external.made.push_back(route);
  route.next_hops.clear();
  route.type = 8;
  external.made.push_back(route);
  external.rules.push_back({*Prefix::parse("10.244.1.5/32"), 1000, 1500});
  external.failed_open = "uplink eth2 is down";
  return record;
}

}  // namespace

TEST_CASE("a record survives the way through its file") {
  const TemporaryFolder folder;
  const Record record = sample();
  REQUIRE(store_record(folder.path(), record));
  const auto loaded = load_record(folder.path(), record.id);
  REQUIRE(loaded);
  CHECK(*loaded == record);
  CHECK(load_records(folder.path())->size() == 1);
  REQUIRE(remove_record(folder.path(), record.id));
  REQUIRE(remove_record(folder.path(), record.id));
  CHECK(*load_record(folder.path(), record.id) == std::nullopt);
}

TEST_CASE("a record of an external network keeps every field of routes and rules") {
  const TemporaryFolder folder;
  const Record record = external_sample();
  REQUIRE(store_record(folder.path(), record));
  CHECK(*load_record(folder.path(), record.id) == record);
  std::string text = write_record_text(record);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return parse_record_text(changed.replace(at, from.size(), to)).has_value();
  };
  CHECK(with("fd00:244::/32", "fd00:244::/33"));
  CHECK_FALSE(with("fd00:244::/32", "fd00:244::1/32"));
  CHECK_FALSE(with(R"("tos": 16)", R"("tos": 256)"));
  CHECK_FALSE(with(R"("firstIndex": 2)", R"("firstIndex": -2)"));
  CHECK_FALSE(with(R"("netnsCookie")", R"("netns")"));
}

TEST_CASE("absent folders hold no records") {
  const TemporaryFolder folder;
  CHECK(load_records(folder.file("none"))->empty());
  CHECK(*load_record(folder.file("none"), sample().id) == std::nullopt);
}

TEST_CASE("Q5: empty, truncated and foreign record files count as absent and spoil no others") {
  const TemporaryFolder folder;
  const Record record = sample();
  REQUIRE(store_record(folder.path(), record));
  const std::string text = write_record_text(record);
  const std::string path = record_path(folder.path(), attachment_hash(record.id));
  Record other = sample();
  other.id.if_name = "net1";
  REQUIRE(store_record(folder.path(), other));
  for (const std::string& damaged :
       {std::string(), text.substr(0, text.size() / 2), std::string("[]"), std::string("{}"), std::string("null"),
        std::string("{\"format\": 2}"), std::string("\xff\xfe")}) {
    REQUIRE(write_file_atomically(path, damaged));
    CHECK(*load_record(folder.path(), record.id) == std::nullopt);
    CHECK(load_records(folder.path())->size() == 1);
  }
}

TEST_CASE("numbers of a record are whole ones of their range, and an uplink has a name") {
  const std::string text = write_record_text(sample());
  REQUIRE(parse_record_text(text));
  struct Change {
    std::string from;
    std::string key;
  };
  for (const auto& [from, key] : {Change{"\"hostVethIndex\": 7", "hostVethIndex"}, Change{"\"mtu\": 1400", "mtu"},
                                  Change{"\"uplinkIndex\": 3", "uplinkIndex"}, Change{"\"format\": 1", "format"}}) {
    for (const char* value :
         {"1.0", "1e300", "-1", "4294967297", "18446744073709551615", "true", "\"1\"", "null", "[1]"}) {
      std::string changed = text;
      REQUIRE(changed.find(from) != std::string::npos);
      changed.replace(changed.find(from), from.size(), "\"" + key + "\": " + value);
      INFO(key << " " << value);
      const auto record = parse_record_text(changed);
      REQUIRE_FALSE(record);
      CHECK(record.error().message.find(key) != std::string::npos);
    }
  }
  std::string unnamed = text;
  unnamed.replace(unnamed.find("\"eth1\""), 6, "\"\"");
  CHECK_FALSE(parse_record_text(unnamed));
}

TEST_CASE("a record of another attachment with the same hash is never taken for one's own") {
  const TemporaryFolder folder;
  Record record = sample();
  const std::string path = record_path(folder.path(), attachment_hash(record.id));
  REQUIRE(make_directories(records_dir(folder.path())));
  const AttachmentId id = record.id;
  record.id.container_id = "other";
  REQUIRE(write_file_atomically(path, write_record_text(record)));
  CHECK_FALSE(load_record(folder.path(), id));
}

TEST_CASE("labels with octets that are no UTF-8 can be written") {
  Record record = sample();
  record.labels["K8S_POD_NAME"] = "\xff\x01\"";
  CHECK(parse_record_text(write_record_text(record)));
}

TEST_CASE("J6 C23: the owner hash keeps the three names apart and veth names fit an interface") {
  const AttachmentId one{"net", "c1", "eth0"};
  CHECK(attachment_hash(one) == attachment_hash({"net", "c1", "eth0"}));
  CHECK(attachment_hash(one) != attachment_hash({"netc", "1", "eth0"}));
  CHECK(attachment_hash(one) != attachment_hash({"net", "c1", "eth1"}));
  CHECK(attachment_hash(one) != attachment_hash({"net2", "c1", "eth0"}));
  CHECK(host_veth_name(one).size() == 15);
  CHECK(host_veth_name(one).starts_with("pdl"));
  const std::string long_prefix(200, 'a');
  CHECK(host_veth_name({"net", long_prefix + "1", "eth0"}) != host_veth_name({"net", long_prefix + "2", "eth0"}));
}
