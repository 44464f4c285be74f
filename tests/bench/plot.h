// SPDX-License-Identifier: Apache-2.0
// Plots as SVG: lines over a logarithmic axis, and bars. Each point and bar bears its quartiles.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/series.h"

namespace poduplink::bench {

struct Point {
  double x = 0;  // bars: not used
  Summary y;
};

struct Line {
  std::string name;  // of a variant: it has the same colour in every plot
  std::vector<Point> points;
};

// The least and the most of what was taken; what is not positive is left out.
struct Range {
  double least = 0;
  double most = 0;
  void take(double value);
};

// Both axes logarithmic; y in the unit that the title names. Points without a positive median are left out.
std::string line_plot(const std::string& title, const std::string& x_title, const std::vector<Line>& lines);

struct Bar {
  std::string name;
  Summary value;
};

// Bars from zero, each with its median written beside it.
std::string bar_plot(const std::string& title, const std::vector<Bar>& bars);

// Which of the palette's colours a variant has: "#2563eb". Those that are not known share one.
std::string colour_of(const std::string& variant);

}  // namespace poduplink::bench
