// SPDX-License-Identifier: Apache-2.0
// What a command found out: a document for programs, and the same as tables for people. Commands make views and print
// nothing; render.h prints.
#pragma once

#include <string>
#include <string_view>
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
  std::string (*cell)(const Json& row) = nullptr;  // where it is not the key's value as it stands
};

struct Section {
  std::string title;  // empty: none
  std::vector<Column> columns;
  Json rows = Json::array();  // of objects
  bool of_document = false;   // the rows are the view's document itself: there may be thousands
  std::string none;           // said where there are no rows; empty: the section is left out
};

// A line of its own, before the tables.
struct Remark {
  Tone tone = Tone::plain;
  std::string text;
};

struct View {
  Json document;
  std::vector<Remark> remarks;
  std::vector<Section> sections;
  bool well = true;  // false: exit code 1
};

// "up" and "ready" are good, "down", "missing" and the like are bad.
Tone tone_of_state(std::string_view state);

}  // namespace poduplink::ctl
