// SPDX-License-Identifier: Apache-2.0
// Views as text.
#pragma once

#include <string>

#include "loader/ctl/view.h"

namespace poduplink::ctl {

// Remarks, then tables with aligned columns. Texts come from files and other programs: their control characters are
// written out, so that nothing steers the terminal. `colour`: with ANSI colours, for terminals.
std::string as_table(const View& view, bool colour);

// The document, indented; `compact`: on one line, where it is one of a stream.
std::string as_json(const View& view, bool compact);

// What a cell shows of a value: "-" for null, "yes" and "no", the items of a list behind each other.
std::string cell_text(const Json& value);

}  // namespace poduplink::ctl
