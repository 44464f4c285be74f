// SPDX-License-Identifier: Apache-2.0
// The life of the agent: start, adoption, end, unloading, and what keeps it from starting.
#include <algorithm>
#include <atomic>
#include <cstring>

#include <nlohmann/json.hpp>

#include "loader/net/netns.h"
#include "maps/podprog.h"
#include "tests/e2e/agent_probe.h"
#include "tests/harness/traffic.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

using Names = std::vector<std::string>;

const Names only_ingress{"uplink_ingress"};
const Names only_egress{"uplink_egress"};

bool bears_ours_once(const Lab& lab, const std::string& interface) {
  return programs_on(lab, interface, TcHook::ingress) == only_ingress &&
         programs_on(lab, interface, TcHook::egress) == only_egress;
}

bool bears_nothing(const Lab& lab, const std::string& interface) {
  return programs_on(lab, interface, TcHook::ingress).empty() && programs_on(lab, interface, TcHook::egress).empty();
}

// Pod entries by address, as octets.
std::map<std::string, std::string> pod_entries(const Lab& lab) {
  std::map<std::string, std::string> entries;
  const Tables tables = value_of(lab.tables());
  for (const auto& [address, pod] : value_of(tables.pods.entries()))
    entries[address.text()] = std::string(reinterpret_cast<const char*>(&pod), sizeof(pod));
  return entries;
}

