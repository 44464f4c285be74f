// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "maps/json_text.h"
#include "maps/record.h"

using namespace poduplink;
using namespace std::string_view_literals;

namespace {

// What is read here and what is left to the library is the same text.
void require_same(std::string_view text) {
  INFO(text);
  const auto own = JsonText::parse(text);
  const auto library = JsonText::parse_by_library(text);
  REQUIRE(own.has_value() == library.has_value());
  REQUIRE(own.has_value() == nlohmann::json::accept(text));
  if (own) REQUIRE(*own == *library);
  if (!own) REQUIRE(own.error().message == library.error().message);
}

std::string record_text() {
  Record record;
  record.id = {"net-a", "0123456789abcdef", "eth0"};
  record.pod_mac = *MacAddress::parse("02:00:00:00:00:05");
  record.addresses.push_back({.address = *Prefix::parse("10.2.0.5/16"), .uplink_name = "eth1"});
  record.labels = {{"K8S_POD_NAME", "web-0"}, {"K8S_POD_NAMESPACE", "shop"}};
  return write_record_text(record);
}

}  // namespace

TEST_CASE("plain JSON is read as the library reads it") {
  for (const std::string_view text : {R"({"a": [1, {"b": null}, [], {}, "x"], "c": {"d": true, "e": false}, "": ""})"sv,
                                      "{}"sv, " [ ] "sv, "7"sv, "0"sv, "18446744073709551615"sv, R"("x")"sv, "null"sv,
                                      "[[[[]]]]"sv, R"({"a":1,"a":2})"sv, "{\r\n\t\"a\" : 1 }\n"sv})
    require_same(text);
}

TEST_CASE("what is not plain, or no JSON, is left to the library") {
  for (const std::string_view text : {""sv,
                                      " "sv,
                                      "{"sv,
                                      "}"sv,
                                      "[1,]"sv,
                                      "[,1]"sv,
                                      "[1 2]"sv,
                                      "[1"sv,
                                      "]"sv,
                                      "{1:2}"sv,
                                      R"({"a"})"sv,
                                      R"({"a":})"sv,
                                      R"({"a":1,})"sv,
                                      R"({"a" 1})"sv,
                                      R"({"a":1]})"sv,
                                      "[1}"sv,
                                      "01"sv,
                                      "00"sv,
                                      "-0"sv,
                                      "-1"sv,
                                      "+1"sv,
                                      "1."sv,
                                      "1.5"sv,
                                      "1e3"sv,
                                      "[1e3]"sv,
                                      "1e999"sv,
                                      "-"sv,
                                      "0x1"sv,
                                      "18446744073709551616"sv,
                                      "99999999999999999999"sv,
                                      "nul"sv,
                                      "nulll"sv,
                                      "True"sv,
                                      "truefalse"sv,
                                      "{} {}"sv,
                                      "{}x"sv,
                                      "{}\0x"sv,
                                      "\0"sv,
                                      "[1\0]"sv,
                                      "\"a\0b\""sv,
                                      R"("a)"sv,
                                      R"("a\)"sv,
                                      R"("\n\u0041\ud83d\ude00\/")"sv,
                                      R"("\ud83d")"sv,
                                      R"("\x")"sv,
                                      "\"\n\""sv,
                                      "\"\t\""sv,
                                      "\"\x7f\""sv,
                                      "\"\xc3\xa9\""sv,
                                      "\"\xff\""sv,
                                      "\"\xc3\""sv,
                                      "\xef\xbb\xbf{}"sv,
                                      "\xef\xbb"sv,
                                      "/**/1"sv,
                                      "'a'"sv})
    require_same(text);
}

TEST_CASE("a record that is cut or changed at any octet is read, or refused, as the library does it") {
  const std::string text = record_text();
  for (std::size_t at = 0; at < text.size(); ++at) {
    require_same(text.substr(0, at));
    require_same(text.substr(0, at) + text.substr(at + 1));
    for (const char other :
         {' ', '"', '\\', ',', ':', '{', '}', '[', ']', '0', '1', '-', '.', 'e', 't', '\n', '\xc3', '\0'}) {
      std::string changed = text;
      changed[at] = other;
      require_same(changed);
    }
  }
}

TEST_CASE("fields are of the kind that is asked for, or an error names them") {
  const auto json = JsonText::parse(
      R"({"text": "x", "yes": true, "five": 5, "half": 0.5, "list": [1, "y"], "texts": {"a": "b", "a": "c"},
          "five": 6, "large": 2147483648, "null": null})");
  REQUIRE(json);
  const JsonValue root = json->root();
  CHECK(root.text_at("text").value() == "x");
  CHECK(root.bool_at("yes").value());
  CHECK(root.number_at("five", 6).value() == 6);
  CHECK(root.index_at("five").value() == 6);
  CHECK(root.items_at("list").value().at(1).text("list").value() == "y");
  CHECK(root.texts_at("texts").value() == std::map<std::string, std::string>{{"a", "c"}});
  CHECK(root.contains("null"));
  CHECK_FALSE(root.contains("none"));
  CHECK_FALSE(root.at("text")->contains("text"));
  const auto names = [](const auto& result, const std::string& key) {
    return !result && result.error().message.find(key) != std::string::npos;
  };
  for (const char* key : {"yes", "five", "list", "texts", "null", "none"}) CHECK(names(root.text_at(key), key));
  for (const char* key : {"text", "five", "list", "texts", "null", "none"}) CHECK(names(root.bool_at(key), key));
  for (const char* key : {"text", "yes", "half", "list", "null", "none"}) CHECK(names(root.number_at(key, 9), key));
  for (const char* key : {"text", "yes", "five", "texts", "null", "none"}) CHECK(names(root.items_at(key), key));
  for (const char* key : {"text", "yes", "five", "list", "null", "none"}) CHECK(names(root.texts_at(key), key));
  CHECK(names(root.number_at("five", 5), "five"));
  CHECK(names(root.index_at("large"), "large"));
  CHECK(names(root.at("list")->at("x"), "x"));
  CHECK(names(root.items_at("list")->at(0).text("list"), "list"));
}
