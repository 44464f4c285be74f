// SPDX-License-Identifier: Apache-2.0
// A lab in which the datapath is pinned as the agent pins it, but no agent runs: the plugin works with pins and
// locks alone, and here a test has both to itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/harness/require.h"

namespace poduplink::harness {

struct StandInOptions {
  LabOptions lab = {};
  unsigned max_pods = 0;  // size of the pod maps; 0: as built
  // Of every uplink: PDL_UPLINK_*.
  unsigned char flags = PDL_UPLINK_ANSWER_NEIGHBOURS | PDL_UPLINK_ON_LINK;
};

// One call that the stub IPAM recorded.
struct IpamCall {
  std::string verb;
  std::string container_id;
  std::string input;
};

class StandIn {
 public:
  explicit StandIn(StandInOptions options = {});
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
  // Fails the running test where something was left behind.
  ~StandIn();

  Lab& operator*() { return *lab_; }
  Lab* operator->() { return lab_.get(); }

  // Lab::make_pod; its namespace goes with this object, if the test does not end it before.
  Result<Pod> make_pod(const std::string& name, const PodOptions& options);

  // Loads the object and pins it under the lab's pin directory.
  Result<> pin();
  // Takes all pins away.
  Result<> unpin();
  // Writes agent.json: ready, or why not.
  Result<> say(const std::vector<std::string>& reasons = {});
  // Writes the entry of an uplink of the lab.
  Result<> manage(unsigned number, pdl_role role = PDL_ROLE_HOME);
  Result<> set_uplink(const std::string& link, const pdl_uplink& entry);
  [[nodiscard]] Result<pdl_uplink> uplink_entry(const std::string& link) const;
  [[nodiscard]] Result<int> link_index(const std::string& link) const;

  // What the stub IPAM was called with since forget_calls().
  [[nodiscard]] std::vector<IpamCall> calls() const;
  void forget_calls() const;
  // "ADD DEL", for one look at the whole.
  [[nodiscard]] std::string verbs() const;

 private:
  [[nodiscard]] std::string calls_path() const { return lab_->ipam_dir("stub-ipam") + "/calls.jsonl"; }

  StandInOptions options_;
  std::unique_ptr<Lab> lab_;
  std::vector<std::shared_ptr<Namespace>> spaces_;
};

// A pod whose stub IPAM prints this result.
inline PodOptions stub_pod(std::string result, std::string patch = {}, std::string version = "1.0.0") {
  PodOptions options;
  options.ipam = Ipam::stub;
  options.stub_result = std::move(result);
  options.patch = std::move(patch);
  options.version = std::move(version);
  return options;
}

}  // namespace poduplink::harness
