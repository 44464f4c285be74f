// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "cni/spec/environment.h"
#include "loader/base/address.h"

using namespace poduplink;

namespace {

Environment complete() {
  Environment environment;
  environment.container_id = "c1";
  environment.netns = "/run/netns/p1";
  environment.ifname = "eth0";
  environment.path = "/opt/cni/bin";
  return environment;
}

unsigned code_of(const Environment& environment, Verb verb) {
  const auto checked = check_environment(environment, verb);
  return checked ? 0 : checked.error().code;
}

}  // namespace

TEST_CASE("A4: a variable that is set but empty is the same as an unset one") {
  const Environment environment = read_environment([](const char* name) -> const char* {
    const std::string_view key = name;
    if (key == "CNI_COMMAND") return "GC";
    if (key == "CNI_NETNS_OVERRIDE") return "TRUE";
    return key == "CNI_IFNAME" ? "" : nullptr;
  });
  CHECK(environment.command == "GC");
  CHECK(environment.ifname.empty());
  CHECK(environment.container_id.empty());
  CHECK(environment.netns_override);
}

TEST_CASE("A1: verbs are exactly those of the specification") {
  CHECK(parse_verb("ADD") == Verb::add);
  CHECK(parse_verb("STATUS") == Verb::status);
  for (const char* text : {"add", "FOO", "ADD ", "ADDD"}) {
    const auto verb = parse_verb(text);
    REQUIRE_FALSE(verb);
    CHECK(verb.error().code == cni_code::bad_environment);
    CHECK(verb.error().msg.find("CNI_COMMAND") != std::string::npos);
  }
}

TEST_CASE("A3: all missing variables are named in one message") {
  const auto checked = check_environment(Environment{}, Verb::add);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().code == 4);
  for (const char* name : {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"}) {
    CHECK(checked.error().msg.find(name) != std::string::npos);
  }
  CHECK(checked.error().msg.find("CNI_PATH") == std::string::npos);
}

TEST_CASE("A3: each verb needs its own variables") {
  CHECK(code_of(Environment{}, Verb::status) == 0);
  CHECK(code_of(Environment{}, Verb::version) == 0);
  CHECK(code_of(Environment{}, Verb::gc) == 4);
  Environment environment = complete();
  environment.netns.clear();
  CHECK(code_of(environment, Verb::del) == 0);
  CHECK(code_of(environment, Verb::check) == 4);
  environment = complete();
  environment.path.clear();
  CHECK(code_of(environment, Verb::add) == 0);
  CHECK(code_of(environment, Verb::gc) == 4);
}

TEST_CASE("A5: container IDs begin alphanumeric and have no length limit") {
  for (const std::string& good : {std::string("a"), std::string("0_.-"), std::string(300, 'f')}) {
    CHECK(is_valid_identifier(good));
  }
  for (const char* bad : {"", "-a", ".a", "a/b", "a b", "ä"}) CHECK_FALSE(is_valid_identifier(bad));
  Environment environment = complete();
  environment.container_id = "-bad";
  CHECK(code_of(environment, Verb::add) == 4);
}

TEST_CASE("A6: interface names are those that the kernel takes") {
  CHECK(is_interface_name("eth0"));
  CHECK(is_interface_name(std::string(15, 'x')));
  for (const std::string& bad : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                 std::string("a:b"), std::string("a b"), std::string("a\nb"), std::string(16, 'x')}) {
    CHECK_FALSE(is_interface_name(bad));
  }
  Environment environment = complete();
  environment.ifname = std::string(16, 'x');
  CHECK(code_of(environment, Verb::del) == 4);
}

TEST_CASE("P1 P2: CNI_ARGS is read whatever it holds") {
  const CniArgs args(";IgnoreUnknown=1;FOO;=x;IP=10.0.0.1;A=b=c;IP=10.0.0.2;");
  CHECK(args.value("IP") == "10.0.0.2");
  CHECK(args.value("A") == "b=c");
  CHECK(args.value("IgnoreUnknown") == "1");
  CHECK_FALSE(args.value("ip"));
  CHECK_FALSE(args.value("FOO"));
  CHECK_FALSE(CniArgs("").value("IP"));
}

TEST_CASE("H1: plugins are found in absolute folders only, from left to right") {
  std::string name = (std::filesystem::temp_directory_path() / "pdl-path-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  const std::filesystem::path root = name;
  std::filesystem::create_directories(root / "first" / "ipam");  // a folder of that name is no plugin
  std::filesystem::create_directories(root / "second");
  std::ofstream(root / "second" / "ipam") << "x";
  const std::string path = ":relative:" + (root / "first").string() + "::" + (root / "second").string();
  CHECK(plugin_folders(path).size() == 2);
  CHECK(find_plugin(path, "ipam") == (root / "second" / "ipam").string());
  const auto missing = find_plugin(path, "other");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == cni_code::ipam_not_run);
  CHECK(missing.error().msg.find("'other'") != std::string::npos);
  CHECK(missing.error().msg.find(path) != std::string::npos);
  std::filesystem::remove_all(root);
}
