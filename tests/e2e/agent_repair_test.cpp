// SPDX-License-Identifier: Apache-2.0
// What somebody takes away, breaks or leaves behind while the agent runs is put right, without an event to tell of it
// and without a restart.
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "loader/net/netns.h"
#include "maps/attachment.h"
#include "maps/bpf.h"
#include "maps/podprog.h"
#include "maps/record.h"
#include "tests/e2e/agent_probe.h"
#include "tests/harness/outside.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;

namespace {

unsigned answers_to_hangup(const Lab& lab) {
  const std::string log = read_file(lab.folder() + "/agent.log").value_or("");
  unsigned count = 0;
  for (std::size_t at = 0; (at = log.find("the configuration is what it was", at)) != std::string::npos; ++at) ++count;
  return count;
}

// It comes to hold the links of pods that are new with its next look. SIGHUP makes it look at once; that it has done so
// shows when it answers the next one.
void let_the_agent_look(Lab& lab) {
  for (int turn = 0; turn < 2; ++turn) {
    const unsigned before = answers_to_hangup(lab);
    value_of(lab.agent().kill(SIGHUP));
    REQUIRE(in_time([&] { return answers_to_hangup(lab) > before; }));
  }
}

std::unique_ptr<Lab> lab_with_exempt() {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  value_of(lab->start_agent(
      value_of(merged(lab->default_agent_config(), R"({"exempt": ["10.96.0.0/12", "fd00:96::/112"]})"))));
  return lab;
}

std::string folder_of(const Lab& lab) { return value_of(lab.tables()).folder; }

// The id of the map or program behind a pin; 0 where there is none.
std::uint32_t pinned_id(const std::string& path) {
  const auto fd = bpf::open_pinned(path);
  if (!fd) return 0;
  if (const auto map = bpf::map_info(fd->get())) return map->id;
  if (const auto program = bpf::program_info(fd->get())) return program->id;
  const auto link = bpf::link_info(fd->get());
  return link ? link->id : 0;
}

// Every pin, by its path inside the version's folder.
std::map<std::string, std::uint32_t> pins_of(const std::string& folder) {
  std::map<std::string, std::uint32_t> pins;
  for (const char* part : {"", "/progs", "/links"}) {
    const auto names = list_directory(folder + part);
    for (const std::string& name : names ? *names : std::vector<std::string>()) {
      const std::string path = formatted("{}{}/{}", folder, part, name);
      if (name != "progs" && name != "links") pins[path] = pinned_id(path);
    }
  }
  return pins;
}

bool pod_program_is_on(const Lab& lab, const Pod& pod) {
  const auto names = programs_on(lab, pod.host_veth, TcHook::ingress);
  return names == std::vector<std::string>{"pod_egress"};
}

void leaves_by_home(Lab& lab, const Pod& pod, const Outside& outside) {
  for (const Family family : {Family::v4, Family::v6}) {
    INFO(pod.name << " to " << Outside::address(family).text() << "\n" << lab.agent().log());
    const IpAddress from = family == Family::v4 ? pod.v4.value() : pod.v6.value();
    value_of(ping(*pod.space, {.to = Outside::echo(family)}));
    CHECK_THAT(lines_of(outside.faults_from(from, lab.uplink(pod.uplink))), Equals(""));
  }
}

template <typename Value>
bool same(const Value& one, const Value& other) {
  return std::memcmp(&one, &other, sizeof(Value)) == 0;
}

}  // namespace

