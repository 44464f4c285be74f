// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "cni/ipam/store.h"
#include "cni/ipam/verbs.h"
#include "tests/unit/ipam_test_support.h"

using namespace poduplink;
using poduplink::tests::config_text;
using poduplink::tests::Folder;
using poduplink::tests::invocation;
using poduplink::tests::two_pools;

namespace {

ipam::UplinkIdentity stub_uplink(const std::string& uplink) { return {uplink, "02:00:00:00:00:0" + uplink.substr(3)}; }

CniResult<AddResult> add(const std::string& text, const std::string& container, const std::string& ifname = "eth0",
                         const std::string& args = "") {
  return ipam::add(invocation(Verb::add, text, container, ifname, args), &stub_uplink);
}

CniResult<> del(const std::string& text, const std::string& container, const std::string& ifname = "eth0") {
  return ipam::del(invocation(Verb::del, text, container, ifname));
}

CniResult<> gc(const std::string& text) { return ipam::gc(invocation(Verb::gc, text)); }

std::string first_address(const CniResult<AddResult>& result) {
  return result ? result->ips[0].address.text() : result.error().msg;
}

unsigned code_of(const auto& result) { return result ? 0 : result.error().code; }

// Empties the file of the only reservation whose name begins so.
void damage(const Folder& folder, const std::string& address) {
  for (const std::string& name : folder.reservations()) {
    if (name.starts_with(address + "@")) {
      std::filesystem::resize_file(folder.path() + "/net/" + name, 0);
      return;
    }
  }
  FAIL("no reservation of " << address);
}

const std::string small_pool = R"([{"uplink":"eth1","ranges":["10.1.0.10-10.1.0.11"],"prefix":24}])";

}  // namespace

TEST_CASE("ADD gives a pair of one uplink and says which") {
  const Folder folder;
  const auto result = add(config_text(folder.path(), two_pools), "c1");
  REQUIRE(result);
  REQUIRE(result->interfaces.size() == 1);
  CHECK(result->interfaces[0].name == "eth2");
  CHECK(result->interfaces[0].mac == "02:00:00:00:00:02");
  CHECK(result->interfaces[0].sandbox.empty());
  REQUIRE(result->ips.size() == 2);
  CHECK(result->ips[0].address.text() == "10.2.0.10/24");
  CHECK(result->ips[0].gateway == IpAddress::parse("10.2.0.1"));
  CHECK(result->ips[0].interface == 0);
  CHECK(result->ips[1].address.text() == "fd00:2::1/112");
  CHECK_FALSE(result->ips[1].gateway);
  CHECK(result->routes.empty());
  CHECK(folder.reservations().size() == 2);
}

TEST_CASE("pods spread over pools by what is left") {
  const Folder folder;
  const std::string text = config_text(folder.path(), two_pools);
  std::vector<std::string> addresses;
  addresses.reserve(5);
  for (int i = 0; i < 5; ++i) addresses.push_back(first_address(add(text, "c" + std::to_string(i))));
  CHECK(addresses ==
        std::vector<std::string>{"10.2.0.10/24", "10.1.0.10/24", "10.2.0.11/24", "10.1.0.11/24", "10.2.0.12/24"});
}

TEST_CASE("an address just released is not used again while others are free") {
  const Folder folder;
  const std::string text = config_text(folder.path(), small_pool);
  CHECK(first_address(add(text, "c1")) == "10.1.0.10/24");
  REQUIRE(del(text, "c1"));
  CHECK(first_address(add(text, "c2")) == "10.1.0.11/24");
  REQUIRE(del(text, "c2"));
  CHECK(first_address(add(text, "c3")) == "10.1.0.10/24");
}

TEST_CASE("a second ADD of an attachment fails and leaves the first its addresses") {
  const Folder folder;
  const std::string text = config_text(folder.path(), two_pools);
  REQUIRE(add(text, "c1"));
  const auto before = folder.reservations();
  CHECK(code_of(add(text, "c1")) == cni_code::already_added);
  CHECK(folder.reservations() == before);
  CHECK(add(text, "c1", "eth1"));
  CHECK(folder.reservations().size() == 4);
}

TEST_CASE("DEL releases what the attachment holds and nothing else, as often as one likes") {
  const Folder folder;
  const std::string text = config_text(folder.path(), two_pools);
  CHECK(del(text, "c1"));
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/net"));
  REQUIRE(add(text, "c1"));
  REQUIRE(add(text, "c1", "eth1"));
  REQUIRE(add(text, "c2"));
  CHECK(del(text, "c1"));
  CHECK(del(text, "c1"));
  CHECK(folder.reservations().size() == 4);
  CHECK(del(config_text(folder.path(), two_pools, "", "1.1.0", "other"), "c2"));
  CHECK(folder.reservations().size() == 4);
  CHECK(del(text, "c2"));
  CHECK(del(text, "c1", "eth1"));
  CHECK(folder.reservations().empty());
}

