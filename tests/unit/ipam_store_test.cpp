// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include "cni/ipam/store.h"
#include "loader/base/file.h"
#include "tests/unit/ipam_test_support.h"

using namespace poduplink;
using namespace poduplink::ipam;
using poduplink::tests::Folder;

namespace {

IpAddress ip(std::string_view text) { return *IpAddress::parse(text); }

const AttachmentId one{"net", "c1", "eth0"};

Store made_store(const Folder& folder) {
  Store store(folder.path(), "net");
  REQUIRE(store.create());
  return store;
}

std::string file_of(const Store& store, const char* address, const AttachmentId& id) {
  return store.folder() + "/" + address + "@" + hash_text(attachment_hash(id));
}

}  // namespace

TEST_CASE("a pair is reserved and released by name, and the file says whose it is") {
  const Folder folder;
  const Store store = made_store(folder);
  {
    const auto draft = store.draft(one);
    REQUIRE(draft);
    REQUIRE(store.reserve(*draft, {ip("10.0.0.5"), ip("fd00::5")}));
  }
  const auto reservations = store.list();
  REQUIRE(reservations);
  CHECK(*reservations ==
        std::vector<Reservation>{{ip("10.0.0.5"), attachment_hash(one)}, {ip("fd00::5"), attachment_hash(one)}});
  CHECK(folder.reservations().size() == 2);  // the draft is gone
  CHECK(store.owner_of((*reservations)[1]) == one);
  REQUIRE(store.release((*reservations)[0]));
  REQUIRE(store.release((*reservations)[0]));
  CHECK(store.list()->size() == 1);
}

TEST_CASE("of a pair that cannot be reserved whole nothing stays") {
  const Folder folder;
  const Store store = made_store(folder);
  std::ofstream(file_of(store, "fd00::5", one)) << "in the way";
  {
    const auto draft = store.draft(one);
    REQUIRE(draft);
    const auto reserved = store.reserve(*draft, {ip("10.0.0.5"), ip("fd00::5")});
    REQUIRE_FALSE(reserved);
    CHECK(reserved.error().code == EEXIST);
  }
  CHECK(folder.reservations().size() == 1);
}

TEST_CASE("files of other names are no reservations") {
  const Folder folder;
  const Store store = made_store(folder);
  for (const char* name : {"10.0.0.5", "10.0.0.5@", "10.0.0.5@xyz", "10.0.0.5@0123456789ABCDEF",
                           "10.0.0.5@0123456789abcdef0", "x@0123456789abcdef", ".draft-0123456789abcdef-abc"}) {
    std::ofstream(store.folder() + "/" + name) << "x";
  }
  CHECK(store.list()->empty());
  CHECK(Store(folder.path(), "absent").list()->empty());
}

TEST_CASE("only the form in which a reservation's name is written is one, whatever else can be read as an address") {
  const Reservation reservation{ip("fd00:2::5"), attachment_hash(one)};
  const std::string name = reservation_name(reservation);
  CHECK(parse_reservation_name(name) == reservation);
  const std::string hash = name.substr(name.find('@'));
  for (const char* address : {"FD00:2::5", "fd00:02::5", "fd00:2:0:0:0:0:0:5", "fd00:2::0.0.0.5", "::ffff:10.0.0.05"}) {
    INFO(address);
    CHECK_FALSE(parse_reservation_name(address + hash));
  }
  CHECK_FALSE(parse_reservation_name(name + " "));
  CHECK_FALSE(parse_reservation_name(" " + name));
}

TEST_CASE("a damaged file has no owner") {
  const Folder folder;
  const Store store = made_store(folder);
  const std::string path = file_of(store, "10.0.0.5", one);
  const Reservation reservation{ip("10.0.0.5"), attachment_hash(one)};
  for (const char* text : {"", "{", R"({"network":"net","containerID":"c1"})",
                           R"({"network":"net","containerID":"c2","ifname":"eth0"})"}) {
    std::ofstream(path, std::ios::trunc) << text;
    CHECK_FALSE(store.owner_of(reservation));
  }
  std::ofstream(path, std::ios::trunc) << R"({"network":"net","containerID":"c1","ifname":"eth0"})";
  CHECK(store.owner_of(reservation) == one);
}

TEST_CASE("the hint survives shorter addresses and damage") {
  const Folder folder;
  const Store store = made_store(folder);
  CHECK_FALSE(store.last_handed_out("10.0.0.1"));
  store.set_last_handed_out("10.0.0.1", ip("fd00:1111:2222:3333:4444:5555:6666:7777"));
  store.set_last_handed_out("10.0.0.1", ip("10.0.0.9"));
  CHECK(store.last_handed_out("10.0.0.1") == ip("10.0.0.9"));
  CHECK_FALSE(store.last_handed_out("10.0.0.2"));
  std::ofstream(store.folder() + "/.last-10.0.0.1", std::ios::trunc) << "";
  CHECK_FALSE(store.last_handed_out("10.0.0.1"));
}

TEST_CASE("drafts of the owner and old ones are dropped, others stay") {
  const Folder folder;
  const Store store = made_store(folder);
  const std::string drafts = store.folder() + "/.drafts";
  const std::string mine = drafts + "/.draft-" + hash_text(attachment_hash(one)) + "-abcdef";
  const std::string young = drafts + "/.draft-0123456789abcdef-abcdef";
  const std::string old = drafts + "/.draft-0123456789abcdef-ghijkl";
  const std::string of_before = store.folder() + "/.draft-0123456789abcdef-mnopqr";  // where version 0.1 had them
  for (const auto& path : {mine, young, old, of_before}) std::ofstream(path) << "x";
  for (const auto& path : {old, of_before})
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  store.drop_drafts(std::nullopt);
  CHECK(std::filesystem::exists(mine));
  CHECK_FALSE(std::filesystem::exists(old));
  CHECK_FALSE(std::filesystem::exists(of_before));
  store.drop_drafts(attachment_hash(one));
  CHECK_FALSE(std::filesystem::exists(mine));
  CHECK(std::filesystem::exists(young));
}
