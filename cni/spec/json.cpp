// SPDX-License-Identifier: Apache-2.0
#include "cni/spec/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace poduplink {
namespace {

using nlohmann::json;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

// Whether brackets nest deeper than allowed. Asked before parsing, so that nothing deep is ever built; a text
// that is no JSON is the parser's to refuse.
bool too_deep(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_json_depth) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

// The value as an integer, where it is one that int64_t holds.
std::optional<std::int64_t> as_integer(const json& value) {
  constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(max)) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    constexpr double exact = 9007199254740992.0;  // 2^53: beyond it a double skips integers
    if (std::floor(number) == number && std::abs(number) <= exact) return static_cast<std::int64_t>(number);
  }
  return std::nullopt;
}

}  // namespace

Section::Section(const json& object, std::string path, KeyCase key_case)
    : object_(&object), path_(std::move(path)), key_case_(key_case) {}

const json* Section::find(std::string_view key) const {
  const json* found = nullptr;
  if (const auto exact = object_->find(std::string(key)); exact != object_->end()) {
    found = &*exact;
  } else if (key_case_ == KeyCase::any) {
    for (const auto& [name, value] : object_->items()) {
      if (equal_in_any_case(name, key)) found = &value;
    }
  }
  return found != nullptr && found->is_null() ? nullptr : found;
}

std::string Section::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

CniFailure Section::fault(std::string_view key, std::string_view what) const {
  const json* value = find(key);
  if (value == nullptr) return cni_fail(cni_code::bad_config, "key '{}' {}", path_of(key), what);
  return cni_fail(cni_code::bad_config, "key '{}': {} {}", path_of(key), brief_json(*value), what);
}

CniResult<std::optional<std::string>> Section::text(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return fault(key, "is not a string");
  return value->get<std::string>();
}

CniResult<std::optional<bool>> Section::flag(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return fault(key, "is neither true nor false");
  return value->get<bool>();
}

CniResult<std::optional<std::int64_t>> Section::number(std::string_view key, std::int64_t min, std::int64_t max) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_integer(*value);
  if (!number || *number < min || *number > max) {
    return fault(key, formatted("is not an integer from {} to {}", min, max));
  }
  return number;
}

CniResult<std::optional<std::vector<std::string>>> Section::texts(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return fault(key, "is not a list of strings");
  std::vector<std::string> list;
  for (const json& item : *value) {
    if (!item.is_string()) return fault(key, formatted("is not a list of strings: it holds {}", brief_json(item)));
    list.push_back(item.get<std::string>());
  }
  return list;
}

CniResult<std::optional<Section>> Section::section(std::string_view key, std::optional<KeyCase> key_case) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) return fault(key, "is not an object");
  return Section(*value, path_of(key), key_case.value_or(key_case_));
}

CniResult<std::vector<Section>> Section::sections(std::string_view key) const {
  std::vector<Section> list;
  const json* value = find(key);
  if (value == nullptr) return list;
  if (!value->is_array()) return fault(key, "is not a list of objects");
  for (const json& item : *value) {
    if (!item.is_object()) return fault(key, formatted("is not a list of objects: it holds {}", brief_json(item)));
    list.emplace_back(item, formatted("{}[{}]", path_of(key), list.size()), key_case_);
  }
  return list;
}

CniResult<> Section::only(std::initializer_list<std::string_view> known) const {
  for (const auto& [name, value] : object_->items()) {
    const bool found = std::ranges::any_of(known, [&, &key = name](std::string_view one) {
      return key_case_ == KeyCase::any ? equal_in_any_case(one, key) : one == key;
    });
    if (!found) {
      return cni_fail(cni_code::bad_config, "unknown key '{}' with value {}", path_of(name), brief_json(value));
    }
  }
  return {};
}

JsonDocument::JsonDocument(json&& value) : value_(std::make_unique<json>(std::move(value))) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

bool JsonDocument::is_object() const { return value_->is_object(); }
bool JsonDocument::is_null() const { return value_->is_null(); }

Section JsonDocument::root(std::string path, KeyCase key_case) const { return {*value_, std::move(path), key_case}; }

CniResult<JsonDocument> parse_json(std::string_view text) {
  // Said without an exception, whose first throw costs as much as the whole of VERSION.
  if (text.empty()) return cni_fail(cni_code::undecodable, "not JSON: nothing at all");
  if (text.starts_with("\xef\xbb\xbf")) return cni_fail(cni_code::undecodable, "JSON begins with a byte order mark");
  if (too_deep(text)) {
    return cni_fail(cni_code::undecodable, "JSON is nested deeper than {} levels", max_json_depth);
  }
  try {
    return JsonDocument(json::parse(text));
  } catch (const json::exception& error) {
    return cni_fail(cni_code::undecodable, "not JSON: {}", error.what());
  }
}

std::string print_json(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

std::string brief_json(const json& value) {
  constexpr std::size_t limit = 80;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > limit) text = text.substr(0, limit) + "…";
  return text;
}

}  // namespace poduplink
