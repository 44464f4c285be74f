// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/agent_probe.h"

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "loader/net/link.h"
#include "loader/net/netns.h"

namespace poduplink::harness {

using nlohmann::json;

namespace {

std::vector<std::string> agent_command(const Lab& lab, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {program_folder() + "/poduplinkd", "--pin-dir", lab.pin_dir(), "--run-dir",
                                   lab.run_dir()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

}  // namespace

Outcome run_agent_to_end(const Lab& lab, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& before) {
  std::vector<std::string> argv = before;
  const std::vector<std::string> own = agent_command(lab, arguments);
  argv.insert(argv.end(), own.begin(), own.end());
  return value_of(run({.argv = argv, .netns_fd = lab.node().fd(), .timeout = std::chrono::seconds(10)}));
}

void start_with(Agent& agent, const Lab& lab, const std::vector<std::string>& arguments) {
  const std::string config = lab.folder() + "/second.json";
  value_of(write_file_atomically(config, lab.default_agent_config()));
  std::vector<std::string> argv = agent_command(lab, {"--config", config});
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  value_of(agent.start({.argv = argv,
                        .netns_fd = lab.node().fd(),
                        .notify_path = lab.folder() + "/notify2",
                        .log_path = lab.folder() + "/agent2.log"}));
}

int index_of(const Lab& lab, const std::string& interface) {
  Netlink netlink = value_of(Netlink::open_in(lab.node().fd()));
  return value_of(find_link_by_name(netlink, interface)).index;
}

std::vector<std::string> programs_on(const Lab& lab, const std::string& interface, TcHook hook) {
  Netlink netlink = value_of(Netlink::open_in(lab.node().fd()));
  const int index = value_of(find_link_by_name(netlink, interface)).index;
  std::vector<std::string> names;
  if (bpf::have_tcx()) {
    const NetnsScope inside = value_of(NetnsScope::enter(lab.node().fd()));
    const auto tcx = hook == TcHook::ingress ? bpf::TcxHook::ingress : bpf::TcxHook::egress;
    for (const bpf::TcxProgram& one : value_of(bpf::tcx_programs(index, tcx)))
      names.push_back(value_of(bpf::program_info(value_of(bpf::program_by_id(one.program_id)).get())).name);
  }
  for (const TcFilter& filter : value_of(dump_filters(netlink, index, hook))) names.push_back(filter.name);
  return names;
}

json agent_state(const Lab& lab) {
  const auto text = read_file(agent_state_path(lab.run_dir()));
  if (!text) return nullptr;
  json state = json::parse(*text, nullptr, false);
  REQUIRE_FALSE(state.is_discarded());
  return state;
}

json state_of(const Lab& lab, const std::string& interface) {
  const json state = agent_state(lab);
  if (state.is_null()) return nullptr;
  for (const json& line : state.at("uplinks")) {
    if (line.at("name") == interface || line.at("configured") == interface) return line;
  }
  return nullptr;
}

Fd load_foreign_program(const std::string& name) {
  // r0 = -1 (go on with the next program); exit
  std::array<bpf_insn, 2> code{};
  code[0].code = BPF_ALU64 | BPF_MOV | BPF_K;
  code[0].imm = -1;
  code[1].code = BPF_JMP | BPF_EXIT;
  const std::string licence = "GPL";
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_SCHED_CLS;
  attributes.insns = reinterpret_cast<std::uintptr_t>(code.data());
  attributes.insn_cnt = code.size();
  attributes.license = reinterpret_cast<std::uintptr_t>(licence.c_str());
  std::ranges::copy(name, attributes.prog_name);
  Fd fd(static_cast<int>(::syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof(attributes))));
  REQUIRE(fd);
  return fd;
}

}  // namespace poduplink::harness
