// SPDX-License-Identifier: Apache-2.0
#include "cni/spec/config.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cni/spec/versions.h"
#include "loader/base/file.h"

namespace poduplink {
namespace {

// The second one is the name that early clients gave it by mistake; later ones send both.
constexpr std::array<const char*, 2> valid_attachments_keys{"cni.dev/valid-attachments", "cni.dev/attachments"};

// What comes from `fd` until its end or the deadline, whichever is first.
std::string read_for_a_while(int fd, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::string text;
  std::array<char, 16384> chunk{};
  while (text.size() < max_config_size) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd ready{fd, POLLIN, 0};
    const int polled = ::poll(&ready, 1, left > 0 ? static_cast<int>(left) : 0);
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) break;
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

CniResult<NetworkConfig> NetworkConfig::parse(std::string raw) {
  auto document = parse_json(raw);
  if (!document) return CniFailure(std::move(document.error()).within("network configuration"));
  if (!document->is_object()) return cni_fail(cni_code::undecodable, "network configuration is not a JSON object");
  NetworkConfig config(std::move(raw), std::move(*document));
  const Section root = config.root();

  auto version = root.text("cniVersion");
  if (!version) {
    version.error().code = cni_code::undecodable;
    return CniFailure(std::move(version.error()));
  }
  PDL_CNI_TRY_ASSIGN(const auto name, root.text("name"));
  if (!name || name->empty()) return cni_fail(cni_code::bad_config, "key 'name' is missing or empty");
  if (!is_valid_identifier(*name)) return root.fault("name", "has characters that are not allowed");
  if (!*version || !is_supported_version(**version)) {
    CniError error{cni_code::incompatible_version,
                   *version ? one_line(formatted("cniVersion \"{}\" is not supported", **version))
                            : "key 'cniVersion' is missing, which means a version before 0.3.0",
                   formatted("supported versions: {}", supported_versions_text())};
    return CniFailure(std::move(error));
  }
  config.cni_version_ = **version;
  config.name_ = *name;
  return config;
}

CniResult<std::string> read_config(int fd) {
  auto text = read_all(fd, max_config_size);
  if (!text) {
    const unsigned code = text.error().code == EFBIG ? cni_code::undecodable : cni_code::io_failure;
    return CniFailure(cni_error(code, std::move(text.error()).within("network configuration")));
  }
  return std::move(*text);
}

std::string cni_version_of(const std::string& raw) {
  const auto document = parse_json(raw);
  if (document && document->is_object()) {
    const auto version = document->root().text("cniVersion");
    if (version && *version && is_supported_version(**version)) return **version;
  }
  return std::string(newest_version);
}

std::string peek_cni_version(int fd) {
  if (::isatty(fd) == 1) return std::string(newest_version);
  return cni_version_of(read_for_a_while(fd, std::chrono::milliseconds(1000)));
}

CniResult<> check_verb_version(Verb verb, const std::string& cni_version) {
  std::string_view since = "0.3.0";
  if (verb == Verb::check) since = "0.4.0";
  if (verb == Verb::gc || verb == Verb::status) since = "1.1.0";
  if (version_at_least(cni_version, since)) return {};
  return cni_fail(cni_code::incompatible_version, "cniVersion \"{}\" has no {}, which came with {}", cni_version,
                  verb_name(verb), since);
}

CniResult<std::optional<std::string>> ipam_type(const NetworkConfig& config) {
  PDL_CNI_TRY_ASSIGN(const auto ipam, config.root().section("ipam"));
  if (!ipam) return std::nullopt;
  PDL_CNI_TRY_ASSIGN(auto type, ipam->text("type"));
  if (!type) return ipam->fault("type", "is missing");
  if (type->empty() || *type == "." || *type == ".." || type->find_first_of("/\\") != std::string::npos) {
    return ipam->fault("type", "is not the name of a plugin");
  }
  return type;
}

CniResult<std::optional<Section>> runtime_config(const NetworkConfig& config) {
  return config.root().section("runtimeConfig", KeyCase::any);
}

CniResult<std::optional<AddResult>> previous_result(const NetworkConfig& config) {
  const Section root = config.root();
  const nlohmann::json* value = root.find("prevResult");
  if (value == nullptr || (value->is_object() && value->empty())) return std::nullopt;
  auto result = parse_add_result(*value, config.cni_version());
  if (!result) {
    CniError error = std::move(result.error()).within("key 'prevResult'");
    error.code = cni_code::bad_config;
    return CniFailure(std::move(error));
  }
  return std::move(*result);
}

CniResult<Dns> configured_dns(const NetworkConfig& config) {
  PDL_CNI_TRY_ASSIGN(const auto dns, config.root().section("dns"));
  if (!dns) return Dns{};
  return parse_dns(*dns);
}

CniResult<std::optional<std::vector<AttachmentId>>> valid_attachments(const NetworkConfig& config) {
  const Section root = config.root();
  // Not find(), for which null is the same as absent.
  const auto* const key =
      std::ranges::find_if(valid_attachments_keys, [&](const char* name) { return root.object().contains(name); });
  if (key == valid_attachments_keys.end()) return std::nullopt;
  PDL_CNI_TRY_ASSIGN(const auto entries, root.sections(*key));
  std::vector<AttachmentId> attachments;
  for (const Section& entry : entries) {
    PDL_CNI_TRY_ASSIGN(const auto container_id, entry.text("containerID"));
    PDL_CNI_TRY_ASSIGN(const auto ifname, entry.text("ifname"));
    if (!container_id) return entry.fault("containerID", "is missing");
    if (!ifname) return entry.fault("ifname", "is missing");
    attachments.push_back({config.name(), *container_id, *ifname});
  }
  return attachments;
}

std::string with_valid_attachments(const NetworkConfig& config, const std::vector<AttachmentId>& more) {
  nlohmann::json document = config.root().object();
  for (const char* key : valid_attachments_keys) {
    if (!document.contains(key)) continue;
    nlohmann::json& list = document[key];
    if (!list.is_array()) list = nlohmann::json::array();
    for (const AttachmentId& id : more) {
      nlohmann::json entry = nlohmann::json::object();
      entry["containerID"] = id.container_id;
      entry["ifname"] = id.if_name;
      list.push_back(std::move(entry));
    }
  }
  return print_json(document);
}

}  // namespace poduplink
