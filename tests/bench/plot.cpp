// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "loader/base/format.h"

namespace poduplink::bench {
namespace {

constexpr double width = 760;
constexpr double left = 90;
constexpr double right = 180;  // room for the names of lines
constexpr double top = 48;
constexpr double line_height = 300;
constexpr double bottom = 56;
constexpr double bar_step = 30;
constexpr double bar_left = 210;
constexpr double bar_right = 90;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

// "1.2k", "340k": short enough for an axis.
std::string short_number(double value) {
  if (value >= 1e6) return formatted("{:.3g}M", value / 1e6);
  if (value >= 1e3) return formatted("{:.3g}k", value / 1e3);
  return formatted("{:.3g}", value);
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& colour = "#374151") {
  return formatted("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", x, y, anchor, colour,
                   escaped(text));
}

std::string stroke(double x1, double y1, double x2, double y2, const std::string& colour, double thickness) {
  return formatted(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{}\"/>\n", x1, y1, x2,
      y2, colour, thickness);
}

// A white ground, so that it can be read on a dark page too.
std::string document(double height, const std::string& title, const std::string& body) {
  return formatted(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
             "{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
             "fill=\"#ffffff\"/>\n",
             width, height) +
         formatted("<text x=\"{:.0f}\" y=\"24\" text-anchor=\"middle\" font-size=\"15\" fill=\"#111827\">{}</text>\n",
                   width / 2, escaped(title)) +
         body + "</svg>\n";
}

// A logarithmic axis from one whole decade to another, or, where all lies within one, from value to value.
struct Axis {
  double least;
  double most;
  double from;  // in the picture
  double to;

  [[nodiscard]] double at(double value) const {
    const double part = most > least ? std::log(value / least) / std::log(most / least) : 0.5;
    return std::lerp(from, to, part);
  }
};

double decade_below(double value) { return std::pow(10, std::floor(std::log10(value))); }
double decade_above(double value) { return std::pow(10, std::ceil(std::log10(value))); }

std::string grid(const Axis& y, double plot_right) {
  std::string body;
  const auto decades = static_cast<int>(std::lround(std::log10(y.most / y.least)));
  for (int number = 0; number <= decades; ++number) {
    const double decade = y.least * std::pow(10, number);
    body += stroke(left, y.at(decade), plot_right, y.at(decade), "#d1d5db", 1);
    body += text_at(left - 8, y.at(decade) + 4, "end", short_number(decade));
    for (const double part : {2.0, 5.0}) {
      if (decade * part > y.most) continue;
      body += stroke(left, y.at(decade * part), plot_right, y.at(decade * part), "#f3f4f6", 1);
      body += text_at(left - 8, y.at(decade * part) + 4, "end", short_number(decade * part), "#9ca3af");
    }
  }
  return body;
}

std::string drawn(const Line& line, const Axis& x, const Axis& y) {
  const std::string colour = colour_of(line.name);
  std::string path;
  std::string body;
  for (const Point& point : line.points) {
    if (point.y.median <= 0) continue;
    const double px = x.at(point.x);
    const double py = y.at(point.y.median);
    path += formatted("{:.1f},{:.1f} ", px, py);
    body += stroke(px, y.at(point.y.low), px, y.at(point.y.high), colour, 4);
    body += formatted("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", px, py, colour);
  }
  return formatted("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path, colour) + body;
}

// Names at the right ends, from above to below, none over another.
std::string names(const std::vector<Line>& lines, const Axis& x, const Axis& y) {
  std::vector<std::pair<double, std::string>> places;
  for (const Line& line : lines) {
    if (!line.points.empty() && line.points.back().y.median > 0)
      places.emplace_back(y.at(line.points.back().y.median), line.name);
  }
  std::ranges::sort(places);
  std::string body;
  double free = 0;
  for (const auto& [wanted, name] : places) {
    const double place = std::max(wanted + 4, free);
    body += text_at(x.to + 14, place, "start", name, colour_of(name));
    free = place + 15;
  }
  return body;
}

}  // namespace

void Range::take(double value) {
  if (value <= 0) return;
  least = least == 0 ? value : std::min(least, value);
  most = std::max(most, value);
}

std::string colour_of(const std::string& variant) {
  static constexpr std::array<std::pair<const char*, const char*>, 8> colours{{{"poduplink", "#2563eb"},
                                                                               {"poduplink netfilter", "#7c3aed"},
                                                                               {"policy routing", "#dc2626"},
                                                                               {"host", "#111827"},
                                                                               {"redirect alone", "#6b7280"},
                                                                               {"ptp", "#d97706"},
                                                                               {"macvlan", "#059669"},
                                                                               {"bridge", "#be185d"}}};
  const auto* const found = std::ranges::find_if(colours, [&](const auto& one) { return one.first == variant; });
  return found == colours.end() ? "#6b7280" : found->second;
}

std::string line_plot(const std::string& title, const std::string& x_title, const std::vector<Line>& lines) {
  Range xs;
  Range ys;
  std::vector<double> ticks;
  for (const Line& line : lines) {
    for (const Point& point : line.points) {
      xs.take(point.x);
      ticks.push_back(point.x);
      ys.take(point.y.low);
      ys.take(point.y.high);
    }
  }
  if (ys.most == 0) return document(top + bottom, title, "");
  const double plot_right = width - right;
  const Axis x{.least = xs.least, .most = xs.most, .from = left + 10, .to = plot_right - 10};
  const Axis y{.least = decade_below(ys.least), .most = decade_above(ys.most), .from = top + line_height, .to = top};
  std::string body = grid(y, plot_right);
  std::ranges::sort(ticks);
  const auto repeated = std::ranges::unique(ticks);
  ticks.erase(repeated.begin(), repeated.end());
  for (const double tick : ticks) {
    body += stroke(x.at(tick), y.from, x.at(tick), y.from + 5, "#6b7280", 1);
    body += text_at(x.at(tick), y.from + 19, "middle", formatted("{:.0f}", tick));
  }
  body += text_at((left + plot_right) / 2, y.from + 42, "middle", x_title);
  for (const Line& line : lines) body += drawn(line, x, y);
  return document(top + line_height + bottom, title, body + names(lines, x, y));
}

std::string bar_plot(const std::string& title, const std::vector<Bar>& bars) {
  double most = 0;
  for (const Bar& bar : bars) most = std::max({most, bar.value.median, bar.value.high});
  const double scale = most > 0 ? (width - bar_left - bar_right) / most : 0;
  std::string body;
  double y = top;
  for (const Bar& bar : bars) {
    const std::string colour = colour_of(bar.name.substr(0, bar.name.find(',')));
    const double middle = y + (bar_step - 10) / 2;
    body += text_at(bar_left - 10, middle + 4, "end", bar.name);
    body += formatted(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" fill-opacity=\"0.85\"/>\n",
        bar_left, y, bar.value.median * scale, bar_step - 10, colour);
    body += stroke(bar_left + bar.value.low * scale, middle, bar_left + bar.value.high * scale, middle, "#111827", 2);
    body += text_at(bar_left + std::max(bar.value.median, bar.value.high) * scale + 8, middle + 4, "start",
                    short_number(bar.value.median));
    y += bar_step;
  }
  return document(y + 16, title, body);
}

}  // namespace poduplink::bench
