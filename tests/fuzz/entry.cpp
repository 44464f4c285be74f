// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/check.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  poduplink::fuzz::test(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
