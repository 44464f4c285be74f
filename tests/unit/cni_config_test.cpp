// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include "cni/spec/config.h"
#include "cni/spec/versions.h"
#include "loader/base/fd.h"

using namespace poduplink;

namespace {

NetworkConfig config_of(const std::string& keys, const std::string& version = "1.1.0") {
  auto config = NetworkConfig::parse(R"({"cniVersion":")" + version + R"(","name":"net")" + (keys.empty() ? "" : ",") +
                                     keys + "}");
  REQUIRE(config);
  return std::move(*config);
}

unsigned parse_code(const std::string& text) {
  const auto config = NetworkConfig::parse(text);
  return config ? 0 : config.error().code;
}

std::string message_of(const auto& result) { return result ? std::string("no error") : result.error().msg; }

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("B1 B2: what is no JSON object has code 6") {
  for (const char* text :
       {"", "{", "[]", "null", "5", "\xef\xbb\xbf{}", "{} {}", "log line\n{}", R"({"cniVersion":1,"name":"net"})"}) {
    INFO(text);
    CHECK(parse_code(text) == 6);
  }
}

TEST_CASE("B3: the network's name is checked") {
  for (const char* name : {"", R"("name":"",)", R"("name":"a/b",)", R"("name":"-a",)", R"("name":5,)"}) {
    INFO(name);
    CHECK(parse_code("{" + std::string(name) + R"("cniVersion":"1.0.0"})") == 7);
  }
  CHECK(parse_code(R"({"name":"a_b.c-1","cniVersion":"0.3.0"})") == 0);
}

TEST_CASE("B4 B5: an unknown or missing cniVersion has code 1 and lists what is served") {
  for (const char* version :
       {"", R"(,"cniVersion":"9.0.0")", R"(,"cniVersion":"garbage")", R"(,"cniVersion":"0.2.0")"}) {
    const auto config = NetworkConfig::parse(R"({"name":"net")" + std::string(version) + "}");
    REQUIRE_FALSE(config);
    CHECK(config.error().code == 1);
    CHECK(contains(config.error().details, "0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0"));
  }
}

TEST_CASE("B8 H3: the configuration is kept octet by octet") {
  const std::string text = "{ \"name\":\"net\",\n\"cniVersion\" : \"1.0.0\", \"x\":\"\\u003c\", \"name\":\"last\" }\n";
  const auto config = NetworkConfig::parse(text);
  REQUIRE(config);
  CHECK(config->raw() == text);
  CHECK(config->name() == "last");
}

TEST_CASE("B13: deep nesting is refused, not followed") {
  CHECK(parse_code(std::string(100000, '[')) == 6);
  CHECK(parse_code(R"({"name":"net","cniVersion":"1.0.0","x":)" + std::string(100000, '[') + std::string(100000, ']') +
                   "}") == 6);
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  CHECK(parse_code(objects) == 6);
  // Brackets in strings are text.
  CHECK(parse_code(R"({"name":"net","cniVersion":"1.0.0","x":"\")" + std::string(1000, '[') + "\"}") == 0);
}

TEST_CASE("B13: input past the limit is refused with code 6") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  REQUIRE(::write(writer.get(), "{}", 2) == 2);
  writer.reset();
  CHECK(read_config(reader.get()) == "{}");
  const auto endless = read_config(open_file("/dev/zero", O_RDONLY)->get());
  REQUIRE_FALSE(endless);
  CHECK(endless.error().code == 6);
  CHECK(read_config(open_file("/", O_RDONLY)->get()).error().code == 5);
}

TEST_CASE("D1: verbs exist from their version on") {
  CHECK(check_verb_version(Verb::add, "0.3.0"));
  CHECK(check_verb_version(Verb::del, "0.3.0"));
  CHECK(check_verb_version(Verb::check, "0.4.0"));
  CHECK(check_verb_version(Verb::check, "0.3.1").error().code == 1);
  CHECK(check_verb_version(Verb::gc, "1.1.0"));
  CHECK(check_verb_version(Verb::gc, "1.0.0").error().code == 1);
  CHECK(check_verb_version(Verb::status, "1.0.0").error().code == 1);
}

