// SPDX-License-Identifier: Apache-2.0
#include "loader/ctl/render.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "loader/base/format.h"

namespace poduplink::ctl {
namespace {

constexpr std::string_view gap = "  ";

std::string_view colour_code(Tone tone) {
  switch (tone) {
    case Tone::good:
      return "\x1b[32m";
    case Tone::warning:
      return "\x1b[33m";
    case Tone::bad:
      return "\x1b[31m";
    case Tone::plain:
      break;
  }
  return {};
}

void add_coloured(std::string& text, std::string_view part, Tone tone, bool colour) {
  const std::string_view code = colour ? colour_code(tone) : std::string_view();
  text += code;
  text += part;
  if (!code.empty()) text += "\x1b[0m";
}

// What a terminal shows: octets that continue a UTF-8 sequence take no place of their own.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char octet) { return (static_cast<unsigned char>(octet) & 0xc0U) != 0x80U; }));
}

std::string text_of(const Json& row, const Column& column) {
  const auto found = row.find(column.key);
  return found == row.end() ? "-" : cell_text(*found);
}

// All cells of a section, row by row: one text for all, because there may be a hundred thousand.
class Cells {
 public:
  Cells(const Section& section, const List* list) : columns_(section.columns.size()) {
    const std::size_t rows = list != nullptr ? list->size() : section.rows.size();
    ends_.reserve(rows * columns_);
    for (const Column& column : section.columns) widths_.push_back(width_of(column.title));
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns_; ++column)
        add(list != nullptr ? list->cell(row, column) : text_of(section.rows[row], section.columns[column]));
    }
  }

  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] std::string_view at(std::size_t number) const {
    const std::size_t start = number == 0 ? 0 : ends_[number - 1];
    return std::string_view(text_).substr(start, ends_[number] - start);
  }
  // Of the widest cell of a column, or its title.
  [[nodiscard]] std::size_t width(std::size_t column) const { return widths_[column]; }

 private:
  void add(std::string_view cell) {
    std::size_t& width = widths_[ends_.size() % columns_];
    text_ += one_line(cell);
    ends_.push_back(text_.size());
    width = std::max(width, width_of(at(ends_.size() - 1)));
  }

  std::size_t columns_;
  std::vector<std::size_t> widths_;
  std::string text_;
  std::vector<std::size_t> ends_;
};

void add_cell(std::string& text, std::string_view cell, const Column& column, std::size_t width, bool last, Tone tone,
              bool colour) {
  const std::size_t padding = width - width_of(cell);
  if (column.right) text.append(padding, ' ');
  add_coloured(text, cell, tone, colour);
  if (last) return;
  if (!column.right) text.append(padding, ' ');
  text += gap;
}

std::string section_text(const Section& section, const List* list, bool colour) {
  const Cells cells(section, list);
  if (cells.size() == 0) return section.none.empty() ? std::string() : section.none + "\n";
  const std::size_t columns = section.columns.size();
  std::size_t line = 0;
  for (std::size_t i = 0; i < columns; ++i) line += cells.width(i) + gap.size();
  std::string text = section.title.empty() ? std::string() : section.title + "\n";
  text.reserve(text.size() + line * (cells.size() / columns + 1));
  for (std::size_t i = 0; i < columns; ++i)
    add_cell(text, section.columns[i].title, section.columns[i], cells.width(i), i + 1 == columns, Tone::plain, false);
  for (std::size_t at = 0; at < cells.size(); ++at) {
    const std::size_t i = at % columns;
    const Column& column = section.columns[i];
    if (i == 0) text += '\n';
    const Tone tone = column.tone != nullptr ? column.tone(cells.at(at)) : Tone::plain;
    add_cell(text, cells.at(at), column, cells.width(i), i + 1 == columns, tone, colour);
  }
  text += '\n';
  return text;
}

// Names that are no UTF-8 (interfaces may have any octets) are shown with replacement characters.
std::string json_text(const Json& json, bool compact) {
  return json.dump(compact ? -1 : 2, ' ', false, Json::error_handler_t::replace);
}

// As json_text() has it. What most values of a list are is written here: the library's writer is made anew for each.
void add_json(std::string& text, const Json& value, bool compact, std::string_view indent) {
  const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  if (value.is_string() && std::ranges::all_of(value.get_ref<const std::string&>(), plain)) {
    text += '"';
    text += value.get_ref<const std::string&>();
    text += '"';
  } else if (value.is_null()) {
    text += "null";
  } else if (value.is_boolean()) {
    text += value.get<bool>() ? "true" : "false";
  } else if (value.is_number_unsigned()) {
    text += std::to_string(value.get<std::uint64_t>());
  } else {
    // Line feeds stand between values alone: within texts they are written out.
    for (const char c : json_text(value, compact)) {
      text += c;
      if (c == '\n') text += indent;
    }
  }
}

// As json_text() of an array of all rows.
std::string list_json(const List& list, bool compact) {
  const std::string_view row_break = compact ? "" : "\n  ";
  const std::string_view field_break = compact ? "" : "\n    ";
  std::string text = "[";
  Fields fields;
  for (std::size_t number = 0; number < list.size(); ++number) {
    fields.clear();
    list.row(number, fields);
    if (number > 0) text += ',';
    text += row_break;
    text += '{';
    for (const auto& [key, value] : fields) {
      if (&key != &fields.front().first) text += ',';
      text += field_break;
      text += '"';
      text += key;
      text += compact ? "\":" : "\": ";
      add_json(text, value, compact, "    ");
    }
    text += row_break;
    text += '}';
    if (number == 0) text.reserve(text.size() * list.size() / 4 * 5);  // the others are about as long
  }
  if (!compact && list.size() > 0) text += '\n';
  text += ']';
  return text;
}

}  // namespace

Tone tone_of_state(std::string_view state) {
  constexpr std::array good{std::string_view("up"), std::string_view("ready"), std::string_view("attached")};
  constexpr std::array bad{std::string_view("down"), std::string_view("missing"), std::string_view("refused"),
                           std::string_view("absent"), std::string_view("silent")};
  if (std::ranges::find(good, state) != good.end()) return Tone::good;
  if (std::ranges::find(bad, state) != bad.end()) return Tone::bad;
  return Tone::plain;
}

std::string cell_text(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return value.get<std::string>().empty() ? "-" : value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Json& item : value) text += (text.empty() ? "" : ", ") + cell_text(item);
  return text.empty() ? "-" : text;
}

std::string as_table(const View& view, bool colour) {
  std::string text;
  for (const Remark& remark : view.remarks) {
    add_coloured(text, one_line(remark.text), remark.tone, colour);
    text += '\n';
  }
  for (const Section& section : view.sections) {
    const std::string part = section_text(section, section.of_list ? view.list.get() : nullptr, colour);
    if (!text.empty() && !part.empty()) text += "\n";
    text += part;
  }
  return text;
}

std::string as_json(const View& view, bool compact) {
  std::string text = view.list ? list_json(*view.list, compact) : json_text(view.document, compact);
  text += '\n';
  return text;
}

}  // namespace poduplink::ctl
