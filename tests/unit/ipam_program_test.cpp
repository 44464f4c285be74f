// SPDX-License-Identifier: Apache-2.0
// The built program, run as a container runtime runs it: environment, standard input, standard output, exit code.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include <nlohmann/json.hpp>

#include "cni/spec/versions.h"
#include "tests/harness/process.h"
#include "tests/unit/ipam_test_support.h"

using namespace poduplink;
using harness::Command;
using harness::Outcome;
using nlohmann::json;
using poduplink::tests::config_text;
using poduplink::tests::Folder;
using poduplink::tests::two_pools;

namespace {

using Variables = std::map<std::string, std::string>;

json document(const Outcome& outcome) { return json::parse(outcome.out); }

Variables variables(const std::string& command, const std::string& container = "c1") {
  return {{"CNI_COMMAND", command},         {"CNI_CONTAINERID", container}, {"CNI_IFNAME", "eth0"},
          {"CNI_NETNS", "/run/netns/none"}, {"CNI_PATH", "/nonexistent"},   {"CNI_ARGS", ""}};
}

Command command(const Variables& environment, const std::string& input) {
  Command command;
  command.argv = {PODUPLINK_IPAM};
  command.clean_environment = true;
  for (const auto& [name, value] : environment) command.environment.push_back(formatted("{}={}", name, value));
  command.input = input;
  return command;
}

Outcome run_command(const Command& command) {
  auto outcome = harness::run(command);
  if (!outcome) throw std::runtime_error(outcome.error().message);  // may be in a thread, where Catch2 has no place
  return std::move(*outcome);
}

Outcome run(const Variables& environment, const std::string& input) { return run_command(command(environment, input)); }

// With one of the standard streams missing altogether: redirection is "<&-" or ">&-".
Outcome run_without(const std::string& redirection, const Variables& environment, const std::string& input) {
  Command closed = command(environment, input);
  closed.argv = {"/bin/sh", "-c", "exec \"$0\" " + redirection, PODUPLINK_IPAM};
  return run_command(closed);
}

void check_error(const Outcome& outcome, unsigned code) {
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 1);
  const json error = document(outcome);
  CHECK(error["code"] == code);
  CHECK_FALSE(error["msg"].get<std::string>().empty());
  CHECK(is_supported_version(error["cniVersion"].get<std::string>()));
}

}  // namespace

TEST_CASE("without a verb the program says what it is, on standard error") {
  const Outcome outcome = run({}, "");
  CHECK(outcome.status == 0);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.find("poduplink-ipam") != std::string::npos);
  CHECK(outcome.err.find("0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0") != std::string::npos);
  Command version = command({}, "");
  version.argv.emplace_back("--version");
  CHECK(run_command(version).out.starts_with("poduplink-ipam "));
}

