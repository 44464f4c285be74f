// SPDX-License-Identifier: Apache-2.0
// The network configuration on standard input.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cni/spec/environment.h"
#include "cni/spec/error.h"
#include "cni/spec/json.h"
#include "cni/spec/result.h"
#include "maps/attachment.h"

namespace poduplink {

class NetworkConfig {
 public:
  // Parses what every verb but VERSION needs. Errors: undecodable (no JSON object, cniVersion no string),
  // bad_config (name), incompatible_version (cniVersion missing or unknown). Keys of the plugin are not
  // looked at: DEL has to work whatever they hold.
  static CniResult<NetworkConfig> parse(std::string raw);

  // What was read, octet by octet: a delegated plugin gets exactly this.
  [[nodiscard]] const std::string& raw() const { return raw_; }
  [[nodiscard]] const std::string& cni_version() const { return cni_version_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Section root() const { return document_.root(); }

 private:
  NetworkConfig(std::string raw, JsonDocument document) : raw_(std::move(raw)), document_(std::move(document)) {}

  std::string raw_;
  JsonDocument document_;
  std::string cni_version_;
  std::string name_;
};

// Standard input past this is refused, with code undecodable.
inline constexpr std::size_t max_config_size = std::size_t{4} << 20;

// Reads all of `fd`. Errors: io_failure; undecodable past max_config_size.
CniResult<std::string> read_config(int fd);

// The cniVersion of whatever comes from `fd` within a second; the newest version where that is nothing, no
// JSON, or unknown. For VERSION, which needs no input, and for errors met before the input is read.
std::string peek_cni_version(int fd);
// The same for a text that has been read.
std::string cni_version_of(const std::string& raw);

// Whether the configuration's version has this verb. Errors: incompatible_version.
CniResult<> check_verb_version(Verb verb, const std::string& cni_version);

// "ipam.type". Nothing: no "ipam" at all. Errors: bad_config where it is no name of a plain file.
CniResult<std::optional<std::string>> ipam_type(const NetworkConfig& config);

// "runtimeConfig", read without regard to case.
CniResult<std::optional<Section>> runtime_config(const NetworkConfig& config);

// "prevResult". Nothing where it is absent, null or empty. Errors: bad_config.
CniResult<std::optional<AddResult>> previous_result(const NetworkConfig& config);

// "dns" of the configuration, which replaces that of the IPAM plugin where it has any key. Errors: bad_config.
CniResult<Dns> configured_dns(const NetworkConfig& config);

// "cni.dev/valid-attachments" of a GC, with this network's name. Null and [] are an empty list: nothing is
// valid. Nothing: the key is absent, and nothing can be said of any attachment. Errors: bad_config.
CniResult<std::optional<std::vector<AttachmentId>>> valid_attachments(const NetworkConfig& config);
// The configuration's text with more attachments in that list, under whatever names it has.
std::string with_valid_attachments(const NetworkConfig& config, const std::vector<AttachmentId>& more);

}  // namespace poduplink