TEST_CASE("A deleted entry of any map is made again, and a changed one is put right") {
  auto lab = lab_with_exempt();
  const Pod pod = value_of(lab->add_pod("a", {.uplink = 2}));
  const Tables tables = value_of(lab->tables());
  const auto eth2 = static_cast<std::uint32_t>(index_of(*lab, "eth2"));
  const IpAddress own = lab->uplink(2).node4();
  const Prefix exempt = *Prefix::parse("10.96.0.0/12");
  const auto is_exempt = [&] {
    return std::ranges::any_of(value_of(tables.exempt.entries()), [&](const auto& one) { return one.first == exempt; });
  };
  for (const IpAddress& address : {pod.v4.value(), pod.v6.value()}) {
    INFO(address.text());
    const pdl_pod right = value_of(tables.pods.find(address)).value();
    const auto is_right = [&] {
      const auto now = value_of(tables.pods.find(address));
      return now && same(*now, right);
    };
    value_of(tables.pods.erase(address));
    CHECK(in_time(is_right));
    pdl_pod wrong = right;
    wrong.home = static_cast<std::uint32_t>(index_of(*lab, "eth1"));
    wrong.prefix_len = 8;
    value_of(tables.pods.put(address, wrong));
    CHECK(in_time(is_right));
  }
  const pdl_uplink uplink = value_of(tables.uplinks.find(eth2)).value();
  value_of(tables.uplinks.erase(eth2));
  value_of(tables.nodes.erase(own));
  value_of(tables.exempt.erase(exempt));
  value_of(tables.stats.remove_uplink(eth2));
  value_of(tables.nodes.put(*IpAddress::parse("203.0.113.9"), pdl_node{}));
  value_of(tables.uplinks.put(4711, uplink));
  CHECK(in_time([&] {
    const auto now = value_of(tables.uplinks.find(eth2));
    return now && same(*now, uplink) && value_of(tables.nodes.find(own)) && is_exempt() &&
           !value_of(tables.nodes.find(*IpAddress::parse("203.0.113.9"))) && !value_of(tables.uplinks.find(4711));
  }));
  CHECK(in_time([&] { return value_of(tables.stats.uplinks()).size() == 2; }));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A removed pin of any kind is made again and leads to the same object") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod fast = value_of(lab->add_pod("fast", {.uplink = 2}));
  const Pod filtered = value_of(lab->add_pod("filtered", {.uplink = 2, .mode = "netfilter"}));
  const std::string folder = folder_of(*lab);
  const auto before = pins_of(folder);
  let_the_agent_look(*lab);
  for (const char* kind : {"", "/progs", "/links"}) {
    INFO("pins in " << folder << kind);
    unsigned removed = 0;
    for (const auto& [path, id] : before) {
      if (path.substr(0, path.rfind('/')) != folder + kind) continue;
      value_of(remove_file(path));
      ++removed;
    }
    CHECK((removed != 0 || std::string(kind) == "/links"));  // without tcx there are none
    CHECK(in_time([&] { return pins_of(folder) == before; }));
  }
  // One alone, too.
  value_of(remove_file(before.begin()->first));
  CHECK(in_time([&] { return pins_of(folder) == before; }));
  const std::string current = current_link(lab->pin_dir());
  value_of(remove_file(current));
  CHECK(in_time([&] { return current_abi(lab->pin_dir()).has_value(); }));
  CHECK(pins_of(folder) == before);
  for (const Pod* pod : {&fast, &filtered}) leaves_by_home(*lab, *pod, outside);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("bpffs is unmounted and mounted again: pods do not notice, and every pin comes back") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod fast = value_of(lab->add_pod("fast", {.uplink = 2}));
  const Pod filtered = value_of(lab->add_pod("filtered", {.uplink = 2, .mode = "netfilter"}));
  const std::string mount = lab->folder() + "/bpf";
  const std::string folder = folder_of(*lab);
  const auto before = pins_of(folder);
  let_the_agent_look(*lab);

  value_of(run_ok({.argv = {"umount", mount}}));
  CHECK(in_time([&] { return !agent_state(*lab)["ready"].get<bool>(); }));
  CHECK_THAT(agent_state(*lab)["reasons"].dump(), ContainsSubstring("bpffs"));
  for (const Pod* pod : {&fast, &filtered}) leaves_by_home(*lab, *pod, outside);

  value_of(run_ok({.argv = {"mount", "-t", "bpf", "bpf", mount}}));
  CHECK(in_time([&] { return agent_state(*lab)["ready"].get<bool>(); }));
  CHECK(pins_of(folder) == before);
  const Pod later = value_of(lab->add_pod("later", {.uplink = 1}));
  for (const Pod* pod : {&fast, &filtered, &later}) leaves_by_home(*lab, *pod, outside);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A program that is taken off a pod's veth or an uplink is put back, in both modes") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  const Pod fast = value_of(lab->add_pod("fast", {.uplink = 2}));
  const Pod filtered = value_of(lab->add_pod("filtered", {.uplink = 2, .mode = "netfilter"}));
  const auto tc = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "tc");
    value_of(lab->node().run_ok(arguments));
  };
  tc({"filter", "del", "dev", fast.host_veth, "ingress"});
  CHECK(in_time([&] { return pod_program_is_on(*lab, fast); }));
  tc({"qdisc", "del", "dev", fast.host_veth, "clsact"});
  CHECK(in_time([&] { return pod_program_is_on(*lab, fast); }));

  // By the link where the kernel has tcx, which no event tells of; else as above.
  const auto take_off = [&](const std::string& device, const std::string& hook, const std::string& pin) {
    if (bpf::have_tcx()) {
      value_of(run_ok({.argv = {"bpftool", "link", "detach", "pinned", link_pin(folder_of(*lab), pin)}}));
    } else {
      tc({"filter", "del", "dev", device, hook});
    }
  };
  const int uplink = index_of(*lab, "eth2");
  for (const auto& [device, hook, pin] :
       std::vector<std::array<std::string, 3>>{{filtered.host_veth, "ingress", filtered.host_veth},
                                               {"eth2", "ingress", formatted("if{}-ingress", uplink)},
                                               {"eth2", "egress", formatted("if{}-egress", uplink)}}) {
    INFO(device << " " << hook);
    take_off(device, hook, pin);
    CHECK(in_time([&] {
      return pod_program_is_on(*lab, filtered) &&
             programs_on(*lab, "eth2", TcHook::ingress) == std::vector<std::string>{"uplink_ingress"} &&
             programs_on(*lab, "eth2", TcHook::egress) == std::vector<std::string>{"uplink_egress"};
    }));
  }
  for (const Pod* pod : {&fast, &filtered}) leaves_by_home(*lab, *pod, outside);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("More pods in netfilter mode than the usual limit of descriptors are all held, and put back") {
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
  auto lab = value_of(Lab::create({.uplinks = 2}));
  const rlimit scarce{.rlim_cur = 48, .rlim_max = usual.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &scarce) == 0);
  const auto started = lab->start_agent();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
  value_of(started);
  constexpr unsigned many = 24;
  std::vector<Pod> pods;
  pods.reserve(many);
  for (unsigned i = 0; i < many; ++i)
    pods.push_back(value_of(lab->add_pod(formatted("p{}", i), {.uplink = 1 + i % 2, .mode = "netfilter"})));
  let_the_agent_look(*lab);
  const auto before = pins_of(folder_of(*lab));
  for (const Pod& pod : pods) {
    if (const std::string pin = link_pin(folder_of(*lab), pod.host_veth); before.contains(pin))
      value_of(remove_file(pin));
  }
  CHECK(in_time([&] { return pins_of(folder_of(*lab)) == before; }));
  CHECK(agent_state(*lab)["ready"].get<bool>());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D47: the entries of a pod whose veth went without DEL go, and its record stays for DEL and GC") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pod pod = value_of(lab->add_pod("a", {.uplink = 2}));
  const Tables tables = value_of(lab->tables());
  value_of(lab->node().ip("link del " + pod.host_veth));
  CHECK(in_time([&] { return value_of(tables.pods.entries()).empty(); }));
  CHECK(value_of(load_records(lab->run_dir())).size() == 1);
  value_of(lab->del_pod("a"));
  CHECK(value_of(load_records(lab->run_dir())).empty());
  REQUIRE_CLEAN(*lab);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("An entry that no record knows goes where its veth is gone, and stays where it lives") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pod pod = value_of(lab->add_pod("a", {.uplink = 2}));
  const Tables tables = value_of(lab->tables());
  pdl_pod stray = value_of(tables.pods.find(pod.v4.value())).value();
  stray.owner = 4711;
  stray.veth = 999999;
  const IpAddress address = *IpAddress::parse("10.2.99.99");
  value_of(tables.pods.put(address, stray));
  CHECK(in_time([&] { return !value_of(tables.pods.find(address)); }));

  const auto record = value_of(load_records(lab->run_dir())).at(0);
  value_of(remove_file(record_path(lab->run_dir(), attachment_hash(record.id))));
  value_of(tables.pods.put(address, stray));
  CHECK(in_time([&] { return !value_of(tables.pods.find(address)); }));
  CHECK(value_of(tables.pods.find(pod.v4.value())));
  value_of(store_record(lab->run_dir(), record));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D16: a changed configuration is taken over without a restart, by itself and at SIGHUP") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  const std::string plain = lab->default_agent_config();
  value_of(lab->start_agent(plain));
  const std::string path = lab->folder() + "/agent.json";
  const Tables tables = value_of(lab->tables());
  const auto exempt = [&] { return value_of(tables.exempt.entries()).size(); };
  const auto write = [&](const std::string& patch) {
    value_of(write_file_atomically(path, patch.empty() ? plain : value_of(merged(plain, patch))));
  };
  REQUIRE(read_file(path).has_value());

  write(R"({"exempt": ["10.96.0.0/12"]})");
  CHECK(in_time([&] { return exempt() == 1; }));
  write(R"({"exempt": ["10.96.0.0/12", "10.97.0.0/33"]})");
  value_of(lab->agent().kill(SIGHUP));
  CHECK(in_time([&] { return lab->agent().log().find("10.97.0.0/33") != std::string::npos; }));
  CHECK(in_time([&] { return agent_state(*lab)["warnings"].dump().find("10.97.0.0/33") != std::string::npos; }));
  CHECK(agent_state(*lab)["ready"].get<bool>());
  CHECK(exempt() == 1);
  write(R"({"exempt": ["10.96.0.0/12", "10.97.0.0/16", "fd00::/16"]})");
  value_of(lab->agent().kill(SIGHUP));
  CHECK(in_time([&] { return exempt() == 3 && agent_state(*lab)["warnings"].empty(); }));

  // An uplink less, and back.
  value_of(write_file_atomically(path, R"({"uplinks": [{"name": "eth1"}]})"));
  const auto eth2 = static_cast<std::uint32_t>(index_of(*lab, "eth2"));
  const auto role = [&] { return value_of(tables.uplinks.find(eth2)).value().role; };
  CHECK(in_time([&] { return role() == PDL_ROLE_TRANSIT; }));  // for its connected route
  write("");
  CHECK(in_time([&] { return role() == PDL_ROLE_HOME; }));
  // The file goes: the last word holds.
  value_of(remove_file(path));
  CHECK(in_time([&] { return lab->agent().log().find("is gone") != std::string::npos; }));
  CHECK(role() == PDL_ROLE_HOME);
  write("");
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("D31: steerNode is switched on and off while the agent runs") {
  auto lab = value_of(Lab::create({.uplinks = 2}));
  const std::string plain = R"({"uplinks": [{"name": "eth1"}, {"name": "eth2", "gateway4": "10.2.0.1"}]})";
  value_of(lab->start_agent(plain));
  const std::string path = lab->folder() + "/agent.json";
  const Outside outside = value_of(Outside::watch(*lab));
  const Tables tables = value_of(lab->tables());
  const auto steered = [&] { return value_of(tables.stats.verdicts()).late_node; };
  const auto speak = [&] {
    value_of(send_udp(lab->node(), {.to = Outside::echo(Family::v4), .from = lab->uplink(2).node4()}));
    return true;
  };
  speak();
  CHECK(steered() == 0);
  value_of(write_file_atomically(path, value_of(merged(plain, R"({"steerNode": true})"))));
  CHECK(in_time([&] { return speak() && steered() > 0; }));

  value_of(write_file_atomically(path, plain));
  CHECK(in_time([&] {
    const auto before = steered();
    return speak() && steered() == before;
  }));
  REQUIRE_CLOSED(*lab);
}