TEST_CASE("DEL works although the pools are gone or faulty") {
  for (const char* pools : {"[]", "5", R"([{"uplink":"eth9","typo":1}])", "null"}) {
    const Folder folder;
    REQUIRE(add(config_text(folder.path(), two_pools), "c1"));
    CHECK(del(config_text(folder.path(), pools), "c1"));
    CHECK(folder.reservations().empty());
  }
}

TEST_CASE("networks have stores of their own") {
  const Folder folder;
  CHECK(first_address(add(config_text(folder.path(), small_pool), "c1")) == "10.1.0.10/24");
  const auto other = add(config_text(folder.path(), small_pool, "", "1.1.0", "other"), "c1");
  CHECK(first_address(other) == "10.1.0.10/24");
}

TEST_CASE("an exhausted pool is an error that leaves nothing behind") {
  const Folder folder;
  const std::string text = config_text(folder.path(), small_pool);
  REQUIRE(add(text, "c1"));
  REQUIRE(add(text, "c2"));
  CHECK(code_of(add(text, "c3")) == cni_code::no_address);
  CHECK(folder.reservations().size() == 2);
  CHECK(code_of(ipam::status(invocation(Verb::status, text))) == cni_code::not_available);
  REQUIRE(del(text, "c1"));
  CHECK(code_of(ipam::status(invocation(Verb::status, text))) == 0);
  CHECK(first_address(add(text, "c3")) == "10.1.0.10/24");
}

TEST_CASE("requested addresses are given, and one that is taken is refused with its holder") {
  const Folder folder;
  const std::string text = config_text(folder.path(), two_pools);
  const auto result = add(text, "c1", "eth0", "IgnoreUnknown=1;IP=10.1.0.13");
  REQUIRE(result);
  CHECK(result->interfaces[0].name == "eth1");
  CHECK(result->ips[0].address.text() == "10.1.0.13/24");
  CHECK(result->ips[1].address.text() == "fd00:1::1/112");
  const auto second = add(text, "c2", "eth0", "IP=10.1.0.13");
  REQUIRE_FALSE(second);
  CHECK(second.error().code == cni_code::address_refused);
  CHECK(second.error().msg == "requested address 10.1.0.13 is held by container c1, interface eth0");
  CHECK(code_of(add(text, "c2", "eth0", "IP=192.0.2.1")) == cni_code::address_refused);
  CHECK(folder.reservations().size() == 2);
  // The request has not moved the place where the search goes on.
  const auto capability =
      add(config_text(folder.path(), two_pools, R"(,"runtimeConfig":{"ips":["fd00:1::99"]})"), "c3");
  CHECK(first_address(capability) == "10.1.0.10/24");
}

TEST_CASE("a damaged reservation counts as absent when its address is wanted") {
  const Folder folder;
  const std::string text = config_text(folder.path(), small_pool);
  REQUIRE(add(text, "c1"));
  REQUIRE(add(text, "c2"));
  damage(folder, "10.1.0.10");
  CHECK(code_of(ipam::check(invocation(Verb::check, text, "c1"))) == cni_code::check_failed);
  CHECK(first_address(add(text, "c3")) == "10.1.0.10/24");
  damage(folder, "10.1.0.11");
  CHECK(first_address(add(text, "c4", "eth0", "IP=10.1.0.11")) == "10.1.0.11/24");
}

TEST_CASE("DEL and a new ADD of the owner mend a damaged reservation") {
  const Folder folder;
  const std::string text = config_text(folder.path(), small_pool);
  REQUIRE(add(text, "c1"));
  damage(folder, "10.1.0.10");
  CHECK(first_address(add(text, "c1")) == "10.1.0.11/24");
  CHECK(del(text, "c1"));
  CHECK(folder.reservations().empty());
}

TEST_CASE("CHECK wants a reservation, and every address of prevResult that is of a pool") {
  const Folder folder;
  const std::string text = config_text(folder.path(), two_pools);
  const auto check = [&](const std::string& more, const std::string& container) {
    return code_of(ipam::check(invocation(Verb::check, config_text(folder.path(), two_pools, more), container)));
  };
  CHECK(check("", "c1") == cni_code::check_failed);
  REQUIRE(add(text, "c1"));
  CHECK(check("", "c1") == 0);
  CHECK(check(R"(,"prevResult":{"ips":[{"address":"10.2.0.10/24"},{"address":"192.0.2.1/24"}]})", "c1") == 0);
  CHECK(check(R"(,"prevResult":{"ips":[{"address":"10.2.0.11/24"}]})", "c1") == cni_code::check_failed);
  CHECK(check(R"(,"prevResult":5)", "c1") == 7);
  CHECK(check("", "c2") == cni_code::check_failed);
}