TEST_CASE("VERSION needs nothing and echoes what it knows") {
  for (const auto& [input, version] : std::map<std::string, std::string>{
           {"", "1.1.0"}, {R"({"cniVersion":"0.4.0"})", "0.4.0"}, {R"({"cniVersion":"7"})", "1.1.0"}, {"[", "1.1.0"}}) {
    const Outcome outcome = run({{"CNI_COMMAND", "VERSION"}}, input);
    CHECK(outcome.status == 0);
    CHECK(document(outcome)["cniVersion"] == version);
    CHECK(document(outcome)["supportedVersions"] == json{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"});
  }
  CHECK(run_without("<&-", {{"CNI_COMMAND", "VERSION"}}, "").status == 0);
  CHECK(run_without(">&-", {{"CNI_COMMAND", "VERSION"}}, "").status == 1);
}

TEST_CASE("errors of environment and configuration have their codes") {
  const Folder folder;
  const std::string good = config_text(folder.path(), two_pools);
  check_error(run({{"CNI_COMMAND", "add"}}, good), 4);
  const Outcome missing = run({{"CNI_COMMAND", "ADD"}, {"CNI_NETNS", ""}}, good);
  check_error(missing, 4);
  for (const char* name : {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"}) {
    CHECK(missing.out.find(name) != std::string::npos);
  }
  check_error(run(variables("ADD"), ""), 6);
  check_error(run(variables("ADD"), "{"), 6);
  check_error(run(variables("ADD"), std::string(100000, '[')), 6);
  check_error(run(variables("ADD"), std::string(std::size_t{10} << 20U, ' ')), 6);
  check_error(run(variables("ADD"), R"({"cniVersion":"1.0.0"})"), 7);
  check_error(run(variables("ADD"), R"({"cniVersion":"9.0.0","name":"net"})"), 1);
  check_error(run(variables("ADD"), config_text(folder.path(), "[]")), 7);
  check_error(run(variables("CHECK"), config_text(folder.path(), two_pools, "", "0.3.1")), 1);
  check_error(run(variables("GC"), config_text(folder.path(), two_pools, "", "1.0.0")), 1);
  check_error(run(variables("STATUS"), config_text(folder.path(), two_pools, "", "1.0.0")), 1);
  CHECK(folder.reservations().empty());
}

TEST_CASE("an error bears the configuration's version") {
  const Folder folder;
  const std::string text = config_text(folder.path(), "[]", "", "0.4.0");
  CHECK(document(run(variables("ADD"), text))["cniVersion"] == "0.4.0");
  CHECK(document(run({{"CNI_COMMAND", "ADD"}}, text))["cniVersion"] == "0.4.0");
}

TEST_CASE("ADD, CHECK and DEL of every version") {
  for (const std::string_view version : supported_versions) {
    INFO(version);
    const Folder folder;
    const std::string text = config_text(folder.path(), two_pools, "", std::string(version));
    const Outcome added = run(variables("ADD"), text);
    REQUIRE(added.status == 0);
    const json result = document(added);
    CHECK(result["cniVersion"] == std::string(version));
    CHECK(result["interfaces"][0]["name"] == "eth2");
    CHECK(result["ips"].size() == 2);
    CHECK(result["ips"][0]["interface"] == 0);
    CHECK(result["ips"][0]["gateway"] == "10.2.0.1");
    CHECK(result["ips"][0].contains("version") == !version_at_least(version, "1.0.0"));
    if (version_at_least(version, "0.4.0")) {
      const Outcome checked = run(variables("CHECK"), text);
      CHECK(checked.status == 0);
      CHECK(checked.out.empty());
    }
    check_error(run(variables("ADD"), text), cni_code::already_added);
    for (int i = 0; i < 2; ++i) {
      Variables environment = variables("DEL");
      environment["CNI_NETNS"] = "";
      const Outcome deleted = run(environment, text);
      CHECK(deleted.status == 0);
      CHECK(deleted.out.empty());
    }
    CHECK(folder.reservations().empty());
  }
}

TEST_CASE("STATUS and GC answer with empty output") {
  const Folder folder;
  REQUIRE(run(variables("ADD"), config_text(folder.path(), two_pools)).status == 0);
  const Outcome status = run({{"CNI_COMMAND", "STATUS"}}, config_text(folder.path(), two_pools));
  CHECK(status.status == 0);
  CHECK(status.out.empty());
  const std::string none = config_text(folder.path(), two_pools, R"(,"cni.dev/valid-attachments":null)");
  check_error(run({{"CNI_COMMAND", "GC"}}, none), 4);
  const Outcome collected = run({{"CNI_COMMAND", "GC"}, {"CNI_PATH", "/nonexistent"}}, none);
  CHECK(collected.status == 0);
  CHECK(collected.out.empty());
  CHECK(folder.reservations().empty());
}

TEST_CASE("a result that cannot be written releases its addresses") {
  const Folder folder;
  const Outcome outcome = run_without(">&-", variables("ADD"), config_text(folder.path(), two_pools));
  CHECK(outcome.status == 1);
  CHECK(outcome.err.find("standard output") != std::string::npos);
  CHECK(std::filesystem::exists(folder.path() + "/net/lock"));
  CHECK(folder.reservations().empty());
}

TEST_CASE("parallel ADDs get different addresses, and exactly as many as there are") {
  const Folder folder;
  const std::string text = config_text(folder.path(), two_pools);  // nine pairs
  std::vector<std::future<Outcome>> runs;
  runs.reserve(24);
  for (int i = 0; i < 24; ++i) {
    runs.push_back(
        std::async(std::launch::async, [&text, i] { return run(variables("ADD", "c" + std::to_string(i)), text); }));
  }
  std::set<std::string> addresses;
  int refused = 0;
  for (auto& one : runs) {
    const Outcome outcome = one.get();
    if (outcome.status != 0) {
      check_error(outcome, cni_code::no_address);
      ++refused;
      continue;
    }
    const json result = document(outcome);
    for (const json& ip : result["ips"]) CHECK(addresses.insert(ip["address"]).second);
  }
  CHECK(addresses.size() == 18);
  CHECK(refused == 15);
  CHECK(folder.reservations().size() == 18);
}

TEST_CASE("an ADD killed at any moment leaves nothing that DEL does not clear") {
  const Folder folder;
  const std::string text = config_text(folder.path(), two_pools);
  std::ofstream(folder.file("config")) << text;
  Command killed = command(variables("ADD"), "");  // a background program has no input of its own
  killed.argv = {"/bin/sh", "-c", R"(exec "$0" <"$1")", PODUPLINK_IPAM, folder.file("config")};
  const auto measured = run_command(killed).duration;
  REQUIRE(run(variables("DEL"), text).status == 0);
  // Delays from nothing to one and a half of a whole run, until some have ended on either side of the reservation.
  int before = 0;
  int behind = 0;
  for (int i = 0; (i < 150 || before == 0 || behind == 0) && i < 1500; ++i) {
    auto add = harness::Background::start(killed, folder.file("log"));
    REQUIRE(add);
    std::this_thread::sleep_for(measured * (i % 150) / 100);
    REQUIRE(add->signal(SIGKILL));
    REQUIRE(add->wait(std::chrono::seconds(10)));
    ++(folder.reservations().empty() ? before : behind);
    const Outcome deleted = run(variables("DEL"), text);
    INFO(deleted.out);
    REQUIRE(deleted.status == 0);
    REQUIRE(folder.reservations().empty());
  }
  CHECK(before > 0);
  CHECK(behind > 0);
}
