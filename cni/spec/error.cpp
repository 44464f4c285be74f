// SPDX-License-Identifier: Apache-2.0
#include "cni/spec/error.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "cni/spec/json.h"

namespace poduplink {

std::optional<CniError> parse_error_document(std::string_view text) {
  const auto document = parse_json(text);
  if (!document || !document->get().is_object()) return std::nullopt;
  const Section root = document->root("");
  const auto code = root.number("code", 1, std::numeric_limits<unsigned>::max());
  if (!code || !*code) return std::nullopt;
  CniError error;
  error.code = static_cast<unsigned>(**code);
  if (auto msg = root.text("msg"); msg && *msg) error.msg = std::move(**msg);
  if (auto details = root.text("details"); details && *details) error.details = std::move(**details);
  return error;
}

std::string print_error(const CniError& error, std::string_view cni_version) {
  nlohmann::json document = nlohmann::json::object();
  document["cniVersion"] = std::string(cni_version);
  document["code"] = error.code;
  document["msg"] = error.msg;
  if (!error.details.empty()) document["details"] = error.details;
  return print_json(document);
}

}  // namespace poduplink