std::uint32_t pinned_program(const Lab& lab, const std::string& name) {
  const Fd fd = value_of(bpf::open_pinned(program_pin(version_dir(lab.pin_dir(), PDL_ABI_VERSION), name)));
  return value_of(bpf::program_info(fd.get())).id;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("The agent puts its programs on every uplink and on every device that carries routes, once each") {
  auto lab = lab_with_agent({.uplinks = 2, .unlisted_default = true});
  for (const char* interface : {"eth0", "eth1", "eth2"}) CHECK(bears_ours_once(*lab, interface));
  CHECK(state_of(*lab, "eth0").at("role") == "transit");
  CHECK(state_of(*lab, "eth1").at("role") == "home");
  CHECK(state_of(*lab, "eth1").at("state") == "up");
  CHECK(agent_state(*lab).at("ready") == true);
  CHECK(agent_state(*lab).at("pid") == lab->agent().pid());
  const Tables tables = value_of(lab->tables());
  const auto eth0 = value_of(tables.uplinks.find(static_cast<std::uint32_t>(index_of(*lab, "eth0"))));
  REQUIRE(eth0);
  CHECK(eth0->role == PDL_ROLE_TRANSIT);
  CHECK(value_of(tables.nodes.find(lab->uplink(2).node4())));
  CHECK(value_of(tables.nodes.find(lab->uplink(0).node6())));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE(
    "D44, D46: killed by -9 and started again, every entry stays, at every instant, and each hook has one program") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pod first = value_of(lab->add_pod("a", {.ipam = Ipam::stub, .uplink = 1}));
  value_of(lab->add_pod("b", {.ipam = Ipam::stub, .uplink = 2, .mode = "netfilter"}));
  const auto before = pod_entries(*lab);
  const std::uint32_t program = pinned_program(*lab, "pod_egress");
  REQUIRE(before.size() == 4);
  value_of(lab->agent().kill_hard());
  value_of(ping(*first.space, {.to = {*IpAddress::parse(outside4)}}));

  std::atomic<bool> stop = false;
  std::atomic<unsigned> looks = 0;
  std::atomic<unsigned> missing = 0;
  std::thread watcher([&] {
    const Tables tables = *lab->tables();
    while (!stop) {
      for (const char* name : {"a", "b"}) {
        const auto found = tables.pods.find(*lab->pod(name).v4);
        if (!found || !*found) ++missing;
      }
      ++looks;
    }
  });
  const auto restarted = lab->start_agent();
  stop = true;
  watcher.join();
  value_of(restarted);
  CHECK(looks > 100);
  CHECK(missing == 0);
  auto after = pod_entries(*lab);
  // The gateway's MAC is what the neighbour table says just now.
  for (auto* entries : {&after}) {
    for (auto& [address, octets] : *entries) {
      const std::size_t place = offsetof(pdl_pod, gateway_mac);
      octets.replace(place, 6, before.at(address).substr(place, 6));
    }
  }
  CHECK(after == before);
  CHECK(pinned_program(*lab, "pod_egress") != program);
  for (const char* interface : {"eth1", "eth2"}) CHECK(bears_ours_once(*lab, interface));
  CHECK(programs_on(*lab, first.host_veth, TcHook::ingress) == Names{"pod_egress"});
  CHECK(programs_on(*lab, lab->pod("b").host_veth, TcHook::ingress) == Names{"pod_egress"});
  Netlink netlink = value_of(Netlink::open_in(lab->node().fd()));
  for (const char* name : {"a", "b"}) {
    const std::string& veth = lab->pod(name).host_veth;
    const pdl_mode mode = std::string(name) == "a" ? PDL_MODE_FAST : PDL_MODE_NETFILTER;
    const std::string fault = value_of(
        check_pod_program(netlink, version_dir(lab->pin_dir(), PDL_ABI_VERSION), veth, index_of(*lab, veth), mode));
    INFO(fault);
    CHECK(fault.empty());
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A clean end leaves the datapath in place and says so") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pod pod = value_of(lab->add_pod("a", {.ipam = Ipam::stub, .uplink = 2}));
  value_of(lab->agent().stop());
  CHECK(contains(lab->agent().notifications(), "STOPPING=1"));
  CHECK(contains(lab->agent().log(), "the datapath stays in place"));
  CHECK(bears_ours_once(*lab, "eth2"));
  value_of(ping(*pod.space, {.to = {*IpAddress::parse(outside4)}}));
  value_of(lab->add_pod("b", {.ipam = Ipam::stub, .uplink = 1}));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("--unload takes everything away, also twice, and the next start rebuilds the entries from the records") {
  auto lab = lab_with_agent({.uplinks = 2, .unlisted_default = true});
  const Pod fast = value_of(lab->add_pod("a", {.ipam = Ipam::stub, .uplink = 1}));
  const Pod slow = value_of(lab->add_pod("b", {.ipam = Ipam::stub, .uplink = 2, .mode = "netfilter"}));
  const auto before = pod_entries(*lab);
  REQUIRE(before.size() == 4);
  value_of(lab->agent().stop());
  for (int turn = 0; turn < 2; ++turn) {
    const Outcome outcome = value_of(lab->unload_agent());
    INFO(outcome.text());
    REQUIRE(outcome.ok());
    CHECK_FALSE(list_directory(lab->pin_dir()));
    for (const std::string& interface : Names{"eth0", "eth1", "eth2", fast.host_veth, slow.host_veth})
      CHECK(bears_nothing(*lab, interface));
    CHECK(value_of(lab->node().run_ok({"tc", "qdisc", "show"})).find("clsact") == std::string::npos);
    CHECK(agent_state(*lab).is_null());
  }
  value_of(lab->start_agent());
  CHECK(pod_entries(*lab).size() == before.size());
  for (const auto& [address, octets] : pod_entries(*lab))
    CHECK(octets.substr(0, offsetof(pdl_pod, gateway_mac)) ==
          before.at(address).substr(0, offsetof(pdl_pod, gateway_mac)));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("--unload refuses while an agent runs, and so does a second agent") {
  auto lab = lab_with_agent({.uplinks = 1});
  for (const char* option : {"--unload", "--log-level=info"}) {
    const Outcome outcome = run_agent_to_end(*lab, {option, "--config", lab->folder() + "/agent.json"});
    CHECK(outcome.status == 1);
    CHECK(contains(outcome.err, formatted("another agent (process {})", lab->agent().pid())));
  }
  CHECK(bears_ours_once(*lab, "eth1"));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Entries that no record knows go at the start, the living pods' stay") {
  auto lab = lab_with_agent({.uplinks = 2});
  value_of(lab->add_pod("a", {.ipam = Ipam::stub, .uplink = 1}));
  value_of(lab->agent().stop());
  const Tables tables = value_of(lab->tables());
  pdl_pod stray = *value_of(tables.pods.find(*lab->pod("a").v4));
  stray.owner = 0x1234;
  value_of(tables.pods.put(lab->uplink(1).pod4(77, 1), stray));
  pdl_pod wrong = *value_of(tables.pods.find(*lab->pod("a").v6));
  wrong.home = 999;
  value_of(tables.pods.put(*lab->pod("a").v6, wrong));
  REQUIRE(value_of(tables.pods.erase(*lab->pod("a").v4)));
  value_of(lab->start_agent());
  CHECK_FALSE(value_of(tables.pods.find(lab->uplink(1).pod4(77, 1))));
  CHECK(value_of(tables.pods.find(*lab->pod("a").v4)));
  CHECK(value_of(tables.pods.find(*lab->pod("a").v6))->home == static_cast<std::uint32_t>(index_of(*lab, "eth1")));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("What keeps the agent from starting is named, and nothing is changed") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  const std::string config = lab->folder() + "/config.json";
  const auto refused = [&](const Outcome& outcome, const std::string& text) {
    INFO(outcome.text());
    CHECK(outcome.status == 1);
    CHECK(contains(outcome.err, text));
    CHECK_FALSE(list_directory(lab->pin_dir()));
    CHECK(bears_nothing(*lab, "eth1"));
  };
  value_of(write_file_atomically(config, R"({"uplinks": [{"name": "eth1", "gateway4": "10.2.0.999"}]})"));
  refused(run_agent_to_end(*lab, {"--config", config}), "uplinks[0].gateway4: '10.2.0.999' is no IPv4 address");
  refused(run_agent_to_end(*lab, {"--config", lab->folder() + "/absent"}), "/absent");
  value_of(write_file_atomically(config, lab->default_agent_config()));
  refused(run_agent_to_end(*lab, {"--config", config, "--pin-dir", lab->folder() + "/plain"}), "mount -t bpf bpf");
  refused(run_agent_to_end(*lab, {"--config", config}, {"setpriv", "--bounding-set=-net_admin"}), "CAP_NET_ADMIN");
  refused(run_agent_to_end(*lab, {"--nonsense"}), "nonsense");
  refused(run_agent_to_end(*lab, {"--log-level", "loud"}), "loud");
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A pin that is something else is named and left untouched") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  const std::string folder = version_dir(lab->pin_dir(), PDL_ABI_VERSION);
  const std::string config = lab->folder() + "/config.json";
  value_of(write_file_atomically(config, lab->default_agent_config()));
  value_of(make_directories(folder + "/progs"));
  const Fd foreign = load_foreign_program("foreign");
  for (const std::string& path : {folder + "/pods4", folder + "/progs/uplink_egress"}) {
    value_of(bpf::pin(foreign.get(), path));
    const Outcome outcome = run_agent_to_end(*lab, {"--config", config});
    INFO(outcome.text());
    CHECK(outcome.status == 1);
    CHECK(contains(outcome.err, path));
    CHECK(contains(outcome.err, "left untouched"));
    CHECK(value_of(bpf::program_info(value_of(bpf::open_pinned(path)).get())).name == "foreign");
    CHECK_FALSE(read_file(map_pin(folder, "uplinks")));
    CHECK(bears_nothing(*lab, "eth1"));
    const Outcome unloaded = value_of(lab->unload_agent());
    CHECK(unloaded.status == 1);
    CHECK(contains(unloaded.err, path));
    CHECK(value_of(bpf::open_pinned(path)));
    value_of(remove_file(path));
    value_of(make_directories(folder + "/progs"));
  }
  value_of(lab->start_agent());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Foreign tcx programs stay, and ours stand behind them on the way in and before them on the way out") {
  if (!bpf::have_tcx()) SKIP("the kernel has no tcx");
  auto lab = value_of(Lab::create({.uplinks = 1}));
  const Fd early = load_foreign_program("early");
  const Fd late = load_foreign_program("late");
  const int index = index_of(*lab, "eth1");
  const auto attach = [&](const Fd& program, bpf::TcxPlace in, bpf::TcxPlace out) {
    const NetnsScope inside = value_of(NetnsScope::enter(lab->node().fd()));
    std::vector<Fd> links;
    links.push_back(value_of(bpf::attach_tcx(program.get(), index, bpf::TcxHook::ingress, in)));
    links.push_back(value_of(bpf::attach_tcx(program.get(), index, bpf::TcxHook::egress, out)));
    return links;
  };
  auto first = attach(early, bpf::TcxPlace::tail, bpf::TcxPlace::head);
  value_of(lab->start_agent());
  CHECK(programs_on(*lab, "eth1", TcHook::ingress) == Names{"early", "uplink_ingress"});
  CHECK(programs_on(*lab, "eth1", TcHook::egress) == Names{"uplink_egress", "early"});
  // Another program pushes itself into our place; the next start takes it back.
  auto second = attach(late, bpf::TcxPlace::tail, bpf::TcxPlace::head);
  REQUIRE(programs_on(*lab, "eth1", TcHook::ingress) == Names{"early", "uplink_ingress", "late"});
  value_of(lab->agent().stop());
  value_of(lab->start_agent());
  CHECK(programs_on(*lab, "eth1", TcHook::ingress) == Names{"early", "late", "uplink_ingress"});
  CHECK(programs_on(*lab, "eth1", TcHook::egress) == Names{"uplink_egress", "late", "early"});
  value_of(lab->agent().stop());
  REQUIRE(value_of(lab->unload_agent()).ok());
  CHECK(programs_on(*lab, "eth1", TcHook::ingress) == Names{"early", "late"});
  CHECK(programs_on(*lab, "eth1", TcHook::egress) == Names{"late", "early"});
  first.clear();
  second.clear();
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("By clsact, ours stand behind a foreign filter whose priority the kernel chose") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  const Fd foreign = load_foreign_program("foreign");
  const std::string path = lab->folder() + "/bpf/foreign";
  value_of(bpf::pin(foreign.get(), path));
  value_of(lab->node().run_ok({"tc", "qdisc", "add", "dev", "eth1", "clsact"}));
  value_of(lab->node().run_ok(
      {"tc", "filter", "add", "dev", "eth1", "ingress", "bpf", "direct-action", "object-pinned", path}));
  REQUIRE(programs_on(*lab, "eth1", TcHook::ingress).size() == 1);
  value_of(lab->accept_changes({"eth1"}));
  Agent agent;
  start_with(agent, *lab, {"--force-clsact"});
  const Names names = programs_on(*lab, "eth1", TcHook::ingress);
  REQUIRE(names.size() == 2);
  CHECK(names.back() == "uplink_ingress");
  value_of(agent.stop());
  REQUIRE(value_of(lab->unload_agent()).ok());
  CHECK(programs_on(*lab, "eth1", TcHook::ingress).size() == 1);
  value_of(lab->node().run_ok({"tc", "qdisc", "del", "dev", "eth1", "clsact"}));
  value_of(lab->accept_changes({"eth1"}));
  value_of(remove_file(path));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("By clsact, foreign filters and a qdisc that is not ours stay, and ours have the same places") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  const Fd foreign = load_foreign_program("foreign");
  Netlink netlink = value_of(Netlink::open_in(lab->node().fd()));
  const int index = index_of(*lab, "eth1");
  value_of(ensure_clsact(netlink, index));
  for (const TcHook hook : {TcHook::ingress, TcHook::egress})
    value_of(set_bpf_filter(
        netlink,
        {.link = index, .hook = hook, .priority = 10, .handle = 1, .program_fd = foreign.get(), .name = "foreign"}));
  value_of(lab->accept_changes({"eth1"}));
  Agent agent;
  start_with(agent, *lab, {"--force-clsact"});
  CHECK(programs_on(*lab, "eth1", TcHook::ingress) == Names{"foreign", "uplink_ingress"});
  CHECK(programs_on(*lab, "eth1", TcHook::egress) == Names{"uplink_egress", "foreign"});
  CHECK(bears_ours_once(*lab, "eth2"));
  value_of(agent.kill_hard());
  start_with(agent, *lab, {"--force-clsact"});
  CHECK(programs_on(*lab, "eth1", TcHook::ingress) == Names{"foreign", "uplink_ingress"});
  CHECK(bears_ours_once(*lab, "eth2"));
  value_of(agent.stop());
  // Back to links: no packet meets two of ours.
  start_with(agent, *lab, {});
  CHECK(programs_on(*lab, "eth1", TcHook::ingress) ==
        (bpf::have_tcx() ? Names{"uplink_ingress", "foreign"} : Names{"foreign", "uplink_ingress"}));
  CHECK(bears_ours_once(*lab, "eth2"));
  value_of(agent.stop());
  REQUIRE(value_of(lab->unload_agent()).ok());
  CHECK(programs_on(*lab, "eth1", TcHook::ingress) == Names{"foreign"});
  CHECK(programs_on(*lab, "eth1", TcHook::egress) == Names{"foreign"});
  CHECK(value_of(ingress_qdisc(netlink, index)) == IngressQdisc::clsact);
  CHECK(value_of(ingress_qdisc(netlink, index_of(*lab, "eth2"))) == IngressQdisc::none);
  value_of(delete_clsact(netlink, index));
  value_of(lab->accept_changes({"eth1"}));
  REQUIRE_CLOSED(*lab);
}
