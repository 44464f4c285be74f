// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include <catch2/catch_test_macros.hpp>

#include "maps/locks.h"
#include "tests/harness/temporary_folder.h"

using namespace poduplink;
using namespace std::chrono_literals;
using tests::TemporaryFolder;

TEST_CASE("the global lock excludes a second holder and is free after the first") {
  const TemporaryFolder folder;
  const std::string run_dir = folder.file("run/deeper");
  {
    const auto first = GlobalLock::take(run_dir);
    REQUIRE(first);
    const auto second = GlobalLock::take(run_dir, 5ms);
    REQUIRE_FALSE(second);
    CHECK(second.error().code == EAGAIN);
    CHECK(second.error().message.find(run_dir) != std::string::npos);
  }
  CHECK(GlobalLock::take(run_dir, 0ms));
}

TEST_CASE("attachment locks exclude the same attachment only") {
  const TemporaryFolder folder;
  const auto first = AttachmentLock::take(folder.path(), 7, 0ms);
  REQUIRE(first);
  CHECK_FALSE(AttachmentLock::take(folder.path(), 7, 5ms));
  CHECK(AttachmentLock::take(folder.path(), 8, 0ms));
  const auto tried = AttachmentLock::try_take(folder.path(), 7);
  REQUIRE(tried);
  CHECK_FALSE(tried->has_value());
}

TEST_CASE("hashes over the whole range can be locked") {
  const TemporaryFolder folder;
  for (const std::uint64_t hash : {std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{1} << 63U}) {
    CHECK(AttachmentLock::take(folder.path(), hash, 0ms));
  }
}