TEST_CASE("C1 C2: VERSION echoes a known version and else says the newest") {
  CHECK(print_versions("0.4.0") ==
        "{\"cniVersion\":\"0.4.0\",\"supportedVersions\":[\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n");
  CHECK(print_versions("0.2.0").starts_with("{\"cniVersion\":\"1.1.0\""));
  CHECK(cni_version_of(R"({"cniVersion":"0.3.1"})") == "0.3.1");
  CHECK(cni_version_of(R"({"cniVersion":"2.0.0"})") == "1.1.0");
  CHECK(cni_version_of("garbage") == "1.1.0");
  CHECK(peek_cni_version(open_file("/dev/null", O_RDONLY)->get()) == "1.1.0");
  CHECK(peek_cni_version(-1) == "1.1.0");
}

TEST_CASE("C3: a writer who keeps standard input open does not block VERSION") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const Fd reader(ends[0]);
  const Fd writer(ends[1]);
  CHECK(peek_cni_version(reader.get()) == "1.1.0");
}

TEST_CASE("B10: a key of the wrong type is named with its value") {
  const auto config = config_of(R"("mtu":"1500","list":[1],"flag":1,"ipam":[],"huge":1e30,"half":1.5,"neg":-1)");
  const Section root = config.root();
  CHECK(message_of(root.number("mtu", 0, 10)) == "key 'mtu': \"1500\" is not an integer from 0 to 10");
  CHECK(contains(message_of(root.texts("list")), "key 'list': [1] is not a list of strings"));
  CHECK(contains(message_of(root.flag("flag")), "key 'flag': 1 "));
  CHECK(contains(message_of(root.section("ipam")), "key 'ipam': [] is not an object"));
  for (const char* key : {"huge", "half", "neg"}) {
    const auto number = root.number(key, 0, INT64_MAX);
    REQUIRE_FALSE(number);
    CHECK(number.error().code == 7);
  }
}

TEST_CASE("B7: numbers that went through a double are taken") {
  const auto config = config_of(R"("a":1e3,"b":9007199254740992.0,"c":null,"d":18446744073709551615)");
  CHECK(config.root().number("a", 0, 2000) == 1000);
  CHECK(config.root().number("b", 0, INT64_MAX) == INT64_C(9007199254740992));
  CHECK(config.root().number("c", 0, 1) == std::nullopt);
  CHECK_FALSE(config.root().number("d", 0, INT64_MAX));
}

TEST_CASE("long values are cut in messages") {
  const auto config = config_of(R"("mtu":")" + std::string(5000, 'x') + "\"");
  CHECK(message_of(config.root().number("mtu", 0, 1)).size() < 200);
}

TEST_CASE("O1 B9: runtimeConfig is read without regard to case") {
  const auto config =
      config_of(R"("runtimeConfig":{"PortMappings":[{"HostPort":80,"hostPort":81}],"Ips":["10.0.0.1"]},"Other":1)");
  const auto runtime = runtime_config(config);
  REQUIRE(runtime);
  REQUIRE(*runtime);
  CHECK((**runtime).texts("ips") == std::vector<std::string>{"10.0.0.1"});
  const auto mappings = (**runtime).sections("portMappings");
  REQUIRE(mappings);
  REQUIRE(mappings->size() == 1);
  CHECK(mappings->front().number("hostPort", 0, 65535) == 81);  // the exact name wins
  CHECK(mappings->front().path() == "runtimeConfig.portMappings[0]");
  CHECK_FALSE(config.root().has("other"));
  CHECK(runtime_config(config_of(""))->has_value() == false);
}

TEST_CASE("unknown keys are refused where a section asks for it") {
  const auto config = config_of(R"("ipam":{"type":"x","typo":5})");
  const auto ipam = config.root().section("ipam");
  const auto checked = (**ipam).only({"type"});
  CHECK(message_of(checked) == "unknown key 'ipam.typo' with value 5");
  CHECK((**ipam).only({"type", "typo"}));
}

