// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include <catch2/catch_test_macros.hpp>

#include "loader/base/fd.h"
#include "loader/base/file.h"
#include "tests/harness/temporary_folder.h"

using namespace poduplink;
using tests::TemporaryFolder;

TEST_CASE("a file is replaced whole, with its mode, and leaves no temporary file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("record");
  REQUIRE(write_file_atomically(path, "first"));
  REQUIRE(write_file_atomically(path, "second", 0640));
  CHECK(read_file(path) == "second");
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0640);
  CHECK(list_directory(folder.file("")) == std::vector<std::string>{"record"});
}

TEST_CASE("a failing replacement leaves the old file and nothing else") {
  const TemporaryFolder folder;
  REQUIRE(make_directories(folder.file("target/inner")));
  const auto written = write_file_atomically(folder.file("target"), "text");
  REQUIRE_FALSE(written);
  CHECK(written.error().code != 0);
  CHECK(list_directory(folder.file("")) == std::vector<std::string>{"target"});
}

TEST_CASE("a staged file is a draft until it is put in place, and is gone where it never is") {
  const TemporaryFolder folder;
  const auto names = [&] { return list_directory(folder.file("")).value(); };
  {
    auto staged = StagedFile::write(folder.file("plugin"), "text", 0755);
    REQUIRE(staged);
    REQUIRE(names().size() == 1);
    CHECK(is_draft_of(names().front(), "plugin"));
    CHECK_FALSE(is_draft_of(names().front(), "plug"));
    REQUIRE(staged->put_in_place());
    CHECK(names() == std::vector<std::string>{"plugin"});
  }
  CHECK(names() == std::vector<std::string>{"plugin"});
  {
    REQUIRE(StagedFile::write(folder.file("other"), "text", 0644));
  }
  CHECK(names() == std::vector<std::string>{"plugin"});
  for (const char* other : {"plugin", "plugin.conf", "plugin.abcdefg", "plugin-abcdef", "plugin.abcd.f"})
    CHECK_FALSE(is_draft_of(other, "plugin"));
}

TEST_CASE("reading is bounded and absence has its errno") {
  const TemporaryFolder folder;
  CHECK(read_file(folder.file("none")).error().code == ENOENT);
  REQUIRE(write_file_atomically(folder.file("big"), std::string(100, 'x')));
  CHECK(read_file(folder.file("big"), 99).error().code == EFBIG);
  CHECK(read_file(folder.file("big"), 100)->size() == 100);
}

TEST_CASE("descriptors are close-on-exec and owned once") {
  Fd first = std::move(*open_file("/dev/null", O_RDONLY));
  CHECK((::fcntl(first.get(), F_GETFD) & FD_CLOEXEC) != 0);
  const int number = first.get();
  Fd second = std::move(first);
  CHECK(second.get() == number);
  second.reset();
  CHECK(::fcntl(number, F_GETFD) == -1);
}
