// SPDX-License-Identifier: Apache-2.0
// What status finds, and what only a longer look shows: each with what it means and what to do.
#include <algorithm>
#include <cerrno>
#include <set>
#include <tuple>

#include "loader/base/file.h"
#include "loader/ctl/commands.h"
#include "loader/ctl/status.h"
#include "loader/net/link.h"
#include "loader/net/route.h"
#include "loader/snapshot.h"
#include "loader/warnings.h"
#include "maps/attachment.h"
#include "maps/paths.h"
#include "maps/podprog.h"

namespace poduplink::ctl {
namespace {

struct Patient {
  Settings settings;
  Tables tables;
  Snapshot snapshot;
  std::map<std::uint32_t, pdl_uplink> uplinks;
  std::vector<std::pair<IpAddress, pdl_pod>> pods;
  std::vector<Record> records;
};

class Findings {
 public:
  void problem(std::string what, std::string means, std::string todo) {
    all.push_back({Severity::problem, std::move(what), std::move(means), std::move(todo)});
  }
  void warning(std::string what, std::string means, std::string todo) {
    all.push_back({Severity::warning, std::move(what), std::move(means), std::move(todo)});
  }
  std::vector<Finding> all;
};

void look_at_rp_filter(const Patient& patient, Findings& findings) {
  for (const auto& [index, uplink] : patient.uplinks) {
    const auto value = patient.snapshot.rp_filter.find(static_cast<int>(index));
    if (value == patient.snapshot.rp_filter.end() || value->second != 1) continue;
    findings.problem(
        formatted("rp_filter of {} is strict (1)", uplink.name),
        "answers of connections that the host NATs for pods are dropped where they arrive there",
        formatted("sysctl -w net.ipv4.conf.{}.rp_filter=2, or 'manageRpFilter' in the agent's configuration",
                  uplink.name));
  }
}

// One line a gateway, however many pods have it.
void look_at_gateways(const Patient& patient, Findings& findings) {
  std::set<std::pair<std::uint32_t, IpAddress>> gateways;
  for (const auto& [address, pod] : patient.pods) {
    if (const auto gateway = pod_gateway(pod)) gateways.emplace(pod.home, *gateway);
  }
  for (const auto& [home, gateway] : gateways) {
    const Neighbour* neighbour = patient.snapshot.find_neighbour(static_cast<int>(home), gateway);
    if (neighbour == nullptr || !neighbour->has_failed()) continue;
    findings.problem(
        formatted("gateway {} does not answer on {}", gateway.text(), uplink_name(patient.uplinks, home)),
        "what pods send by it is lost",
        formatted("is it up, and is {} its address there? ip neighbour show dev {}; arping or ndisc6 from the node",
                  gateway.text(), uplink_name(patient.uplinks, home)));
  }
}

void look_at_mtus(const Patient& patient, Findings& findings) {
  std::set<std::tuple<unsigned, std::uint32_t, unsigned>> seen;
  for (const auto& [address, pod] : patient.pods) {
    const Link* veth = patient.snapshot.find(static_cast<int>(pod.veth));
    const auto home = patient.uplinks.find(pod.home);
    if (veth == nullptr || home == patient.uplinks.end() || veth->mtu <= home->second.mtu) continue;
    if (!seen.emplace(veth->mtu, pod.home, home->second.mtu).second) continue;
    findings.warning(
        formatted("pods with MTU {} are homed on {}, whose MTU is {} ({} for one)", veth->mtu, home->second.name,
                  home->second.mtu, address.text()),
        "they are told so by ICMP for each destination; a firewall in the pod that drops ICMP cuts them off",
        "add the pods anew: a pod gets the least MTU of its homes; or mend the uplink's MTU");
  }
}

bool is_ours(const std::string& program) {
  return program == "uplink_ingress" || program == "uplink_egress" || program == "pod_egress";
}

void look_at_foreign_programs(Netlink& netlink, const Patient& patient, Findings& findings) {
  for (const auto& [index, uplink] : patient.uplinks) {
    for (const TcHook hook : {TcHook::ingress, TcHook::egress}) {
      for (const std::string& name : programs_on(netlink, static_cast<int>(index), hook)) {
        if (is_ours(name)) continue;
        findings.warning(
            formatted("{} is attached to {} ({})", name, uplink.name, hook == TcHook::ingress ? "ingress" : "egress"),
            "nothing, where it lets packets go on (TC_ACT_UNSPEC, TC_ACT_PIPE); where it ends the chain, ours may not "
            "run",
            "know whose it is: bpftool net show");
      }
    }
  }
}

void look_at_pods(Netlink& netlink, const Patient& patient, Findings& findings) {
  std::map<std::uint64_t, const Record*> records;
  for (const Record& record : patient.records) records.emplace(attachment_hash(record.id), &record);
  std::set<std::uint64_t> looked_at;
  for (const auto& [address, pod] : patient.pods) {
    const Link* veth = patient.snapshot.find(static_cast<int>(pod.veth));
    if (veth == nullptr) {
      findings.warning(formatted("the entry of {} has no veth any more", address.text()),
                       "a pod that went without DEL; its address may still be reserved",
                       "the agent removes the entry; the runtime's GC, or a DEL of its container, frees the address");
      continue;
    }
    if (!records.contains(pod.owner))
      findings.warning(formatted("the entry of {} has no record", address.text()),
                       "it works, but CHECK and GC do not know it", "add the pod anew when that suits");
    if (!looked_at.insert(pod.owner).second) continue;
    const auto wrong = check_pod_program(netlink, patient.tables.folder, veth->name, veth->index, pod.mode);
    if (wrong && wrong->empty()) continue;
    findings.problem(formatted("{}: {}", veth->name, wrong ? *wrong : wrong.error().message),
                     formatted("packets of {} do not meet the program", address.text()),
                     "the agent attaches it within 5 s where it runs: look for what takes it away");
  }
}

void look_at_records(const Patient& patient, Findings& findings) {
  for (const Record& record : patient.records) {
    if (record.state == RecordState::adding || record.host_veth.empty()) continue;
    if (patient.snapshot.find(std::string_view(record.host_veth)) != nullptr) continue;
    findings.warning(formatted("container {} ({} in network {}) is recorded, and its veth {} is gone",
                               record.id.container_id, record.id.if_name, record.id.network, record.host_veth),
                     "the runtime never called DEL; its addresses stay reserved",
                     "the runtime's GC frees them, or a DEL with this container ID");
  }
}

void look_at_versions(const Patient& patient, Findings& findings) {
  const auto names = list_directory(patient.settings.pin_dir);
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    const std::string folder = patient.settings.pin_dir + "/" + name;
    if (name == "current" || folder == patient.tables.folder) continue;
    findings.warning(formatted("{} is left of another version", folder), "nothing, but for its memory",
                     "the agent removes it at its next start");
  }
}

void look_at_forwarding(Findings& findings) {
  for (const std::string& text : forwarding_warnings())
    findings.warning(text, "services, exempt destinations and pods in netfilter mode do not work in that family",
                     "sysctl -w net.ipv4.ip_forward=1, net.ipv6.conf.all.forwarding=1");
}

Result<Patient> examine(const Settings& settings, Netlink& netlink) {
  Patient patient;
  patient.settings = settings;
  PDL_TRY_ASSIGN(patient.tables, open_current_tables(settings.pin_dir));
  PDL_TRY_ASSIGN(patient.snapshot, take_snapshot(netlink));
  PDL_TRY_ASSIGN(patient.uplinks, uplinks_by_index(patient.tables));
  PDL_TRY_ASSIGN(patient.pods, patient.tables.pods.entries());
  PDL_TRY_ASSIGN(patient.records, load_records(settings.run_dir));
  return patient;
}

// The agent warns of some of these in the same words; each is told once.
void drop_repeated(std::vector<Finding>& findings) {
  std::vector<Finding> kept;
  for (Finding& finding : findings) {
    const bool same = std::ranges::any_of(kept, [&](const Finding& one) { return one.what == finding.what; });
    // The agent's words begin as ours do; ours say more.
    const bool told = finding.means.empty() && std::ranges::any_of(findings, [&](const Finding& one) {
                        return !one.means.empty() && finding.what.starts_with(one.what);
                      });
    if (!same && !told) kept.push_back(finding);
  }
  findings = std::move(kept);
}

void add_findings(View& view, const std::vector<Finding>& findings, Severity severity) {
  const std::string name = severity == Severity::problem ? "problem" : "warning";
  for (const Finding& finding : findings) {
    if (finding.severity != severity) continue;
    view.document.push_back(
        {{"severity", name}, {"finding", finding.what}, {"means", finding.means}, {"todo", finding.todo}});
    view.remarks.push_back({severity == Severity::problem ? Tone::bad : Tone::warning, name + ": " + finding.what});
    if (!finding.means.empty()) view.remarks.push_back({Tone::plain, "    means: " + finding.means});
    if (!finding.todo.empty()) view.remarks.push_back({Tone::plain, "    to do: " + finding.todo});
    view.well = view.well && severity != Severity::problem;
  }
}

}  // namespace

Result<View> doctor_view(const Settings& settings) {
  PDL_TRY_ASSIGN(NodeStatus status, node_status(settings));
  Findings findings{.all = std::move(status.findings)};
  look_at_forwarding(findings);
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open());
  // Without a datapath there is nothing more to look at, and status has said so.
  if (const auto patient = examine(settings, netlink)) {
    look_at_rp_filter(*patient, findings);
    look_at_gateways(*patient, findings);
    look_at_mtus(*patient, findings);
    look_at_foreign_programs(netlink, *patient, findings);
    look_at_pods(netlink, *patient, findings);
    look_at_records(*patient, findings);
    look_at_versions(*patient, findings);
  }
  drop_repeated(findings.all);
  View view;
  view.document = Json::array();
  for (const Severity severity : {Severity::problem, Severity::warning}) add_findings(view, findings.all, severity);
  if (findings.all.empty()) view.remarks.push_back({Tone::good, "nothing was found"});
  return view;
}

}  // namespace poduplink::ctl
