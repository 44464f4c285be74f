// SPDX-License-Identifier: Apache-2.0
// JSON as the plugins read it: parsed within bounds, then asked for keys by type, so that a wrong one becomes
// an error that names the key and shows the value. Only .cpp files that build documents need the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cni/spec/error.h"

namespace poduplink {

// How keys are looked up. Runtimes written in Go send some objects with the field names of their structs
// ("HostPort"), so those are read without regard to case; the exact name wins where both are there.
enum class KeyCase { exact, any };

// A JSON object with its place in the document ("ipam.pools[1]"), which every error names. It refers to the
// document and must not outlive it. A key whose value is null counts as absent. All errors have code
// bad_config.
class Section {
 public:
  Section(const nlohmann::json& object, std::string path, KeyCase key_case = KeyCase::exact);

  // The value, or nothing where the key is absent or null.
  [[nodiscard]] const nlohmann::json* find(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }

  [[nodiscard]] CniResult<std::optional<std::string>> text(std::string_view key) const;
  [[nodiscard]] CniResult<std::optional<bool>> flag(std::string_view key) const;

  // An integer from min to max. One written as 1e3 or 5.0 is taken too: runtimes that pass numbers through
  // a double write them so.
  [[nodiscard]] CniResult<std::optional<std::int64_t>> number(std::string_view key, std::int64_t min,
                                                              std::int64_t max) const;

  // A list of strings; absent: nothing.
  [[nodiscard]] CniResult<std::optional<std::vector<std::string>>> texts(std::string_view key) const;

  [[nodiscard]] CniResult<std::optional<Section>> section(std::string_view key,
                                                          std::optional<KeyCase> key_case = std::nullopt) const;

  // A list of objects; absent: an empty one.
  [[nodiscard]] CniResult<std::vector<Section>> sections(std::string_view key) const;

  // Refuses every key that is not in the list.
  [[nodiscard]] CniResult<> only(std::initializer_list<std::string_view> known) const;

  // An error about one key, with its value: fault("mtu", "is not a number") says "key 'a.mtu': "9" is not a number".
  [[nodiscard]] CniFailure fault(std::string_view key, std::string_view what) const;

  // "ipam.pools[1].gateway"
  [[nodiscard]] std::string path_of(std::string_view key) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const nlohmann::json& object() const { return *object_; }

 private:
  const nlohmann::json* object_;
  std::string path_;
  KeyCase key_case_;
};

// Owns a parsed document.
class JsonDocument {
 public:
  explicit JsonDocument(nlohmann::json&& value);
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;
  ~JsonDocument();

  [[nodiscard]] const nlohmann::json& get() const { return *value_; }

  // The document as a section; it must be an object (is_object()), else it is a bug of the caller.
  [[nodiscard]] bool is_object() const;
  [[nodiscard]] bool is_null() const;
  [[nodiscard]] Section root(std::string path = {}, KeyCase key_case = KeyCase::exact) const;

 private:
  std::unique_ptr<nlohmann::json> value_;
};

// Deeper documents are refused: the library prints and copies by recursion.
inline constexpr std::size_t max_json_depth = 256;

// Errors: code undecodable, with the place. A byte order mark is refused, as Go does.
CniResult<JsonDocument> parse_json(std::string_view text);

// One line with its newline; octets that are not UTF-8 become U+FFFD.
std::string print_json(const nlohmann::json& value);

// A value for an error message: compact, cut after about 80 octets.
std::string brief_json(const nlohmann::json& value);

}  // namespace poduplink