TEST_CASE("GC releases what the list lacks, of this network only") {
  const Folder folder;
  const std::string text = config_text(folder.path(), two_pools);
  const std::string other = config_text(folder.path(), two_pools, "", "1.1.0", "other");
  REQUIRE(add(text, "c1"));
  REQUIRE(add(text, "c1", "eth1"));
  REQUIRE(add(text, "c2"));
  REQUIRE(add(other, "c2"));
  CHECK(gc(text));
  CHECK(folder.reservations().size() == 6);
  CHECK(code_of(gc(config_text(folder.path(), two_pools, R"(,"cni.dev/valid-attachments":5)"))) == 7);
  CHECK(folder.reservations().size() == 6);
  CHECK(gc(config_text(folder.path(), "5", R"(,"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth1"}])")));
  CHECK(folder.reservations().size() == 2);
  CHECK(ipam::check(invocation(Verb::check, text, "c1", "eth1")));
  CHECK(gc(config_text(folder.path(), two_pools, R"(,"cni.dev/valid-attachments":null)")));
  CHECK(folder.reservations().empty());
  CHECK(folder.reservations("other").size() == 2);
  CHECK(del(text, "c1"));
  CHECK(gc(config_text(folder.path() + "/absent", two_pools, R"(,"cni.dev/valid-attachments":[])")));
}

TEST_CASE("GC keeps what was reserved while it waited") {
  const Folder folder;
  const std::string text = config_text(folder.path(), two_pools);
  REQUIRE(add(text, "c0"));
  // Another process reserves for c1 and holds the lock meanwhile.
  const ipam::Store store(folder.path(), "net");
  const AttachmentId id{"net", "c1", "eth0"};
  auto lock = store.lock();
  REQUIRE(lock);
  CniResult<> collected;
  std::thread collector(
      [&] { collected = gc(config_text(folder.path(), two_pools, R"(,"cni.dev/valid-attachments":[])")); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // past the start of the collection
  {
    const auto draft = store.draft(id);
    REQUIRE(draft);
    REQUIRE(store.reserve(*draft, {*IpAddress::parse("10.1.0.10")}));
  }
  lock->reset();
  collector.join();
  CHECK(collected);
  const auto left = folder.reservations();
  REQUIRE(left.size() == 1);
  CHECK(left[0].starts_with("10.1.0.10@"));
}

TEST_CASE("STATUS changes nothing and finds a folder that cannot be written") {
  const Folder folder;
  const std::string path = folder.path() + "/a/b";
  CHECK(ipam::status(invocation(Verb::status, config_text(path, two_pools))));
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/a"));
  std::ofstream(folder.path() + "/file") << "x";
  const auto status = ipam::status(invocation(Verb::status, config_text(folder.path() + "/file", two_pools)));
  REQUIRE_FALSE(status);
  CHECK(status.error().code == cni_code::not_available);
  CHECK(status.error().msg.find(folder.path() + "/file") != std::string::npos);
  CHECK(code_of(ipam::status(invocation(Verb::status, config_text(folder.path(), "[]")))) == 7);
}

TEST_CASE("a faulty configuration makes ADD and CHECK fail before anything is written") {
  const Folder folder;
  const std::string text = config_text(folder.path(), R"([{"uplink":"eth1","ranges":["10.0.0.9-10.0.0.1"]}])");
  CHECK(code_of(add(text, "c1")) == 7);
  CHECK(code_of(ipam::check(invocation(Verb::check, text, "c1"))) == 7);
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/net"));
  std::ofstream(folder.path() + "/file") << "x";
  CHECK(code_of(add(config_text(folder.path() + "/file", two_pools), "c1")) == cni_code::state);
}

TEST_CASE("configured routes are passed on") {
  const Folder folder;
  const std::string text = R"({"cniVersion":"1.1.0","name":"net","ipam":{"dataDir":")" + folder.path() +
                           R"(","routes":[{"dst":"192.0.2.0/24","mtu":1300}],"pools":)" + small_pool + "}}";
  const auto result = add(text, "c1");
  REQUIRE(result);
  REQUIRE(result->routes.size() == 1);
  CHECK(result->routes[0].mtu == 1300);
}
