// SPDX-License-Identifier: Apache-2.0
#include "maps/json_text.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

namespace poduplink {

// Puts values behind each other as they come.
class JsonText::Builder {
 public:
  // Of a text of so many octets: that of a record has a value for every twenty.
  explicit Builder(std::size_t size) { built_.values_.reserve(size / 16 + 1); }

  std::string& strings() { return built_.strings_; }
  void name_next(Part key) { key_ = key; }
  void add(Kind kind, Part text = {}, std::uint64_t number = 0) {
    const std::size_t end = built_.values_.size() + 1;
    built_.values_.push_back(
        {.kind = kind, .key = std::exchange(key_, {}), .text = text, .number = number, .end = end});
  }
  void open(Kind kind) {
    open_.push_back(built_.values_.size());
    add(kind);
  }
  void close() {
    built_.values_[open_.back()].end = built_.values_.size();
    open_.pop_back();
  }
  // The array or object whose values come now; null: none.
  [[nodiscard]] Kind inside() const { return open_.empty() ? Kind::null : built_.values_[open_.back()].kind; }
  JsonText take() { return std::move(built_); }

 private:
  JsonText built_;
  Part key_;                       // of the field whose value comes next
  std::vector<std::size_t> open_;  // arrays and objects that have not ended
};

// What nlohmann/json's parser tells of any text. Names and parameters are the library's.
class JsonText::Events {
 public:
  using Json = nlohmann::json;

  explicit Events(std::size_t size) : builder_(size) {}

  bool null() { return add(Kind::null); }
  bool boolean(bool value) { return add(Kind::boolean, {}, value ? 1 : 0); }
  bool number_integer(Json::number_integer_t /*value*/) { return add(Kind::other_number); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(Kind::whole_number, {}, value); }
  bool number_float(Json::number_float_t /*value*/, const std::string& /*text*/) { return add(Kind::other_number); }
  bool string(const std::string& text) { return add(Kind::text, keep(text)); }
  bool binary(const Json::binary_t& /*value*/) { return false; }  // no text has any
  bool start_object(std::size_t /*size*/) { return open(Kind::object); }
  bool key(const std::string& text) {
    builder_.name_next(keep(text));
    return true;
  }
  bool end_object() { return close(); }
  bool start_array(std::size_t /*size*/) { return open(Kind::array); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t /*place*/, const std::string& /*token*/, const Json::exception& error) {
    error_ = error.what();
    return false;
  }

  [[nodiscard]] const std::string& error() const { return error_; }
  JsonText take() { return builder_.take(); }

 private:
  Part keep(const std::string& text) {
    const std::size_t start = builder_.strings().size();
    builder_.strings() += text;
    return {.start = start, .size = text.size()};
  }
  bool add(Kind kind, Part text = {}, std::uint64_t number = 0) {
    builder_.add(kind, text, number);
    return true;
  }
  bool open(Kind kind) {
    builder_.open(kind);
    return true;
  }
  bool close() {
    builder_.close();
    return true;
  }

  Builder builder_;
  std::string error_;
};

// Plain JSON: strings of ASCII without escapes, numbers of digits alone. Records are such texts, and the library takes
// half a dozen calls for each of their octets.
class JsonText::Plain {
 public:
  explicit Plain(std::string_view text) : text_(text), builder_(text.size()) {}

