// SPDX-License-Identifier: Apache-2.0
// What the tests of poduplink-ipam share.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "cni/spec/entry.h"
#include "tests/harness/temporary_folder.h"

namespace poduplink::tests {

class Folder : public TemporaryFolder {
 public:
  // Names of a sub-folder's reservations and drafts: all but the lock, the hints and the index.
  [[nodiscard]] std::vector<std::string> reservations(const std::string& network = "net") const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(file(network))) return names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(file(network))) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && name != "lock" && name != ".index" && !name.starts_with(".last-"))
        names.push_back(name);
    }
    return names;
  }
};

inline const std::string two_pools =
    R"([{"uplink":"eth1","ranges":["10.1.0.10-10.1.0.13","fd00:1::/112"],"prefix":24,"gateway":"10.1.0.1"},
        {"uplink":"eth2","ranges":["10.2.0.10-10.2.0.14","fd00:2::/112"],"prefix":24,"gateway":"10.2.0.1"}])";

// A configuration with these pools and further top-level keys (",\"key\":value").
inline std::string config_text(const std::string& data_dir, const std::string& pools, const std::string& more = "",
                               const std::string& version = "1.1.0", const std::string& network = "net") {
  return R"({"cniVersion":")" + version + R"(","name":")" + network +
         R"(","type":"poduplink","ipam":{"type":"poduplink-ipam","dataDir":")" + data_dir + R"(","pools":)" + pools +
         "}" + more + "}";
}

inline Invocation invocation(Verb verb, const std::string& text, const std::string& container = "c1",
                             const std::string& ifname = "eth0", const std::string& args = "") {
  auto config = NetworkConfig::parse(text);
  REQUIRE(config);
  Environment environment;
  environment.container_id = container;
  environment.ifname = ifname;
  environment.netns = "/run/netns/none";
  environment.args = args;
  return Invocation{verb, environment, std::move(*config)};
}

}  // namespace poduplink::tests
