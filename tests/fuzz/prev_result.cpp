// SPDX-License-Identifier: Apache-2.0
// The result of an ADD as prevResult of a later verb. Input: the configuration's version, a newline, the result.
#include "cni/spec/result.h"
#include "cni/spec/versions.h"
#include "tests/fuzz/check.h"

using namespace poduplink;
using namespace poduplink::fuzz;

namespace {

constexpr std::initializer_list<const char*> versions{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};

// Printed in any version it is read as what was printed.
void check_print(const AddResult& result) {
  for (const char* version : versions) {
    const std::string text = print_add_result(result, version);
    require(text.ends_with('\n') && text.find('\n') == text.size() - 1, "one line", text);
    const auto again = parse_add_result_text(text, "0.3.0");
    require(again.has_value(), "a printed result is one", text);
    require(print_add_result(*again, version) == text, "printed, parsed and printed it is the same", text);
    require(again->ips.size() == result.ips.size() && again->interfaces.size() == result.interfaces.size() &&
                again->routes.size() == result.routes.size(),
            "nothing is lost", text);
  }
}

}  // namespace

void poduplink::fuzz::test(const std::string& text) {
  const TwoParts input = two_parts(text);
  const std::string version = is_supported_version(input.first) ? input.first : "1.0.0";
  const auto direct = parse_add_result_text(input.rest, version);
  if (direct) {
    check_print(*direct);
  } else {
    require_refusal(direct.error(), {1, 6});
  }
  // The same within a configuration, where the rest is no text that breaks out of its place.
  if (!parse_json(input.rest)) return;
  const auto config =
      NetworkConfig::parse(R"({"cniVersion":")" + version + R"(","name":"n","prevResult":)" + input.rest + "}");
  if (!config) {
    require_refusal(config.error(), {6});  // one level too deep
    return;
  }
  const auto previous = previous_result(*config);
  require(previous.has_value() == direct.has_value(), "it is read the same way", input.rest);
  if (!previous) {
    require_refusal(previous.error(), {7});
    require(previous.error().msg.starts_with("key 'prevResult'"), "the message names the key", previous.error().msg);
  } else if (*previous) {
    require(print_add_result(**previous, version) == print_add_result(*direct, version), "the same result", input.rest);
  }
}
