// SPDX-License-Identifier: Apache-2.0
// The copy of the reservations' names: right, or none.
#include "cni/ipam/index.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "cni/ipam/store.h"
#include "loader/base/file.h"
#include "tests/unit/ipam_test_support.h"

using namespace poduplink;
using namespace poduplink::ipam;
using poduplink::tests::Folder;

namespace {

Reservation reservation(const std::string& address, std::uint64_t owner) { return {*IpAddress::parse(address), owner}; }

const std::vector<Reservation> some{reservation("10.0.0.5", 1), reservation("10.0.0.6", 0xffffffffffffffff),
                                    reservation("fd00::5", 1)};

// These are all reservations now, whatever names there are.
void remember(const Store& store, std::vector<Reservation> reservations) {
  Ledger(store.folder(), std::move(reservations)).settle();
}

// A folder with these names in it.
void fill(const Store& store, const std::vector<Reservation>& reservations) {
  REQUIRE(store.create());
  for (const Reservation& one : reservations) std::ofstream(store.folder() + "/" + reservation_name(one)) << "x";
}

}  // namespace

TEST_CASE("an index is written and read again, and no text that is cut or out of order is one") {
  const Index index{.boot = "b9c2", .stamp = {.tv_sec = 1700000000, .tv_nsec = 123456789}, .reservations = some};
  const std::string text = index_text(index);
  const auto read = parse_index(text);
  REQUIRE(read);
  CHECK(read->boot == index.boot);
  CHECK(read->stamp.tv_sec == index.stamp.tv_sec);
  CHECK(read->stamp.tv_nsec == index.stamp.tv_nsec);
  CHECK(read->reservations == some);
  for (std::size_t size = 0; size < text.size(); ++size) CHECK_FALSE(parse_index(text.substr(0, size)));
  CHECK_FALSE(parse_index(text + "x"));
  CHECK_FALSE(parse_index("x" + text.substr(1)));
  CHECK_FALSE(parse_index(index_text({.boot = "b", .stamp = {}, .reservations = {some[1], some[0]}})));
  CHECK(parse_index(index_text({.boot = "", .stamp = {}, .reservations = {}})));
}

TEST_CASE("what is remembered is what is listed, and the names are not looked at") {
  const Folder folder;
  const Store store(folder.path(), "net");
  REQUIRE(store.create());
  remember(store, some);  // no such files
  CHECK(*store.list() == some);
  remember(store, {some[1]});  // shorter than before
  CHECK(*store.list() == std::vector{some[1]});
  remember(store, {});
  CHECK(store.list()->empty());
}

TEST_CASE("whoever adds or removes a name is noticed, also in the very moment of the index") {
  const Folder folder;
  const Store store(folder.path(), "net");
  fill(store, some);
  const Reservation more = reservation("10.0.0.7", 7);
  const std::string path = store.folder() + "/" + reservation_name(more);
  for (int i = 0; i < 500; ++i) {
    remember(store, some);
    std::ofstream(path) << "x";
    REQUIRE(store.list()->size() == 4);
    remember(store, {some[0], some[1], more, some[2]});
    std::filesystem::remove(path);
    REQUIRE(*store.list() == some);
  }
}

TEST_CASE("an index of before the machine's start, half an index, and one that was copied hold nothing") {
  const Folder folder;
  const Store store(folder.path(), "net");
  fill(store, some);
  remember(store, {});
  const std::string path = store.folder() + "/" + std::string(index_name);
  const std::string text = *read_file(path);
  const auto index = parse_index(text);
  REQUIRE(index);
  REQUIRE(store.list()->empty());

  // What lies there is changed without a change of the folder.
  const auto put = [&](const std::string& content) { std::ofstream(path, std::ios::trunc) << content; };
  for (std::size_t size = 0; size < text.size(); ++size) {
    put(text.substr(0, size));
    CHECK(*store.list() == some);
  }
  put(index_text({.boot = "another", .stamp = index->stamp, .reservations = {}}));
  CHECK(*store.list() == some);
  put(index_text({.boot = "", .stamp = index->stamp, .reservations = {}}));
  CHECK(*store.list() == some);
  put(text);
  CHECK(store.list()->empty());

  const Store other(folder.path(), "other");
  fill(other, some);
  std::filesystem::copy(path, other.folder() + "/" + std::string(index_name));
  CHECK(*other.list() == some);
}

TEST_CASE("a process that died before it wrote the index left one that holds nothing") {
  const Folder folder;
  const Store store(folder.path(), "net");
  REQUIRE(store.create());
  remember(store, {});
  const AttachmentId id{"net", "c1", "eth0"};
  {
    const auto draft = store.draft(id);
    REQUIRE(draft);
    CHECK(store.list()->empty());  // a draft does not outdate it
    REQUIRE(store.reserve(*draft, {*IpAddress::parse("10.0.0.5")}));
  }
  CHECK(*store.list() == std::vector{reservation("10.0.0.5", attachment_hash(id))});
  remember(store, *store.list());
  REQUIRE(store.release(reservation("10.0.0.5", attachment_hash(id))));
  CHECK(store.list()->empty());
}

TEST_CASE("a ledger that is changed in place is what the same changes of a list make") {
  const Folder folder;
  const Store store(folder.path(), "net");
  REQUIRE(store.create());
  std::vector<Reservation> wanted;
  remember(store, wanted);
  std::minstd_rand random(7);  // NOLINT(cert-msc51-cpp): the same numbers each time
  const auto is_before = [](const Reservation& one, const Reservation& other) { return one.address < other.address; };
  for (int round = 0; round < 300; ++round) {
    auto ledger = Ledger::open(store.folder());
    REQUIRE(ledger);
    REQUIRE(std::ranges::equal(ledger->all(), wanted));
    for (unsigned change = random() % 4; change > 0; --change) {
      if (!wanted.empty() && random() % 4 == 0) {
        const Reservation gone = wanted[random() % wanted.size()];
        ledger->erase(gone);
        std::erase(wanted, gone);
      } else {
        const Reservation made = reservation(formatted("10.{}.{}.1", random() % 250, random() % 250), random());
        if (std::ranges::find(wanted, made.address, &Reservation::address) != wanted.end()) continue;
        ledger->insert(made);
        wanted.insert(std::ranges::upper_bound(wanted, made, is_before), made);
      }
    }
    ledger->erase(reservation("192.0.2.1", 1));  // is not in it
    if (round % 10 == 9) {
      // Not settled, as where a process died: what is in the file then is no index.
      std::ofstream(store.folder() + "/another name") << round;
      std::filesystem::remove(store.folder() + "/another name");
      CHECK_FALSE(Ledger::open(store.folder()));
      CHECK_FALSE(read_index(store.folder()));
      remember(store, wanted);
      continue;
    }
    ledger->settle();
  }
  CHECK(wanted.size() > 20);
  CHECK(*store.list() == wanted);
}

TEST_CASE("a ledger takes more than there was room for") {
  const Folder folder;
  const Store store(folder.path(), "net");
  REQUIRE(store.create());
  remember(store, some);
  auto ledger = Ledger::open(store.folder());
  REQUIRE(ledger);
  for (int i = 0; i < 200; ++i) ledger->insert(reservation(formatted("10.1.{}.1", i), 5));
  CHECK(ledger->all().size() == 203);
  ledger->settle();
  REQUIRE(store.list()->size() == 203);
  CHECK(store.list()->front() == some[0]);
  CHECK(store.list()->back() == some[2]);
}
