// SPDX-License-Identifier: Apache-2.0
// JSON text of which each field is read once, and strictly. No document is made of it: a node has thousands of records,
// and their documents cost more than all else that is done with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/base/result.h"

namespace poduplink {

class JsonText;

// One value of a JsonText, which has to outlive it and the texts that it gives.
class JsonValue {
 public:
  // Fields of an object; of those with the same key the last one counts. Errors, by the key: this is no object, the
  // field is absent, its value is of another kind.
  [[nodiscard]] Result<JsonValue> at(std::string_view key) const;
  [[nodiscard]] Result<std::string_view> text_at(std::string_view key) const;
  // What `parse` makes of a text. Errors: its own, too.
  template <typename Parse>
  [[nodiscard]] auto parsed_at(std::string_view key, const Parse& parse) const -> decltype(parse(key)) {
    PDL_TRY_ASSIGN(const std::string_view text, text_at(key));
    auto parsed = parse(text);
    if (!parsed) return fail_within(std::move(parsed.error()), std::string(key));
    return parsed;
  }
  [[nodiscard]] Result<bool> bool_at(std::string_view key) const;
  // A whole number from 0 to `max` as it stands there, and nothing that could be made one: 1.0, true, 1e300.
  [[nodiscard]] Result<std::uint64_t> number_at(std::string_view key, std::uint64_t max) const;
  // An interface index.
  [[nodiscard]] Result<int> index_at(std::string_view key) const;
  [[nodiscard]] Result<std::vector<JsonValue>> items_at(std::string_view key) const;
  // An object that has nothing but texts.
  [[nodiscard]] Result<std::map<std::string, std::string>> texts_at(std::string_view key) const;
  // False where this is no object, too.
  [[nodiscard]] bool contains(std::string_view key) const;
  // This value itself. Errors: it is no text; `what` says of which value.
  [[nodiscard]] Result<std::string_view> text(std::string_view what) const;

 private:
  friend class JsonText;
  JsonValue(const JsonText& whole, std::size_t place) : whole_(&whole), place_(place) {}

  const JsonText* whole_;
  std::size_t place_;
};

class JsonText {
 public:
  // Errors: text that is no JSON, with what is wrong and where.
  static Result<JsonText> parse(std::string_view text);
  // Of the same text the same, by nlohmann/json alone: parse() leaves to it what is not plain.
  static Result<JsonText> parse_by_library(std::string_view text);

  [[nodiscard]] JsonValue root() const { return {*this, 0}; }

  // Whether both say the same.
  friend bool operator==(const JsonText& one, const JsonText& other) { return one.same(other); }

 private:
  friend class JsonValue;
  class Builder;
  class Plain;
  class Events;

  enum class Kind : std::uint8_t { null, boolean, whole_number, other_number, text, array, object };
  struct Part {
    std::size_t start = 0;  // in strings_
    std::size_t size = 0;
  };
  // Values lie in the order of the text: those of an array or object behind it, up to `end`.
  struct Value {
    Kind kind = Kind::null;
    Part key;  // of a field
    Part text;
    std::uint64_t number = 0;  // whole; of a boolean 0 or 1
    std::size_t end = 0;
  };

  static const char* name_of(Kind kind);
  [[nodiscard]] std::string_view string(Part part) const { return {strings_.data() + part.start, part.size}; }
  [[nodiscard]] bool same(const JsonText& other) const;

  std::vector<Value> values_;
  std::string strings_;  // has all keys and texts, unescaped
};

}  // namespace poduplink
