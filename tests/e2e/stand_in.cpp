// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/stand_in.h"

#include <bpf/libbpf.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "datapath.skel.h"
#include "loader/base/file.h"
#include "loader/net/link.h"
#include "loader/net/netns.h"
#include "maps/agent_state.h"
#include "maps/paths.h"

namespace poduplink::harness {
namespace {

using Json = nlohmann::json;

struct Destroy {
  void operator()(pdl_datapath* object) const { pdl_datapath::destroy(object); }
};

int be_quiet(libbpf_print_level /*level*/, const char* /*format*/, va_list /*arguments*/) { return 0; }

Result<> pin_object(bpf_object* object, const std::string& folder) {
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    if (bpf_map__is_internal(map)) continue;
    if (const int code = bpf_map__pin(map, map_pin(folder, bpf_map__name(map)).c_str()); code != 0) {
      return fail_errno(-code, "pinning map {}", bpf_map__name(map));
    }
  }
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    const std::string path = program_pin(folder, bpf_program__name(program));
    if (const int code = bpf_program__pin(program, path.c_str()); code != 0) return fail_errno(-code, "{}", path);
  }
  return {};
}

}  // namespace

StandIn::StandIn(StandInOptions options) : options_(std::move(options)) {
  lab_ = value_of(Lab::create(options_.lab));
  value_of(pin());
  for (const unsigned number : lab_->uplink_numbers()) value_of(manage(number));
  value_of(say());
}

Result<Pod> StandIn::make_pod(const std::string& name, const PodOptions& options) {
  PDL_TRY_ASSIGN(Pod pod, lab_->make_pod(name, options));
  spaces_.push_back(pod.space);
  return pod;
}

StandIn::~StandIn() {
  for (const auto& space : spaces_) {
    if (!space->valid()) continue;
    if (const auto gone = space->remove(); !gone) FAIL_CHECK(gone.error().message);
  }
  for (const std::string& line : lab_->leftovers()) FAIL_CHECK(line);
  if (const auto gone = unpin(); !gone) FAIL_CHECK(gone.error().message);
  for (const std::string& line : lab_->close()) FAIL_CHECK(line);
}

Result<> StandIn::pin() {
  libbpf_set_print(&be_quiet);
  const std::unique_ptr<pdl_datapath, Destroy> object(pdl_datapath::open());
  if (!object) return fail_errno(errno, "opening the datapath");
  if (options_.max_pods != 0) {
    bpf_map__set_max_entries(object->maps.pods4, options_.max_pods);
    bpf_map__set_max_entries(object->maps.pods6, options_.max_pods);
  }
  if (const int code = pdl_datapath::load(object.get()); code != 0) return fail_errno(-code, "loading the datapath");
  const std::string folder = version_dir(lab_->pin_dir(), PDL_ABI_VERSION);
  PDL_TRY(make_directories(folder + "/progs"));
  PDL_TRY(make_directories(folder + "/links"));
  PDL_TRY(pin_object(object->obj, folder));
  const std::string target = formatted("v{}", PDL_ABI_VERSION);
  if (::symlink(target.c_str(), current_link(lab_->pin_dir()).c_str()) != 0) return fail_errno(errno, "symlink");
  return {};
}

Result<> StandIn::unpin() {
  std::error_code error;
  std::filesystem::remove_all(lab_->pin_dir(), error);
  if (error) return fail("{}: {}", lab_->pin_dir(), error.message());
  return {};
}

Result<> StandIn::say(const std::vector<std::string>& reasons) {
  PDL_TRY(make_directories(lab_->run_dir()));
  return store_agent_state(lab_->run_dir(), {.ready = reasons.empty(), .reasons = reasons, .version = "stand-in"});
}

Result<int> StandIn::link_index(const std::string& link) const {
  PDL_TRY_ASSIGN(Netlink netlink, Netlink::open_in(lab_->node().fd()));
  PDL_TRY_ASSIGN(const Link found, find_link_by_name(netlink, link));
  return found.index;
}

Result<> StandIn::manage(unsigned number, pdl_role role) {
  const Uplink uplink = lab_->uplink(number);
  pdl_uplink entry{};
  std::strncpy(entry.name, uplink.name().c_str(), sizeof(entry.name) - 1);
  entry.mtu = uplink.mtu;
  set_mac(entry.mac, uplink.mac());
  entry.role = role;
  entry.state = PDL_STATE_UP;
  entry.when_down = PDL_WHEN_DOWN_DROP;
  entry.flags = options_.flags;
  return set_uplink(uplink.name(), entry);
}

Result<> StandIn::set_uplink(const std::string& link, const pdl_uplink& entry) {
  PDL_TRY_ASSIGN(const int index, link_index(link));
  PDL_TRY_ASSIGN(const Tables tables, lab_->tables());
  return tables.uplinks.put(static_cast<std::uint32_t>(index), entry);
}

Result<pdl_uplink> StandIn::uplink_entry(const std::string& link) const {
  PDL_TRY_ASSIGN(const int index, link_index(link));
  PDL_TRY_ASSIGN(const Tables tables, lab_->tables());
  PDL_TRY_ASSIGN(const auto entry, tables.uplinks.find(static_cast<std::uint32_t>(index)));
  if (!entry) return fail("{} is not managed", link);
  return *entry;
}

std::vector<IpamCall> StandIn::calls() const {
  std::vector<IpamCall> calls;
  std::istringstream lines(read_file(calls_path()).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const Json call = Json::parse(line);
    calls.push_back({call["verb"], call["env"].value("CNI_CONTAINERID", ""), call["stdin"]});
  }
  return calls;
}

void StandIn::forget_calls() const { value_of(remove_file(calls_path())); }

std::string StandIn::verbs() const {
  std::string text;
  for (const IpamCall& call : calls()) text += (text.empty() ? "" : " ") + call.verb;
  return text;
}

}  // namespace poduplink::harness
