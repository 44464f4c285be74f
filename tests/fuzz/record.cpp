// SPDX-License-Identifier: Apache-2.0
// The record of an attachment, as plugin and agent read it.
#include "maps/record.h"
#include "maps/json_text.h"
#include "tests/fuzz/check.h"

using namespace poduplink;
using namespace poduplink::fuzz;

void poduplink::fuzz::test(const std::string& text) {
  const auto own = JsonText::parse(text);
  const auto library = JsonText::parse_by_library(text);
  require(own.has_value() == library.has_value() && (!own || *own == *library), "read as the library reads it", text);
  const auto record = parse_record_text(text);
  if (!record) {
    require(!record.error().message.empty() && record.error().message.find('\n') == std::string::npos,
            "a reason of one line", record.error().message);
    return;
  }
  const std::string written = write_record_text(*record);
  const auto again = parse_record_text(written);
  require(again && *again == *record, "written and read it is the same", written);
  require(write_record_text(*again) == written, "written again it is the same", written);
}
