// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "loader/ctl/commands.h"

namespace poduplink::ctl {
namespace {

constexpr __u64 pdl_verdicts::* counters[] = {
#define PDL_X(name, text) &pdl_verdicts::name,
    PDL_VERDICTS(PDL_X)
#undef PDL_X
};

}  // namespace

Result<View> stats_view(const Settings& settings, bool all, Rates& rates) {
  PDL_TRY_ASSIGN(const Tables tables, open_current_tables(settings.pin_dir));
  PDL_TRY_ASSIGN(Sample now, take_sample(tables));
  rates.next(std::move(now));
  Section section{.columns = {{.title = rates.known() ? "PACKETS/s" : "PACKETS", .key = "packets", .right = true},
                              {.title = "VERDICT", .key = "verdict"},
                              {.title = "PROGRAM", .key = "program"},
                              {.title = "MEANING", .key = "meaning"}},
                  .none = "nothing was counted"};
  View view;
  view.document = Json::array();
  for (unsigned verdict = 0; verdict < PDL_VERDICT_COUNT; ++verdict) {
    const std::uint64_t packets = rates.of(counters[verdict]);
    if (packets == 0 && !all) continue;
    const std::string name = verdict_name(verdict);
    view.document.push_back({{"verdict", name},
                             {"program", verdict_program(verdict)},
                             {rates.known() ? "packetsPerSecond" : "packets", packets},
                             {"meaning", verdict_text(verdict)}});
    Json row = view.document.back();
    row["packets"] = packets;
    section.rows.push_back(std::move(row));
  }
  view.sections.push_back(std::move(section));
  return view;
}

}  // namespace poduplink::ctl
