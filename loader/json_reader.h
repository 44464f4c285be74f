// SPDX-License-Identifier: Apache-2.0
// Reads a JSON document key by key and notes what is wrong by path: "uplinks[1].gateway4: …". Included by
// .cpp files that hold nlohmann/json anyway.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "loader/base/result.h"

namespace poduplink {

// A value as messages quote it: short, whatever it is.
std::string quoted(const nlohmann::json& value);

// Parses text. Errors: no JSON (with the place), or a key that stands twice in one object.
Result<nlohmann::json> parse_json(const std::string& text);

// One object and where it lies. Keys that nobody asked for are reported by finish().
class ObjectReader {
 public:
  ObjectReader(const nlohmann::json& object, std::string path, std::vector<std::string>& problems)
      : object_(object), path_(std::move(path)), problems_(problems) {}

  // The value of a key, or null where it is absent.
  const nlohmann::json* find(std::string_view key);

  // These leave the value alone where the key is absent or wrong.
  void read(std::string_view key, bool& value);
  void read(std::string_view key, std::uint32_t& value, std::uint32_t least, std::uint32_t most);

  // Text handed to `parse`, which returns a Result; its error becomes a problem.
  template <typename Value, typename Parse>
  void read_text(std::string_view key, Value& value, const Parse& parse) {
    const std::string* text = find_text(key);
    if (text == nullptr) return;
    auto result = parse(*text);
    if (result) {
      value = std::move(*result);
    } else {
      problem(key, result.error().message);
    }
  }

  // Calls visit(element, path of the element) for each element of an array.
  void each(std::string_view key, const std::function<void(const nlohmann::json&, const std::string&)>& visit);

  // True where `fits`; else notes that the value is not what was expected.
  bool expect(const nlohmann::json& value, bool fits, std::string_view key, std::string_view what);
  void problem(std::string_view key, const std::string& text);

  // Notes each key that was never asked for.
  void finish();

  // Path of a key of this object.
  [[nodiscard]] std::string at(std::string_view key) const;

 private:
  // Null where the key is absent, or no text, which is noted.
  const std::string* find_text(std::string_view key);

  const nlohmann::json& object_;
  std::string path_;
  std::vector<std::string>& problems_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace poduplink
