// SPDX-License-Identifier: Apache-2.0
// The plugin beside the agent itself: pods of three IPAM plugins, and a node whose agent was killed.
#include <catch2/generators/catch_generators.hpp>
#include <thread>

#include "loader/base/file.h"
#include "tests/harness/capture.h"
#include "tests/harness/require.h"
#include "tests/harness/traffic.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

// An echo request of the pod leaves by its uplink and by no other, and comes back.
void require_leaves_by_its_own(Lab& lab, const Pod& pod, const IpAddress& outside) {
  std::map<unsigned, Capture> captures;
  for (const unsigned number : lab.uplink_numbers()) {
    captures.emplace(number, value_of(Capture::start(lab.gateway(number), "eth0")));
  }
  value_of(ping(*pod.space, {.to = {outside}}));
  const IpAddress source = outside.is_v4() ? pod.v4.value() : pod.v6.value();
  for (const auto& [number, capture] : captures) {
    INFO(pod.name << " at gateway " << number);
    const auto wanted = both(received_from(source), sent_to(outside));
    if (number == pod.uplink) {
      CHECK(capture.wait_for(wanted));
    } else {
      CHECK(capture.count(wanted) == 0);
    }
  }
}

}  // namespace

TEST_CASE("C12 C61 D47: pods of each IPAM plugin leave by their uplink, with the agent and after it was killed") {
  auto lab = lab_with_agent();
  const IpAddress outside = IpAddress::parse(outside4).value();
  const IpAddress outside_v6 = IpAddress::parse(outside6).value();
  const auto round = [&](const std::string& prefix) {
    unsigned uplink = 1;
    for (const Ipam kind : {Ipam::poduplink, Ipam::host_local, Ipam::stub}) {
      PodOptions options;
      options.ipam = kind;
      options.uplink = uplink++;
      const Pod pod = value_of(lab->add_pod(formatted("{}{}", prefix, uplink), options));
      CHECK(pod.uplink == options.uplink);
      value_of(lab->check_pod(pod.name));
      require_leaves_by_its_own(*lab, pod, outside);
      require_leaves_by_its_own(*lab, pod, outside_v6);
    }
  };
  round("before");
  value_of(lab->agent().kill_hard());
  round("after");
  for (const auto& [name, pod] : std::map(lab->pods())) value_of(lab->del_pod(name));
  REQUIRE_CLEAN(*lab);
  value_of(lab->start_agent());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE(
    "C13: what was deleted while the agent was down is gone when it starts, and who has the address by now stays") {
  auto lab = lab_with_agent({.uplinks = 2});
  PodOptions options;
  options.uplink = 2;
  options.patch = R"({"runtimeConfig":{"ips":["10.2.1.77","fd00:2::1:77"]}})";
  const IpAddress outside = IpAddress::parse(outside4).value();
  value_of(lab->add_pod("first", options));
  options.patch.clear();
  const Pod bystander = value_of(lab->add_pod("bystander", options));
  value_of(lab->agent().kill_hard());
  const pdl_pod before = value_of(lab->tables()).pods.find(*bystander.v4).value().value();
  value_of(lab->del_pod("first"));
  options.patch = R"({"runtimeConfig":{"ips":["10.2.1.77","fd00:2::1:77"]}})";
  const Pod second = value_of(lab->add_pod("second", options));
  const auto entry_of_second = [&] { return value_of(lab->tables()).pods.find(*second.v4).value().value(); };
  const pdl_pod made = entry_of_second();

  value_of(lab->start_agent());
  CHECK(value_of(value_of(lab->tables()).pods.entries()).size() == 4);
  CHECK(entry_of_second().owner == made.owner);
  CHECK(entry_of_second().veth == made.veth);
  CHECK(value_of(lab->tables()).pods.find(*bystander.v4).value().value().owner == before.owner);
  for (const Pod& pod : {second, bystander}) {
    value_of(lab->check_pod(pod.name));
    require_leaves_by_its_own(*lab, pod, outside);
  }
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("C66: an agent that stops, or unloads, takes nothing away that DEL and the next ADD need") {
  auto lab = lab_with_agent({.uplinks = 2});
  // As an installation has it: the plugins and the list beside the agent's own files.
  const std::string net_d = lab->folder() + "/net.d";
  value_of(make_directories(net_d));
  const auto list_all = [&] {
    std::string all;
    for (const std::string& folder : {net_d, lab->folder() + "/cni-bin"}) {
      for (const std::string& name : value_of(list_directory(folder))) all += formatted("{}/{}\n", folder, name);
    }
    return all;
  };
  PodOptions options;
  options.uplink = 2;
  value_of(write_file_atomically(net_d + "/10-pods.conflist", lab->pod_config(options)));
  constexpr std::size_t plugin_limit = std::size_t{256} << 20;  // under the sanitizers they are large
  for (const char* plugin : {"poduplink", "poduplink-ipam"})
    value_of(write_file_atomically(lab->folder() + "/cni-bin/" + plugin,
                                   value_of(read_file(program_folder() + "/" + plugin, plugin_limit)), 0755));
  const std::string before = list_all();
  value_of(lab->add_pod("first", options));
  value_of(lab->add_pod("second", options));
  value_of(lab->agent().stop());
  CHECK(list_all() == before);
  value_of(lab->del_pod("first"));
  value_of(lab->add_pod("third", options));
  value_of(lab->check_pod("third"));
  CHECK(value_of(lab->unload_agent()).ok());
  CHECK(list_all() == before);
  value_of(lab->del_pod("second"));
  value_of(lab->del_pod("third"));
  REQUIRE_CLEAN(*lab);
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Q1 C61: two pods added at the same moment leave each by its own uplink, time and again") {
  auto lab = lab_with_agent({.uplinks = 2});
  const IpAddress outside = IpAddress::parse(outside4).value();
  constexpr int rounds = 200;
  Capture first = value_of(Capture::start(lab->gateway(1), "eth0"));
  Capture second = value_of(Capture::start(lab->gateway(2), "eth0"));
  for (int i = 0; i < rounds; ++i) {
    INFO("round " << i);
    std::vector<Pod> pods;
    for (const unsigned uplink : {1U, 2U}) {
      PodOptions options;
      options.ipam = Ipam::stub;
      options.uplink = uplink;
      options.v6 = false;
      options.stub_result = formatted(
          R"({{"interfaces":[{{"name":"eth{0}"}}],"ips":[{{"address":"10.{0}.9.7/16","gateway":"10.{0}.0.1"}}]}})",
          uplink);
      pods.push_back(value_of(lab->make_pod(formatted("p{}", uplink), options)));
    }
    std::vector<PluginAnswer> answers(2);
    const auto both_at_once = [&](const char* verb) {
      std::thread other([&] { answers[1] = value_of(lab->call(verb, pods[1])); });
      answers[0] = value_of(lab->call(verb, pods[0]));
      other.join();
      for (const PluginAnswer& answer : answers) {
        INFO(answer.text());
        REQUIRE(answer.ok());
      }
    };
    both_at_once("ADD");
    first.clear();
    second.clear();
    for (const Pod& pod : pods) value_of(ping(*pod.space, {.to = {outside}}));
    const auto from = [](const char* address) { return received_from(IpAddress::parse(address).value()); };
    REQUIRE(first.wait_for(both(from("10.1.9.7"), sent_to(outside))));
    REQUIRE(second.wait_for(both(from("10.2.9.7"), sent_to(outside))));
    REQUIRE(first.count(from("10.2.9.7")) == 0);
    REQUIRE(second.count(from("10.1.9.7")) == 0);
    both_at_once("DEL");
    for (const Pod& pod : pods) value_of(pod.space->remove());
  }
  REQUIRE_CLOSED(*lab);
}
