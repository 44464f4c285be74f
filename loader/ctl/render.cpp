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

std::string coloured(std::string text, Tone tone, bool colour) {
  const std::string_view code = colour ? colour_code(tone) : std::string_view();
  if (code.empty()) return text;
  return std::string(code) + text + "\x1b[0m";
}

// What a terminal shows: octets that continue a UTF-8 sequence take no place of their own.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char octet) { return (static_cast<unsigned char>(octet) & 0xc0U) != 0x80U; }));
}

std::string text_of(const Json& row, const Column& column) {
  if (column.cell != nullptr) return one_line(column.cell(row));
  const auto found = row.find(column.key);
  return found == row.end() ? "-" : one_line(cell_text(*found));
}

void add_cell(std::string& text, std::string cell, const Column& column, std::size_t width, bool last, Tone tone,
              bool colour) {
  const std::size_t padding = width - width_of(cell);
  if (column.right) text.append(padding, ' ');
  text += coloured(std::move(cell), tone, colour);
  if (last) return;
  if (!column.right) text.append(padding, ' ');
  text += gap;
}

std::string section_text(const Section& section, const Json& rows, bool colour) {
  if (rows.empty()) return section.none.empty() ? std::string() : section.none + "\n";
  const std::size_t columns = section.columns.size();
  std::vector<std::string> cells;  // row by row
  cells.reserve(rows.size() * columns);
  std::vector<std::size_t> widths;
  widths.reserve(columns);
  for (const Column& column : section.columns) widths.push_back(width_of(column.title));
  for (const Json& row : rows) {
    for (std::size_t i = 0; i < columns; ++i) {
      cells.push_back(text_of(row, section.columns[i]));
      widths[i] = std::max(widths[i], width_of(cells.back()));
    }
  }
  std::string text = section.title.empty() ? std::string() : section.title + "\n";
  for (std::size_t i = 0; i < columns; ++i)
    add_cell(text, section.columns[i].title, section.columns[i], widths[i], i + 1 == columns, Tone::plain, false);
  for (std::size_t at = 0; at < cells.size(); ++at) {
    const std::size_t i = at % columns;
    const Column& column = section.columns[i];
    if (i == 0) text += '\n';
    const Tone tone = column.tone != nullptr ? column.tone(cells[at]) : Tone::plain;
    add_cell(text, std::move(cells[at]), column, widths[i], i + 1 == columns, tone, colour);
  }
  return text + "\n";
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
  for (const Remark& remark : view.remarks) text += coloured(one_line(remark.text), remark.tone, colour) + "\n";
  for (const Section& section : view.sections) {
    const std::string part = section_text(section, section.of_document ? view.document : section.rows, colour);
    if (!text.empty() && !part.empty()) text += "\n";
    text += part;
  }
  return text;
}

std::string as_json(const View& view, bool compact) {
  // Names that are no UTF-8 (interfaces may have any octets) are shown with replacement characters.
  return view.document.dump(compact ? -1 : 2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace poduplink::ctl
