// SPDX-License-Identifier: Apache-2.0
#include "loader/base/result.h"

#include <cstring>

namespace poduplink {

std::string errno_text(int code) {
  const char* text = strerrordesc_np(code);
  return text != nullptr ? text : formatted("errno {}", code);
}

}  // namespace poduplink
