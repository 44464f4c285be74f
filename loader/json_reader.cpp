// SPDX-License-Identifier: Apache-2.0
#include "loader/json_reader.h"

#include <nlohmann/json.hpp>

namespace poduplink {

using nlohmann::json;

std::string quoted(const json& value) {
  constexpr std::size_t most = 80;
  std::string text =
      value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > most) text = text.substr(0, most) + "…";
  return value.is_string() ? "'" + text + "'" : text;
}

Result<json> parse_json(const std::string& text) {
  // nlohmann/json keeps the last of two equal keys without a word; the operator meant one of them.
  std::vector<std::set<std::string>> open_objects;
  std::string twice;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  try {
    json document = json::parse(text, watch);
    if (!twice.empty()) return fail("key '{}' stands twice", twice);
    return document;
  } catch (const json::exception& exception) {
    return fail("no valid JSON: {}", exception.what());
  }
}

const json* ObjectReader::find(std::string_view key) {
  known_.emplace(key);
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

void ObjectReader::read(std::string_view key, bool& value) {
  const json* found = find(key);
  if (found != nullptr && expect(*found, found->is_boolean(), key, "true or false")) value = found->get<bool>();
}

const std::string* ObjectReader::find_text(std::string_view key) {
  const json* found = find(key);
  if (found == nullptr || !expect(*found, found->is_string(), key, "a text")) return nullptr;
  return &found->get_ref<const std::string&>();
}

void ObjectReader::each(std::string_view key, const std::function<void(const json&, const std::string&)>& visit) {
  const json* found = find(key);
  if (found == nullptr || !expect(*found, found->is_array(), key, "a list")) return;
  std::size_t place = 0;
  for (const json& element : *found) visit(element, formatted("{}[{}]", at(key), place++));
}

void ObjectReader::read(std::string_view key, std::uint32_t& value, std::uint32_t least, std::uint32_t most) {
  const json* found = find(key);
  if (found == nullptr || !expect(*found, found->is_number_integer(), key, "a whole number")) return;
  const bool fits =
      found->is_number_unsigned() && found->get<std::uint64_t>() >= least && found->get<std::uint64_t>() <= most;
  if (fits) {
    value = found->get<std::uint32_t>();
  } else {
    problem(key, formatted("{} is not from {} to {}", quoted(*found), least, most));
  }
}

bool ObjectReader::expect(const json& value, bool fits, std::string_view key, std::string_view what) {
  if (!fits) problem(key, formatted("{} is not {}", quoted(value), what));
  return fits;
}

void ObjectReader::problem(std::string_view key, const std::string& text) {
  problems_.push_back(at(key) + ": " + text);
}

void ObjectReader::finish() {
  for (const auto& [key, value] : object_.items()) {
    if (!known_.contains(key)) problem(key, formatted("unknown key (its value is {})", quoted(value)));
  }
}

std::string ObjectReader::at(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

}  // namespace poduplink