TEST_CASE("B11 C36: ipam.type is the name of a plain file") {
  CHECK(ipam_type(config_of(R"("ipam":{"type":"host-local"})")) == "host-local");
  CHECK(ipam_type(config_of("")) == std::nullopt);
  for (const char* ipam : {"{}", R"({"type":""})", R"({"type":"../x"})", R"({"type":"a\\b"})", R"({"type":".."})",
                           R"({"type":5})", R"("x")"}) {
    INFO(ipam);
    const auto type = ipam_type(config_of("\"ipam\":" + std::string(ipam)));
    REQUIRE_FALSE(type);
    CHECK(type.error().code == 7);
  }
}

TEST_CASE("G4 G5 C55: valid attachments: null and [] mean none, an absent key means nothing is known") {
  CHECK(valid_attachments(config_of(""))->has_value() == false);
  CHECK(valid_attachments(config_of(R"("cni.dev/valid-attachments":null)"))->value().empty());
  CHECK(valid_attachments(config_of(R"("cni.dev/valid-attachments":[])"))->value().empty());
  const auto some =
      valid_attachments(config_of(R"("cni.dev/valid-attachments":[{"containerID":"c","ifname":"eth0"}])"));
  REQUIRE(some);
  CHECK(some->value() == std::vector<AttachmentId>{{"net", "c", "eth0"}});
  CHECK(valid_attachments(config_of(R"("cni.dev/valid-attachments":[{"ifname":"eth0"}])")).error().code == 7);
  CHECK(valid_attachments(config_of(R"("cni.dev/valid-attachments":"x")")).error().code == 7);
}

TEST_CASE("K1 M1: prevResult may be missing, null or empty, and a wrong one has code 7") {
  for (const char* text : {"", R"("prevResult":null)", R"("prevResult":{})"}) {
    const auto previous = previous_result(config_of(text));
    REQUIRE(previous);
    CHECK_FALSE(*previous);
  }
  CHECK(previous_result(config_of(R"("prevResult":5)")).error().code == 7);
  CHECK(previous_result(config_of(R"("prevResult":{"ips":[{"address":"10.0.0.1"}]})")).error().code == 7);
  const auto previous = previous_result(config_of(R"("prevResult":{"ips":[{"version":"4","address":"10.0.0.1/24"}]})"));
  REQUIRE(previous);
  CHECK((**previous).ips.size() == 1);
}

TEST_CASE("B12: dns of the configuration is read") {
  CHECK(configured_dns(config_of(""))->empty());
  CHECK(configured_dns(config_of(R"("dns":{})"))->empty());
  CHECK(configured_dns(config_of(R"("dns":{"domain":"example"})"))->domain == "example");
  CHECK(configured_dns(config_of(R"("dns":{"search":"x"})")).error().code == 7);
}

TEST_CASE("F9: what comes from outside breaks no line of a message") {
  const std::string hostile = "a\nb\x1b[1m\x7f\t\r";
  CHECK(one_line(hostile) == R"(a\nb\x1b[1m\x7f\x09\x0d)");
  CHECK(one_line("Zürich") == "Zürich");
  const auto is_one_line = [](const CniError& error) {
    return std::ranges::none_of(error.msg, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; });
  };
  // Whatever makes an error: a format, an error of a base function, a context, a version.
  CHECK(is_one_line(cni_fail(cni_code::bad_config, "key '{}'", hostile).error()));
  CHECK(is_one_line(cni_error(cni_code::state, Error{0, hostile})));
  CHECK(is_one_line(CniError{cni_code::state, "no", {}}.within(hostile)));
  const auto version = NetworkConfig::parse(R"({"name":"n","cniVersion":"1\n2\u0007"})");
  REQUIRE_FALSE(version);
  CHECK(is_one_line(version.error()));
  const NetworkConfig config = config_of(R"("sub":{"a\nb":1})");
  const auto key = config.root().section("sub");
  REQUIRE(key);
  const auto known = (*key)->only({"c"});
  REQUIRE_FALSE(known);
  CHECK(is_one_line(known.error()));
}
