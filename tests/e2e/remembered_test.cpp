// SPDX-License-Identifier: Apache-2.0
// The programs remember flows that are direct (docs/datapath.md). Whoever changes what flows are judged by tells them
// so: the agent its configuration and the node's addresses, the plugin and the agent a pod that is new.
#include <csignal>
#include <functional>

#include "loader/base/file.h"
#include "tests/e2e/steps.h"
#include "tests/harness/conversation.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

// UDP packets of one flow, sent one by one.
class Flow {
 public:
  Flow(const Lab& lab, const Pod& pod, const Endpoint& to)
      : lab_(&lab),
        to_(to),
        talking_(value_of(Conversation::udp(*pod.space, {address_of(pod, to.address.family()), 4000}))) {}

  // Whether all of three more, answers of the other end's kernel aside, end so and none otherwise.
  [[nodiscard]] bool goes(__u64 pdl_verdicts::* wanted) const {
    const VerdictsSince verdicts(*lab_);
    for (int i = 0; i < 3; ++i) value_of(talking_.send_to(to_, "x"));
    // A slow machine has not seen them all when they are sent.
    pdl_verdicts all{};
    const bool came = eventually([&] {
      all = verdicts();
      return all.redirected + all.to_pod + all.stack_exempt + all.stack_node >= 3;
    });
    const __u64 others = all.redirected + all.to_pod + all.stack_exempt + all.stack_node - all.*wanted;
    if (!came || others != 0) UNSCOPED_INFO(verdicts.text());
    return came && others == 0;
  }

 private:
  const Lab* lab_;
  Endpoint to_;
  Conversation talking_;
};

std::uint32_t generation(const Lab& lab) { return value_of(value_of(lab.tables()).generation.number()); }

// Has something changed, and waits until the agent has told the programs.
void change(const Lab& lab, const std::function<void()>& what) {
  const std::uint32_t before = generation(lab);
  what();
  REQUIRE(eventually([&] { return generation(lab) != before; }));
}

}  // namespace

TEST_CASE("What the agent takes over holds for the next packet of a flow that is remembered") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pod pod = add_pod(*lab, "pod", {.uplink = 2});
  for (const Family family : families) {
    const IpAddress outside = Outside::address(family);
    INFO(outside.text());
    const Flow flow(*lab, pod, {outside, 9});
    CHECK(flow.goes(&pdl_verdicts::redirected));
    const auto configure = [&](const std::string& exempt) {
      value_of(write_file_atomically(
          lab->folder() + "/agent.json",
          formatted(R"({{"uplinks": [{{"name": "eth1"}}, {{"name": "eth2"}}], "exempt": [{}]}})", exempt)));
      value_of(lab->agent().kill(SIGHUP));
    };
    change(*lab, [&] { configure(formatted(R"("{}/{}")", outside.text(), family == Family::v4 ? 32 : 128)); });
    CHECK(flow.goes(&pdl_verdicts::stack_exempt));
    change(*lab, [&] { configure(""); });
    CHECK(flow.goes(&pdl_verdicts::redirected));
    // The node itself is given the address that the flow leads to.
    const std::string address = formatted("{}/{}", outside.text(), family == Family::v4 ? 32 : 128);
    change(*lab, [&] { value_of(lab->node().ip("address add " + address + " dev lo")); });
    CHECK(flow.goes(&pdl_verdicts::stack_node));
    change(*lab, [&] { value_of(lab->node().ip("address del " + address + " dev lo")); });
    CHECK(flow.goes(&pdl_verdicts::redirected));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A pod that is new is reached by flows that led out of the node before, with the agent or without it") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pod pod = add_pod(*lab, "pod", {.uplink = 2});
  for (const bool agent : {true, false}) {
    if (!agent) value_of(lab->agent().stop());
    const std::vector<IpAddress> addresses{lab->uplink(2).pod4(1, 77), lab->uplink(2).pod6(1, 0x77)};
    std::vector<Flow> flows;
    flows.reserve(addresses.size());
    for (const IpAddress& address : addresses) flows.emplace_back(*lab, pod, Endpoint{address, 9});
    // On-link: nobody answers for it, which the programs cannot know.
    for (const Flow& flow : flows) CHECK(flow.goes(&pdl_verdicts::redirected));
    add_pod(*lab, "new",
            {.uplink = 2,
             .patch = formatted(R"({{"runtimeConfig": {{"ips": ["{}", "{}"]}}}})", addresses[0].text(),
                                addresses[1].text())});
    for (const Flow& flow : flows) CHECK(flow.goes(&pdl_verdicts::to_pod));
    value_of(lab->del_pod("new"));
    for (const Flow& flow : flows) CHECK(flow.goes(&pdl_verdicts::redirected));
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("An entry that the agent makes again is reached as well") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Pod pod = add_pod(*lab, "pod", {.uplink = 2});
  const Pod other = add_pod(*lab, "other", {.uplink = 2});
  for (const Family family : families) {
    const IpAddress address = address_of(other, family);
    INFO(address.text());
    const Flow flow(*lab, pod, {address, 9});
    CHECK(flow.goes(&pdl_verdicts::to_pod));
    // Somebody takes the entry away, and until the agent has made it again the address is one outside.
    const Tables tables = value_of(lab->tables());
    change(*lab, [&] {
      value_of(tables.pods.erase(address));
      CHECK(flow.goes(&pdl_verdicts::redirected));
      value_of(lab->agent().kill(SIGHUP));
    });
    CHECK(flow.goes(&pdl_verdicts::to_pod));
  }
  REQUIRE_CLOSED(*lab);
}
