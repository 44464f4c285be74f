// SPDX-License-Identifier: Apache-2.0
// What fuzz targets assert beside "it does not crash".
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>

#include "cni/spec/config.h"
#include "cni/spec/entry.h"
#include "cni/spec/error.h"
#include "cni/spec/json.h"
#include "loader/base/log.h"

namespace poduplink::fuzz {

// What a target does with one input.
void test(const std::string& text);

// Lines of the log are made, and not shown.
inline const bool quiet = (set_log_sink([](LogLevel, std::string_view) {}), true);

// Aborts, which the fuzzer reports with the input.
inline void require(bool so, std::string_view what, std::string_view seen = {}) {
  if (so) return;
  std::fprintf(stderr, "not so: %.*s: %.*s\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(seen.size()), seen.data());
  std::abort();
}

// An error that a runtime can use: a code that may be here, a message of one line that names the key or variable at
// fault, and a document that is read as the same.
inline void require_refusal(const CniError& error, std::initializer_list<unsigned> codes) {
  require(std::ranges::find(codes, error.code) != codes.end(), "a code of this parser", error.msg);
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; };
  require(!error.msg.empty() && std::ranges::none_of(error.msg, is_control), "a message of one line", error.msg);
  const auto says = [&](std::string_view text) { return error.msg.find(text) != std::string::npos; };
  if (error.code == cni_code::bad_config || error.code == cni_code::unsupported_field)
    require(says("key '"), "the message names the key", error.msg);
  if (error.code == cni_code::bad_environment) require(says("CNI_ARGS"), "the message names the variable", error.msg);
  if (error.code == cni_code::incompatible_version) require(says("cniVersion"), "the message names the key", error.msg);
  const auto again = parse_error_document(print_error(error, "1.0.0"));
  require(again && again->code == error.code && !again->msg.empty(), "a document that can be read", error.msg);
}

// The configuration as libcni sends it on: parsed, and printed with sorted keys.
inline NetworkConfig printed_again(const NetworkConfig& config) {
  auto again = NetworkConfig::parse(print_json(config.root().object()));
  require(again.has_value(), "what was parsed and printed is parsed again", config.raw());
  return std::move(*again);
}

// The input's first line, and the rest.
struct TwoParts {
  std::string first;
  std::string rest;
};

inline TwoParts two_parts(const std::string& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return {text, {}};
  return {text.substr(0, end), text.substr(end + 1)};
}

}  // namespace poduplink::fuzz
