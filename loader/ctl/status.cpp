// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <set>

#include "loader/base/file.h"
#include "loader/ctl/commands.h"
#include "loader/ctl/status.h"
#include "loader/net/link.h"
#include "maps/agent_state.h"
#include "maps/paths.h"
#include "maps/podprog.h"

namespace poduplink::ctl {
namespace {

constexpr unsigned nearly_full = 90;  // per cent

unsigned per_cent(const Fill& fill) {
  return fill.size == 0 ? 0 : static_cast<unsigned>(fill.entries * 100 / fill.size);
}

void add(NodeStatus& status, std::string what, std::string means, std::string todo) {
  status.findings.push_back({Severity::problem, std::move(what), std::move(means), std::move(todo)});
}

void look_at_agent(const Settings& settings, NodeStatus& status) {
  const auto state = load_agent_state(settings.run_dir);
  if (!state)
    add(status, state.error().message, "nobody knows what the agent made of its configuration", "restart the agent");
  if (state) status.agent = *state;
  const auto runs = agent_runs(settings.run_dir);
  if (!runs) add(status, runs.error().message, "whether the agent runs cannot be seen", "run this as root on the node");
  status.agent_runs = runs && *runs;
  if (state && !status.agent) {
    add(status, formatted("no agent has run on this node: there is no {}", agent_state_path(settings.run_dir)),
        "pods cannot be added", "start poduplinkd, or name its folder with --run-dir");
    return;
  }
  if (!status.agent_runs)
    add(status, "the agent does not run", "pods keep their traffic, but nothing is followed or repaired",
        "start poduplinkd");
  if (!status.agent) return;
  for (const std::string& reason : status.agent->reasons)
    add(status, "agent not ready: " + reason, "pods are not added, or not steered, until this is mended",
        "mend it; the agent looks again by itself");
  for (const std::string& warning : status.agent->warnings)
    status.findings.push_back({Severity::warning, warning, {}, "docs/agent.md, Warnings"});
}

void look_at_hooks(Netlink& netlink, const std::map<std::uint32_t, pdl_uplink>& uplinks, NodeStatus& status) {
  const std::string means = "packets of pods may leave by the wrong interface here, or not reach them";
  const std::string todo = "the agent attaches it within 5 s where it runs: look for what takes it away";
  for (const auto& [index, uplink] : uplinks) {
    const auto link = find_link(netlink, static_cast<int>(index));
    if (!link) continue;  // missing: the agent says so
    for (const auto& [hook, program] :
         {std::pair(TcHook::ingress, "uplink_ingress"), std::pair(TcHook::egress, "uplink_egress")}) {
      const auto names = programs_on(netlink, link->index, hook);
      const auto ours = std::ranges::count(names, program);
      if (ours == 1) continue;
      add(status,
          ours == 0 ? formatted("{} is not attached to {}", program, link->name)
                    : formatted("{} is attached to {} {} times", program, link->name, ours),
          means, todo);
    }
  }
}

void look_at_uplinks(NodeStatus& status) {
  if (!status.agent) return;
  for (const UplinkReport& line : status.agent->uplinks) {
    if (line.role == "none" || line.state == "up") continue;
    const std::string& name = line.name.empty() ? line.configured : line.name;
    const bool home = line.role != "transit";
    add(status,
        formatted("{} {} is {}{}", home ? "uplink" : "transit interface", name, line.state,
                  line.reason.empty() ? "" : ": " + line.reason),
        home ? "its pods are cut off, or with whenDown \"stack\" leave by the host's own routing"
             : "what the host routes there is lost",
        home ? "bring the interface up, or correct 'uplinks' in the agent's configuration" : "bring the interface up");
  }
}

Result<> look_at_datapath(const Settings& settings, NodeStatus& status) {
  PDL_TRY_ASSIGN(const Tables tables, open_current_tables(settings.pin_dir));
  status.folder = tables.folder;
  PDL_TRY_ASSIGN(status.fills, fill_of_maps(tables));
  for (const Fill& fill : status.fills) {
    if (per_cent(fill) >= nearly_full)
      add(status, formatted("map {} is {} % full ({} of {})", fill.map, per_cent(fill), fill.entries, fill.size),
          "once it is full, pods or prefixes cannot be added",
          "raise mapSizes in the agent's configuration; it holds after --unload");
  }
  if (const auto program = find_pod_program(tables.folder); !program)
    add(status, program.error().message, "pods cannot be added", "restart the agent");
  PDL_TRY_ASSIGN(const auto uplinks, uplinks_by_index(tables));
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open());
  look_at_hooks(netlink, uplinks, status);
  return {};
}

// Without reading them: there may be thousands.
Result<std::size_t> count_records(const std::string& run_dir) {
  const auto names = list_directory(records_dir(run_dir));
  if (!names && names.error().code == ENOENT) return std::size_t{0};
  if (!names) return Failure(names.error());
  return static_cast<std::size_t>(
      std::ranges::count_if(*names, [](const std::string& name) { return is_record_name(name); }));
}

Json maps_json(const NodeStatus& status) {
  Json maps = Json::array();
  for (const Fill& fill : status.fills)
    maps.push_back({{"map", fill.map}, {"entries", fill.entries}, {"size", fill.size}, {"percent", per_cent(fill)}});
  return maps;
}

Json uplinks_json(const NodeStatus& status) {
  Json uplinks = Json::array();
  if (!status.agent) return uplinks;
  for (const UplinkReport& line : status.agent->uplinks) {
    if (line.role == "none") continue;
    uplinks.push_back({{"name", line.name.empty() ? line.configured : line.name},
                       {"ifindex", line.ifindex},
                       {"role", line.role},
                       {"state", line.state},
                       {"how", line.how},
                       {"reason", line.reason}});
  }
  return uplinks;
}

std::string agent_line(const NodeStatus& status) {
  if (!status.agent) return "agent: none has run here";
  std::string text =
      status.agent_runs ? formatted("agent: running (process {}), ", status.agent->pid) : "agent: not running, last ";
  text += status.agent->ready ? "ready" : "not ready";
  return text + ", version " + status.agent->version;
}

}  // namespace

