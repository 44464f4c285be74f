// SPDX-License-Identifier: Apache-2.0
// The error of the CNI specification: a number that the runtime may act on, a message, details.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "loader/base/result.h"

namespace poduplink {

// Numbers below 100 belong to the specification, those from 100 are this project's (listed in docs/cni.md).
namespace cni_code {
inline constexpr unsigned incompatible_version = 1;  // the configuration's cniVersion, or a verb it lacks
inline constexpr unsigned unsupported_field = 2;     // message: key and value
inline constexpr unsigned bad_environment = 4;       // message: names of the variables
inline constexpr unsigned io_failure = 5;            // standard input could not be read, a file not written
inline constexpr unsigned undecodable = 6;           // JSON that cannot be parsed or has the wrong shape
inline constexpr unsigned bad_config = 7;            // message: key and value
inline constexpr unsigned try_again = 11;            // the same call may work later
inline constexpr unsigned not_available = 50;        // STATUS: no ADD can be served
inline constexpr unsigned limited = 51;              // STATUS: nor are existing containers well served

inline constexpr unsigned ipam_not_run = 100;    // the IPAM plugin was not found, not started, or died without an error
inline constexpr unsigned datapath = 101;        // a BPF program or map refused its work
inline constexpr unsigned agent_missing = 102;   // the pinned maps are not there: the agent never ran
inline constexpr unsigned uplink = 103;          // no uplink, an unknown one, or one that cannot serve
inline constexpr unsigned ipam_result = 104;     // address or gateway of the IPAM result cannot be used
inline constexpr unsigned container_link = 105;  // the container's interface, addresses or routes
inline constexpr unsigned already_added = 106;   // the attachment, its interface or its reservation exists
inline constexpr unsigned check_failed = 107;    // CHECK found something missing or changed
inline constexpr unsigned state = 108;           // record, lock or data directory cannot be used
inline constexpr unsigned ipam_timeout = 110;    // the IPAM plugin did not end in time
inline constexpr unsigned no_address = 120;      // poduplink-ipam: every pool is exhausted
inline constexpr unsigned address_refused = 121;  // poduplink-ipam: the requested address is taken or in no pool
inline constexpr unsigned internal = 199;         // a fault of the program itself
}  // namespace cni_code

struct [[nodiscard]] CniError {
  unsigned code = cni_code::internal;  // 1 to 4294967295
  std::string msg;                     // one line; of another plugin's error: what it is
  std::string details;                 // may be empty

  // Puts what was being done before the message.
  CniError within(const std::string& context) && {
    msg = one_line(context) + ": " + msg;
    return std::move(*this);
  }
  CniError with_details(std::string text) && {
    details = std::move(text);
    return std::move(*this);
  }
};

template <typename T = void>
using CniResult = std::expected<T, CniError>;

using CniFailure = std::unexpected<CniError>;

// cni_fail(cni_code::bad_config, "key 'mtu': {} is not …", text)
template <typename... Args>
[[nodiscard]] CniFailure cni_fail(unsigned code, fmt::format_string<Args...> text, Args&&... args) {
  return CniFailure(CniError{code, one_line(poduplink::formatted_args(text, fmt::make_format_args(args...))), {}});
}

inline CniError cni_error(unsigned code, Error error) {
  error.message = one_line(error.message);
  return {code, std::move(error.message), {}};
}

// An error without an errno of a base function, or its value, under a CNI code.
template <typename T>
[[nodiscard]] CniResult<T> with_code(unsigned code, Result<T> result) {
  if (!result) return CniFailure(cni_error(code, std::move(result.error())));
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return std::move(*result);
  }
}

// Reads the error object that another plugin printed. Nothing where it is not JSON, or `code` is no number
// from 1 to 4294967295.
std::optional<CniError> parse_error_document(std::string_view text);

// The error object of the specification, one line with its newline. Octets that are not UTF-8 are replaced.
std::string print_error(const CniError& error, std::string_view cni_version);

}  // namespace poduplink

// The arguments are names and declarations, which cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
// The counterparts of PDL_TRY and PDL_TRY_ASSIGN for CniResult.
#define PDL_CNI_TRY(expression) PDL_CNI_TRY_(PDL_CONCAT(pdl_cni_result_, __LINE__), expression)
#define PDL_CNI_TRY_(name, expression) \
  if (auto name = (expression); !name) return ::poduplink::CniFailure(std::move(name.error()))

#define PDL_CNI_TRY_ASSIGN(target, expression) \
  PDL_CNI_TRY_ASSIGN_(PDL_CONCAT(pdl_cni_result_, __LINE__), target, expression)
#define PDL_CNI_TRY_ASSIGN_(name, target, expression)                 \
  auto name = (expression);                                           \
  if (!name) return ::poduplink::CniFailure(std::move(name.error())); \
  target = std::move(*name)
// NOLINTEND(bugprone-macro-parentheses)
