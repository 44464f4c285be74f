// SPDX-License-Identifier: Apache-2.0
// How functions report that they could not do their work: a Result, never an exception. Exceptions of
// libraries (nlohmann/json, CLI11) are caught where they are thrown and turned into an Error.
#pragma once

#include <expected>
#include <string>
#include <utility>

#include "loader/base/format.h"

namespace poduplink {

// What went wrong, for a person to read, with the value at fault in it. `code` is an errno, or 0 where the
// kernel had no part in it; callers branch on it (ENOENT, EEXIST …), never on the text.
struct [[nodiscard]] Error {
  int code = 0;
  std::string message;

  // Puts what was being done before what went wrong: "reading /x: No such file or directory".
  Error within(const std::string& context) && {
    message = context + ": " + message;
    return std::move(*this);
  }
};

template <typename T = void>
using Result = std::expected<T, Error>;

using Failure = std::unexpected<Error>;

// The name of an errno as strerror has it, without its dependence on the locale.
std::string errno_text(int code);

// Failure without an errno: fail("key 'mtu': {} is not a number", text).
template <typename... Args>
[[nodiscard]] Failure fail(fmt::format_string<Args...> text, Args&&... args) {
  return Failure(Error{0, poduplink::formatted_args(text, fmt::make_format_args(args...))});
}

// Failure with an errno, whose text is appended: fail_errno(ENOENT, "uplink {}", name).
template <typename... Args>
[[nodiscard]] Failure fail_errno(int code, fmt::format_string<Args...> text, Args&&... args) {
  return Failure(
      Error{code, poduplink::formatted_args(text, fmt::make_format_args(args...)) + ": " + errno_text(code)});
}

// Passes an Error of another Result on, with what was being done before it.
[[nodiscard]] inline Failure fail_within(Error error, const std::string& context) {
  return Failure(std::move(error).within(context));
}

}  // namespace poduplink

// The arguments are names and declarations, which cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define PDL_CONCAT_(a, b) a##b
#define PDL_CONCAT(a, b) PDL_CONCAT_(a, b)

// PDL_TRY(expression): returns its Error from the calling function, goes on where there is none.
#define PDL_TRY(expression) PDL_TRY_(PDL_CONCAT(pdl_result_, __LINE__), expression)
#define PDL_TRY_(name, expression) \
  if (auto name = (expression); !name) return ::poduplink::Failure(std::move(name.error()))

// PDL_TRY_ASSIGN(auto link, find_link(name)): the same, and gives the value a name.
#define PDL_TRY_ASSIGN(target, expression) PDL_TRY_ASSIGN_(PDL_CONCAT(pdl_result_, __LINE__), target, expression)
#define PDL_TRY_ASSIGN_(name, target, expression)                  \
  auto name = (expression);                                        \
  if (!name) return ::poduplink::Failure(std::move(name.error())); \
  target = std::move(*name)
// NOLINTEND(bugprone-macro-parentheses)