std::vector<std::string> NodeStatus::all(Severity severity) const {
  std::vector<std::string> texts;
  for (const Finding& finding : findings) {
    if (finding.severity == severity) texts.push_back(finding.what);
  }
  return texts;
}

Result<NodeStatus> node_status(const Settings& settings) {
  NodeStatus status;
  look_at_agent(settings, status);
  look_at_uplinks(status);
  if (const auto looked = look_at_datapath(settings, status); !looked)
    add(status, looked.error().message, "no packet is steered that is not steered already, and pods cannot be added",
        "start the agent; it loads the datapath");
  PDL_TRY_ASSIGN(status.attachments, count_records(settings.run_dir));
  return status;
}

Result<View> status_view(const Settings& settings) {
  PDL_TRY_ASSIGN(const NodeStatus status, node_status(settings));
  const auto problems = status.all(Severity::problem);
  const auto warnings = status.all(Severity::warning);
  View view;
  view.well = problems.empty();
  for (const std::string& problem : problems) view.remarks.push_back({Tone::bad, "problem: " + problem});
  for (const std::string& warning : warnings) view.remarks.push_back({Tone::warning, "warning: " + warning});
  if (view.well) view.remarks.push_back({Tone::good, "no problems"});
  view.remarks.push_back({Tone::plain, agent_line(status)});
  view.remarks.push_back({Tone::plain, "datapath: " + (status.folder.empty() ? "none" : status.folder)});
  view.remarks.push_back({Tone::plain, formatted("attachments: {}", status.attachments)});
  Json agent{{"running", status.agent_runs}, {"ready", status.agent && status.agent->ready}};
  agent["pid"] = status.agent ? Json(status.agent->pid) : Json(nullptr);
  agent["version"] = status.agent ? Json(status.agent->version) : Json(nullptr);
  view.document = {{"problems", problems},
                   {"warnings", warnings},
                   {"agent", agent},
                   {"datapath", status.folder.empty() ? Json(nullptr) : Json(status.folder)},
                   {"attachments", status.attachments},
                   {"uplinks", uplinks_json(status)},
                   {"maps", maps_json(status)}};
  view.sections.push_back({.columns = {{.title = "UPLINK", .key = "name"},
                                       {.title = "INDEX", .key = "ifindex", .right = true},
                                       {.title = "ROLE", .key = "role"},
                                       {.title = "STATE", .key = "state", .tone = tone_of_state},
                                       {.title = "HOW", .key = "how"}},
                           .rows = view.document["uplinks"]});
  view.sections.push_back({.columns = {{.title = "MAP", .key = "map"},
                                       {.title = "ENTRIES", .key = "entries", .right = true},
                                       {.title = "SIZE", .key = "size", .right = true},
                                       {.title = "%", .key = "percent", .right = true}},
                           .rows = view.document["maps"]});
  return view;
}

}  // namespace poduplink::ctl
