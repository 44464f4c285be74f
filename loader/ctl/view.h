// SPDX-License-Identifier: Apache-2.0
// What a command found out: a document for programs, and the same as tables for people. Commands make views and print
// nothing; render.h prints.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace poduplink::ctl {

using Json = nlohmann::ordered_json;

enum class Tone { plain, good, warning, bad };

// One key of a table's rows.
struct Column {
  std::string title;
  std::string key;
  bool right = false;                              // aligned so: numbers
  Tone (*tone)(std::string_view value) = nullptr;  // how the cell is coloured
};

struct Section {
  std::string title;  // empty: none
  std::vector<Column> columns;
  Json rows = Json::array();  // of objects
  bool of_list = false;       // the rows are the view's list
  std::string none;           // said where there are no rows; empty: the section is left out
};

// A line of its own, before the tables.
struct Remark {
  Tone tone = Tone::plain;
  std::string text;
};

// An object whose keys are known to be different: they are not looked for.
using Fields = std::vector<std::pair<const char*, Json>>;

// Rows of which there may be thousands: each is made when it is printed and not kept, because all of them as a document
// take longer than to find out what they say.
class List {
 public:
  List() = default;
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  virtual ~List() = default;

  [[nodiscard]] virtual std::size_t size() const = 0;
  // For programs: key by key. `fields` is empty, and may have room.
  virtual void row(std::size_t number, Fields& fields) const = 0;
  // For people: by the columns of the section that shows it.
  [[nodiscard]] virtual std::string cell(std::size_t number, std::size_t column) const = 0;
};

struct View {
  Json document;
  std::shared_ptr<const List> list;  // in the document's place
  std::vector<Remark> remarks;
  std::vector<Section> sections;
  bool well = true;  // false: exit code 1
};

// "up" and "ready" are good, "down", "missing" and the like are bad.
Tone tone_of_state(std::string_view state);

}  // namespace poduplink::ctl