  // Nothing where the text is not plain, or no JSON.
  std::optional<JsonText> read() {
    bool more = true;
    while (more) {
      if (!read_value() || !end_values(more)) return std::nullopt;
    }
    skip_blanks();
    if (at_ != text_.size()) return std::nullopt;
    builder_.strings() = text_;
    return builder_.take();
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
  static bool is_plain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

  // What comes then; a zero, which nothing begins with, at the end.
  char skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool skip(char wanted) {
    if (skip_blanks() != wanted) return false;
    ++at_;
    return true;
  }

  // A value, or the beginning of the first one in arrays and objects.
  bool read_value() {
    for (;;) {
      if (builder_.inside() == Kind::object && !read_key()) return false;
      const char first = skip_blanks();
      if (first != '{' && first != '[') return read_scalar(first);
      ++at_;
      builder_.open(first == '{' ? Kind::object : Kind::array);
      if (skip_blanks() == (first == '{' ? '}' : ']')) return true;
    }
  }

  // What stands behind a value: the ends of arrays and objects, and a comma where there is more.
  bool end_values(bool& more) {
    for (;;) {
      const Kind inside = builder_.inside();
      more = inside != Kind::null;
      if (!more) return true;
      if (!skip(inside == Kind::object ? '}' : ']')) return skip(',');
      builder_.close();
    }
  }

  bool read_key() {
    Part key;
    if (!read_string(key)) return false;
    builder_.name_next(key);
    return skip(':');
  }

  bool read_string(Part& part) {
    if (!skip('"')) return false;
    part.start = at_;
    while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
    part.size = at_ - part.start;
    if (at_ == text_.size() || text_[at_] != '"') return false;
    ++at_;
    return true;
  }

  bool read_scalar(char first) {
    if (first == '"') {
      Part text;
      if (!read_string(text)) return false;
      builder_.add(Kind::text, text);
      return true;
    }
    if (first >= '0' && first <= '9') return read_number();
    return read_word("true", Kind::boolean, 1) || read_word("false", Kind::boolean, 0) ||
           read_word("null", Kind::null, 0);
  }

  bool read_number() {
    const char* const start = text_.data() + at_;
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(start, text_.data() + text_.size(), number);
    // Neither 01 nor what is larger. 1.5 and 1e3 end where a comma or the like is looked for.
    if (error != std::errc() || (*start == '0' && end - start > 1)) return false;
    at_ += static_cast<std::size_t>(end - start);
    builder_.add(Kind::whole_number, {}, number);
    return true;
  }

  bool read_word(std::string_view word, Kind kind, std::uint64_t number) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    builder_.add(kind, {}, number);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Builder builder_;
};

Result<JsonText> JsonText::parse(std::string_view text) {
  if (auto plain = Plain(text).read()) return std::move(*plain);
  return parse_by_library(text);
}

Result<JsonText> JsonText::parse_by_library(std::string_view text) {
  Events events(text.size());
  if (!nlohmann::json::sax_parse(text, &events)) return fail("{}", events.error());
  return events.take();
}

bool JsonText::same(const JsonText& other) const {
  return std::ranges::equal(values_, other.values_, [&](const Value& one, const Value& two) {
    return one.kind == two.kind && one.number == two.number && one.end == two.end &&
           string(one.key) == other.string(two.key) && string(one.text) == other.string(two.text);
  });
}

const char* JsonText::name_of(Kind kind) {
  switch (kind) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return "boolean";
    case Kind::whole_number:
    case Kind::other_number:
      return "number";
    case Kind::text:
      return "string";
    case Kind::array:
      return "array";
    case Kind::object:
      return "object";
  }
  return "";
}

Result<JsonValue> JsonValue::at(std::string_view key) const {
  const JsonText::Value& object = whole_->values_[place_];
  if (object.kind != JsonText::Kind::object) return fail("{}: looked for in {}", key, JsonText::name_of(object.kind));
  std::optional<std::size_t> found;
  for (std::size_t field = place_ + 1; field < object.end; field = whole_->values_[field].end) {
    if (whole_->string(whole_->values_[field].key) == key) found = field;
  }
  if (!found) return fail("{}: absent", key);
  return JsonValue(*whole_, *found);
}

Result<std::string_view> JsonValue::text(std::string_view what) const {
  const JsonText::Value& value = whole_->values_[place_];
  if (value.kind != JsonText::Kind::text) return fail("{}: {} is no string", what, JsonText::name_of(value.kind));
  return whole_->string(value.text);
}

Result<std::string_view> JsonValue::text_at(std::string_view key) const {
  PDL_TRY_ASSIGN(const JsonValue field, at(key));
  return field.text(key);
}

Result<bool> JsonValue::bool_at(std::string_view key) const {
  PDL_TRY_ASSIGN(const JsonValue field, at(key));
  const JsonText::Value& value = whole_->values_[field.place_];
  if (value.kind != JsonText::Kind::boolean) return fail("{}: {} is no boolean", key, JsonText::name_of(value.kind));
  return value.number != 0;
}

Result<std::uint64_t> JsonValue::number_at(std::string_view key, std::uint64_t max) const {
  PDL_TRY_ASSIGN(const JsonValue field, at(key));
  const JsonText::Value& value = whole_->values_[field.place_];
  if (value.kind != JsonText::Kind::whole_number || value.number > max)
    return fail("{}: {} is no number from 0 to {}", key, JsonText::name_of(value.kind), max);
  return value.number;
}

Result<int> JsonValue::index_at(std::string_view key) const {
  PDL_TRY_ASSIGN(const std::uint64_t index, number_at(key, std::numeric_limits<int>::max()));
  return static_cast<int>(index);
}

Result<std::vector<JsonValue>> JsonValue::items_at(std::string_view key) const {
  PDL_TRY_ASSIGN(const JsonValue field, at(key));
  const JsonText::Value& array = whole_->values_[field.place_];
  if (array.kind != JsonText::Kind::array) return fail("{}: {} is no array", key, JsonText::name_of(array.kind));
  std::vector<JsonValue> items;
  for (std::size_t item = field.place_ + 1; item < array.end; item = whole_->values_[item].end)
    items.push_back(JsonValue(*whole_, item));
  return items;
}

Result<std::map<std::string, std::string>> JsonValue::texts_at(std::string_view key) const {
  PDL_TRY_ASSIGN(const JsonValue place, at(key));
  const JsonText::Value& object = whole_->values_[place.place_];
  if (object.kind != JsonText::Kind::object) return fail("{}: {} is no object", key, JsonText::name_of(object.kind));
  std::map<std::string, std::string> texts;
  for (std::size_t field = place.place_ + 1; field < object.end; field = whole_->values_[field].end) {
    const std::string_view name = whole_->string(whole_->values_[field].key);
    PDL_TRY_ASSIGN(const std::string_view text, JsonValue(*whole_, field).text(key));
    texts.insert_or_assign(std::string(name), std::string(text));
  }
  return texts;
}

bool JsonValue::contains(std::string_view key) const { return at(key).has_value(); }

}  // namespace poduplink
