// SPDX-License-Identifier: Apache-2.0
#include "cni/spec/versions.h"

#include <algorithm>

namespace poduplink {

bool is_supported_version(std::string_view version) {
  return std::ranges::find(supported_versions, version) != supported_versions.end();
}

bool version_at_least(std::string_view version, std::string_view wanted) {
  const auto* const at = std::ranges::find(supported_versions, version);
  return at != supported_versions.end() && at >= std::ranges::find(supported_versions, wanted);
}

std::string supported_versions_text() {
  std::string text;
  for (const std::string_view version : supported_versions) {
    if (!text.empty()) text += ", ";
    text += version;
  }
  return text;
}

// Written by hand: VERSION is asked so often that nothing should be built for it.
std::string print_versions(std::string_view version) {
  std::string text = R"({"cniVersion":")";
  text += is_supported_version(version) ? version : newest_version;
  text += R"(","supportedVersions":[)";
  for (const std::string_view supported : supported_versions) {
    if (text.back() != '[') text += ',';
    text += '"';
    text += supported;
    text += '"';
  }
  return text + "]}\n";
}

}  // namespace poduplink
