// SPDX-License-Identifier: Apache-2.0
#include "loader/base/file.h"
#include "loader/config.h"
#include "loader/ctl/commands.h"

namespace poduplink::ctl {

Result<View> check_config_view(const std::string& path) {
  PDL_TRY_ASSIGN(const std::string text, read_file(path));
  const CheckedConfig checked = check_config_text(text);
  View view;
  view.document = {{"file", path}, {"problems", checked.problems}};
  view.well = checked.problems.empty();
  for (const std::string& problem : checked.problems)
    view.remarks.push_back({Tone::bad, formatted("{}: {}", path, problem)});
  if (view.well) view.remarks.push_back({Tone::good, path + ": no mistakes"});
  return view;
}

}  // namespace poduplink::ctl
