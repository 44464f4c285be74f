// SPDX-License-Identifier: Apache-2.0
#include "tests/deploy/package.h"

#include <filesystem>

#include "loader/base/file.h"
#include "loader/base/version.h"
#include "tests/harness/lab.h"
#include "tests/harness/process.h"

namespace poduplink::harness {
namespace {

namespace fs = std::filesystem;

Result<std::string> the_package_in(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".deb") return entry.path().string();
  }
  return fail("no package in {}", folder);
}

// Of the same length, so that a program stays one.
Result<> raise_version(const std::string& path) {
  PDL_TRY_ASSIGN(std::string text, read_file(path));
  const std::string now = build_version();
  const std::string next = "9" + now.substr(1);
  for (std::size_t at = text.find(now); at != std::string::npos; at = text.find(now, at))
    text.replace(at, now.size(), next);
  return write_file_atomically(path, text, static_cast<unsigned>(fs::status(path).permissions()));
}

}  // namespace

Result<std::string> make_package(const std::string& folder) {
  PDL_TRY(run_ok({.argv = {"cpack", "-G", "DEB", "--config", PDL_CPACK_CONFIG, "-B", folder}}));
  return the_package_in(folder);
}

Result<std::string> make_next_package(const std::string& package, const std::string& folder) {
  const std::string tree = folder + "/next";
  PDL_TRY(run_ok({.argv = {"dpkg-deb", "-R", package, tree}}));
  const std::string agent = tree + "/usr/sbin/poduplinkd";
  fs::copy_file(program_folder() + "/tests/poduplinkd-other", agent, fs::copy_options::overwrite_existing);
  for (const char* file : {"/usr/sbin/poduplinkd", "/usr/bin/poduplinkctl", "/usr/libexec/poduplink/poduplink",
                           "/usr/libexec/poduplink/poduplink-ipam", "/DEBIAN/control"})
    PDL_TRY(raise_version(tree + file));
  fs::remove(tree + "/DEBIAN/md5sums");
  PDL_TRY(run_ok({.argv = {"dpkg-deb", "-Zgzip", "-z1", "-b", tree, folder + "/next.deb"}}));
  return folder + "/next.deb";
}

}  // namespace poduplink::harness
