// SPDX-License-Identifier: Apache-2.0
// Many at once: a hundred pods come and go while another process makes and removes interfaces, and GC runs beside an
// ADD.
#include <algorithm>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "loader/base/file.h"
#include "maps/record.h"
#include "tests/e2e/stand_in.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

// One verb for every pod, all started at once.
std::vector<PluginAnswer> all_at_once(StandIn& node, const std::string& verb, const std::vector<Pod>& pods) {
  std::vector<PluginAnswer> answers(pods.size());
  std::vector<std::thread> threads;
  threads.reserve(pods.size());
  for (std::size_t i = 0; i < pods.size(); ++i) {
    threads.emplace_back([&, i] {
      if (auto answer = node->call(verb, pods[i])) answers[i] = std::move(*answer);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const PluginAnswer& answer : answers) {
    INFO(verb << ": " << answer.text());
    CHECK(answer.ok());
  }
  return answers;
}

std::vector<Pod> make_pods(StandIn& node, const std::string& prefix, int count) {
  std::vector<Pod> pods;
  for (int i = 0; i < count; ++i) {
    // IDs that share a long beginning, as runtimes' do not, and three networks.
    PodOptions options;
    options.uplink = static_cast<unsigned>(1 + i % 3);
    pods.push_back(value_of(node.make_pod(formatted("{}{}", prefix, i), options)));
    pods.back().container_id = std::string(64, 'c') + formatted("-{}-{}", prefix, i);
  }
  return pods;
}

// Addresses, veths, entries and records of exactly these pods, nobody's twice.
void require_exactly(StandIn& node, const std::vector<Pod>& pods) {
  std::set<std::string> addresses;
  std::set<std::string> veths;
  for (const Pod& pod : pods) {
    veths.insert(pod.host_veth);
    for (const ResultAddress& ip : pod.result.ips) addresses.insert(ip.address);
  }
  CHECK(addresses.size() == 2 * pods.size());
  CHECK(veths.size() == pods.size());
  const auto entries = value_of(value_of(node->tables()).pods.entries());
  CHECK(entries.size() == addresses.size());
  for (const auto& [address, entry] : entries) {
    CHECK(addresses.contains(Prefix(address, address.bits()).text()));
    const unsigned uplink = address.octets()[address.is_v4() ? 1 : 3];
    CHECK(static_cast<int>(entry.home) == value_of(node.link_index(formatted("eth{}", uplink))));
  }
  const auto records = value_of(load_records(node->run_dir()));
  CHECK(records.size() == pods.size());
  CHECK(std::ranges::all_of(records, [](const Record& record) { return record.state == RecordState::ready; }));
}

}  // namespace

TEST_CASE("Q1 Q2 Q4 J6 C24 I13: a hundred pods come and go at once, beside a process that makes and removes veths") {
  StandIn node;
  constexpr int count = 100;
  std::vector<Pod> pods = make_pods(node, "p", count);
  const std::string churn = "while ip link add churn0 type veth peer name churn1 && ip link delete churn0; do :; done";
  Background other = value_of(
      Background::start({.argv = {"sh", "-c", churn}, .netns_fd = node->node().fd()}, node->folder() + "/churn.log"));
  const auto adopt = [](std::vector<Pod>& added, const std::vector<PluginAnswer>& answers) {
    for (std::size_t i = 0; i < added.size(); ++i) {
      if (!answers[i].result) continue;
      added[i].result = *answers[i].result;
      added[i].host_veth = added[i].result.interfaces.front().name;
    }
  };
  adopt(pods, all_at_once(node, "ADD", pods));
  require_exactly(node, pods);

  // Half of them go while as many others come.
  std::vector<Pod> leaving(pods.begin(), pods.begin() + count / 2);
  pods.erase(pods.begin(), pods.begin() + count / 2);
  std::vector<Pod> coming = make_pods(node, "q", count / 2);
  std::thread departure([&] { all_at_once(node, "DEL", leaving); });
  adopt(coming, all_at_once(node, "ADD", coming));
  departure.join();
  pods.insert(pods.end(), coming.begin(), coming.end());
  require_exactly(node, pods);
  all_at_once(node, "CHECK", pods);
  all_at_once(node, "DEL", pods);

  CHECK(other.running());
  value_of(other.signal(SIGTERM));
  other.wait(std::chrono::seconds(10));
  // Whichever of the two it was at.
  if (const auto gone = node->node().run_ok({"ip", "link", "delete", "churn0"}); !gone) UNSCOPED_INFO("it was gone");
  value_of(remove_file(node->folder() + "/churn.log"));
  REQUIRE_CLEAN(*node);
}

TEST_CASE("G10 G6: GC beside an ADD leaves it its address, in the IPAM plugin too") {
  StandIn node;
  // An IPAM plugin that has reserved the address and takes its time to say so.
  const std::string reserved = node->folder() + "/reserved";
  const std::string collected = node->folder() + "/collected";
  value_of(write_file_atomically(node->folder() + "/cni-bin/slow-ipam",
                                 "#!/bin/sh\nipam=" + program_folder() +
                                     "/poduplink-ipam\n[ $CNI_COMMAND = ADD ] || exec $ipam\nanswer=$($ipam)\n: >" +
                                     reserved + "\nfor i in $(seq 600); do [ -e " + collected +
                                     " ] && break; sleep 0.05; done\necho \"$answer\"\n",
                                 0755));
  PodOptions options;
  options.version = "1.1.0";
  options.patch = R"({"ipam":{"type":"slow-ipam"}})";
  options.network = "crowd";
  Pod pod = value_of(node.make_pod("p", options));
  const std::string empty = R"({"cni.dev/valid-attachments":[],"cni.dev/attachments":null})";
  const harness::Invocation gc{.verb = "GC", .if_name = "", .config = value_of(merged(pod.config, empty))};
  PluginAnswer added;
  std::thread adder([&] { added = value_of(node->call("ADD", pod)); });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!read_file(reserved) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const PluginAnswer answer = value_of(node->invoke(gc));
  value_of(write_file_atomically(collected, ""));
  adder.join();
  INFO(answer.text() << "\n" << added.text());
  CHECK(answer.ok());
  CHECK(added.ok());
  // CHECK asks the IPAM plugin whether the attachment holds its addresses.
  value_of(node->adopt(pod, added));
  const PluginAnswer checked = value_of(node->call("CHECK", pod));
  INFO(checked.text());
  CHECK(checked.ok());
  // The next GC finds it in no list and not busy.
  CHECK(value_of(node->invoke(gc)).ok());
  value_of(remove_file(reserved));
  value_of(remove_file(collected));
  REQUIRE_CLEAN(*node);
}
