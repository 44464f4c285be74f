// SPDX-License-Identifier: Apache-2.0
// stub-ipam: an IPAM plugin that does what its configuration says, for tests and the demo.
//   "ipam": {
//     "type": "stub-ipam",
//     "result": {…},            printed as it is for ADD; or "resultFile": a path
//     "azure": {"mac": "02:…", "ips": [{"address": "10.2.3.4/16", "gateway": "10.2.0.1"}]}
//                               instead: one interface with that MAC and an empty name, as Azure's IPAM prints
//     "dataDir": "/…",          ADD leaves a file <container>-<interface> there, DEL removes it
//     "calls": "/…",            a line of JSON is appended for each call: verb, env (CNI_*), stdin
//     "behave": {"ADD": "fail"} by verb: fail, hang, garbage, empty, silent, crash, noise, linger, slow
//   }
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "loader/base/fd.h"
#include "loader/base/file.h"

namespace {

using Json = nlohmann::json;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int error(const Json& config, unsigned code, const std::string& message) {
  std::cout << Json{{"cniVersion", config.value("cniVersion", "1.0.0")}, {"code", code}, {"msg", message}} << "\n";
  return 1;
}

poduplink::Result<> record_call(const std::string& path, const std::string& input) {
  Json environment = Json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (text.starts_with("CNI_") && equals != std::string::npos)
      environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  const Json line = {{"verb", variable("CNI_COMMAND")}, {"env", environment}, {"stdin", input}};
  // One write with O_APPEND: calls at the same time do not mix.
  PDL_TRY_ASSIGN(const poduplink::Fd file, poduplink::open_file(path, O_WRONLY | O_CREAT | O_APPEND, 0600));
  return poduplink::write_all(file.get(), line.dump() + "\n");
}

Json azure_result(const Json& config, const Json& azure) {
  return {{"cniVersion", config.value("cniVersion", "1.0.0")},
          {"interfaces", Json::array({Json{{"name", ""}, {"mac", azure.value("mac", "")}}})},
          {"ips", azure.value("ips", Json::array())},
          {"routes", azure.value("routes", Json::array())}};
}

// What the verb was told to do instead of its work; -1: go on.
int misbehave(const std::string& how, const Json& config) {
  if (how == "fail") return error(config, 111, "stub-ipam: told to fail");
  if (how == "garbage") std::cout << "this is no JSON\n";
  if (how == "garbage" || how == "empty") return 0;
  if (how == "silent") return 3;
  if (how == "crash") std::abort();
  if (how == "hang") {
    for (;;) pause();
  }
  if (how == "slow") sleep(1);
  if (how == "noise") std::cerr << std::string(1 << 20, 'n') << "\n";
  // A child that keeps our outputs open for longer than the plugin may wait for it.
  if (how == "linger" && fork() == 0) {
    sleep(20);
    _exit(0);
  }
  return -1;
}

int add(const Json& config, const Json& ipam, const std::string& reservation) {
  Json result = ipam.value("result", Json());
  if (ipam.contains("azure")) result = azure_result(config, ipam["azure"]);
  if (ipam.contains("resultFile")) {
    const auto text = poduplink::read_file(ipam["resultFile"].get<std::string>());
    if (!text) return error(config, 100, text.error().message);
    result = Json::parse(*text, nullptr, false);
  }
  if (!reservation.empty()) {
    // Empty, so that there is never half of one, nor a temporary file of one that was killed.
    if (const auto made = poduplink::open_file(reservation, O_WRONLY | O_CREAT, 0600); !made)
      return error(config, 5, made.error().message);
  }
  std::cout << result << "\n";
  return 0;
}

int serve(const std::string& input) {
  const Json config = Json::parse(input);
  const Json ipam = config.value("ipam", Json::object());
  const std::string verb = variable("CNI_COMMAND");
  const std::string folder = ipam.value("dataDir", "");
  poduplink::Result<> ready;
  if (!folder.empty()) ready = poduplink::make_directories(folder);
  if (ready && ipam.contains("calls")) ready = record_call(ipam["calls"].get<std::string>(), input);
  if (!ready) return error(config, 5, ready.error().message);
  if (const int code = misbehave(ipam.value("behave", Json::object()).value(verb, ""), config); code >= 0) return code;
  const std::string reservation =
      folder.empty() ? "" : folder + "/" + variable("CNI_CONTAINERID") + "-" + variable("CNI_IFNAME");
  if (verb == "ADD") return add(config, ipam, reservation);
  if (verb == "DEL" && !reservation.empty()) {
    if (const auto removed = poduplink::remove_file(reservation); !removed)
      return error(config, 5, removed.error().message);
  }
  if (verb == "VERSION")
    std::cout << Json{{"cniVersion", "1.1.0"}, {"supportedVersions", {"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}}}
              << "\n";
  return 0;
}

}  // namespace

int main() {
  const std::string input{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  try {
    return serve(input);
  } catch (const std::exception& problem) {
    std::cout << Json{{"cniVersion", "1.0.0"}, {"code", 6}, {"msg", std::string("stub-ipam: ") + problem.what()}}
              << "\n";
    return 1;
  }
}
