// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "loader/ctl/commands.h"

namespace poduplink::ctl {

Result<View> exempt_view(const Settings& settings) {
  PDL_TRY_ASSIGN(const Tables tables, open_current_tables(settings.pin_dir));
  PDL_TRY_ASSIGN(auto entries, tables.exempt.entries());
  std::ranges::sort(entries, {}, [](const auto& entry) { return std::pair(entry.second, entry.first); });
  Section section{.columns = {{.title = "ITEM", .key = "item", .right = true}, {.title = "PREFIX", .key = "prefix"}},
                  .none = "no destination is exempt"};
  for (const auto& [prefix, item] : entries) section.rows.push_back({{"prefix", prefix.text()}, {"item", item}});
  View view;
  view.document = section.rows;
  view.sections.push_back(std::move(section));
  return view;
}

}  // namespace poduplink::ctl
