// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "cni/spec/result.h"
#include "cni/spec/versions.h"

using namespace poduplink;
using nlohmann::json;

namespace {

AddResult full_result() {
  AddResult result;
  result.interfaces = {{"pdl1", "02:00:00:00:00:01", "", 1500, "", ""},
                       {"eth0", "02:00:00:00:00:02", "/run/netns/p1", 1400, "/run/s", "0000:00:01.0"}};
  result.ips = {{*Prefix::parse("10.0.0.5/24"), *IpAddress::parse("10.0.0.1"), 0},
                {*Prefix::parse("fd00:0::5/64"), std::nullopt, 1}};
  const ResultRoute route{*Prefix::parse("0.0.0.0/0"), *IpAddress::parse("10.0.0.1"), 1300, 1200, 7, 100, 253};
  result.routes = {route};
  result.dns.nameservers = {"10.0.0.53"};
  return result;
}

unsigned code_of(std::string_view text) {
  const auto result = parse_add_result_text(text, "1.0.0");
  return result ? 0 : result.error().code;
}

}  // namespace

TEST_CASE("E1 E2 E8 E10 C49: each version prints its own fields and no others") {
  for (const std::string_view version : supported_versions) {
    INFO(version);
    const json printed = json::parse(print_add_result(full_result(), version));
    const bool old = !version_at_least(version, "1.0.0");
    const bool newest = version == "1.1.0";
    CHECK(printed["cniVersion"] == std::string(version));
    CHECK(printed["ips"][0].contains("version") == old);
    if (old) {
      CHECK(printed["ips"][0]["version"] == "4");
      CHECK(printed["ips"][1]["version"] == "6");
    }
    CHECK(printed["ips"][0]["interface"] == 0);
    CHECK(printed["ips"][0]["gateway"] == "10.0.0.1");
    CHECK(printed["ips"][1]["address"] == "fd00::5/64");
    CHECK_FALSE(printed["ips"][1].contains("gateway"));
    CHECK_FALSE(printed["interfaces"][0].contains("sandbox"));
    CHECK(printed["interfaces"][1]["sandbox"] == "/run/netns/p1");
    for (const char* key : {"mtu", "socketPath", "pciID"}) CHECK(printed["interfaces"][1].contains(key) == newest);
    for (const char* key : {"mtu", "advmss", "priority", "table", "scope"}) {
      CHECK(printed["routes"][0].contains(key) == newest);
    }
    CHECK(printed["dns"] == json{{"nameservers", {"10.0.0.53"}}});
  }
}

TEST_CASE("E7: an empty result has empty lists and never null") {
  const json printed = json::parse(print_add_result(AddResult{}, "1.1.0"));
  CHECK(printed == json::parse(R"({"cniVersion":"1.1.0","interfaces":[],"ips":[]})"));
  AddResult result;
  result.interfaces = {{"eth0", "", "", 0, "", ""}};
  CHECK_FALSE(json::parse(print_add_result(result, "1.1.0"))["interfaces"][0].contains("mtu"));
}

TEST_CASE("E11: a printed result is read back the same") {
  const auto result = parse_add_result_text(print_add_result(full_result(), "1.1.0"), "1.1.0");
  REQUIRE(result);
  CHECK(print_add_result(*result, "1.1.0") == print_add_result(full_result(), "1.1.0"));
}

TEST_CASE("H9 C33: null, {} and a missing cniVersion are results") {
  for (const char* text : {"null", "{}", R"({"cniVersion":""})", R"({"ips":null,"dns":null})"}) {
    const auto result = parse_add_result_text(text, "1.0.0");
    REQUIRE(result);
    CHECK(result->ips.empty());
  }
}

TEST_CASE("H10 H11 M8: results of another known version are read") {
  const auto result = parse_add_result_text(
      R"({"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.0.0.5/24","gateway":"","interface":-1}],"dns":{}})",
      "1.1.0");
  REQUIRE(result);
  CHECK_FALSE(result->ips[0].gateway);
  CHECK(result->ips[0].interface == -1);
  CHECK(result->ips[0].address.text() == "10.0.0.5/24");
  CHECK(code_of(R"({"cniVersion":"1.2.0"})") == 1);
}

TEST_CASE("B9: keys in the case of Go's structs are read") {
  const auto result = parse_add_result_text(R"({"IPs":[{"Address":"10.0.0.5/24"}]})", "1.0.0");
  REQUIRE(result);
  CHECK(result->ips.size() == 1);
}

TEST_CASE("I1: what cannot be a result has code 6") {
  for (const char* text :
       {"", "x", "[]", "{} {}", "{\"ips\":{}}", "{\"ips\":[5]}", R"({"ips":[{}]})",
        R"({"ips":[{"address":"10.0.0.5"}]})", R"({"ips":[{"address":"10.0.0.5/33"}]})",
        R"({"ips":[{"address":"10.0.0.5/24","gateway":"x"}]})",
        R"({"ips":[{"address":"10.0.0.5/24","interface":"0"}]})", R"({"routes":[{"dst":"10.0.0.0"}]})",
        R"({"routes":[{"dst":"10.0.0.0/8","mtu":-1}]})", R"({"interfaces":[{"name":5}]})", R"({"cniVersion":1})"}) {
    INFO(text);
    CHECK(code_of(text) == 6);
  }
}

TEST_CASE("F9: errors stay valid JSON whatever is in them") {
  const CniError error{7, "bad \xff\x01 \"quote\"\n", "d\xc3"};
  const std::string printed = print_error(error, "1.0.0");
  CHECK(printed.find('\n') == printed.size() - 1);
  const json document = json::parse(printed);
  CHECK(document["code"] == 7);
  CHECK(document["cniVersion"] == "1.0.0");
  CHECK_FALSE(json::parse(print_error(CniError{7, "x", {}}, "1.0.0")).contains("details"));
}

TEST_CASE("F2 H5: an error object of another plugin is read, and only a real one") {
  const auto error = parse_error_document(R"({"code":4294967295,"msg":"m","details":"d"})");
  REQUIRE(error);
  CHECK(error->code == 4294967295U);
  CHECK(error->msg == "m");
  CHECK(error->details == "d");
  for (const char* text :
       {"", "x", "[]", "{}", R"({"code":"7"})", R"({"code":-1})", R"({"code":0})", R"({"code":4294967296})"}) {
    INFO(text);
    CHECK_FALSE(parse_error_document(text));
  }
}
