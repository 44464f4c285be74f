// SPDX-License-Identifier: Apache-2.0
// The text that is scraped: every series from the start, values as they are read, and names of interfaces that are no
// text.
#include "loader/metrics/text.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

using namespace poduplink;
using Catch::Matchers::ContainsSubstring;

namespace {

std::set<std::string> verdicts_of(const std::string& outcome) {
  std::set<std::string> names;
  for (unsigned verdict = 0; verdict < PDL_VERDICT_COUNT; ++verdict) {
    if (verdict_outcome(verdict) == outcome) names.insert(verdict_name(verdict));
  }
  return names;
}

}  // namespace

TEST_CASE("a reading of a node where nothing has happened has a series for every verdict, all zero") {
  const std::string text = metrics_text({});
  for (unsigned verdict = 0; verdict < PDL_VERDICT_COUNT; ++verdict)
    CHECK_THAT(text, ContainsSubstring(
                         formatted("poduplink_verdicts_total{{program=\"{}\",verdict=\"{}\",outcome=\"{}\"}} 0\n",
                                   verdict_program(verdict), verdict_name(verdict), verdict_outcome(verdict))));
  for (const char* kind : {"pod_entry_made", "pod_entry_changed", "pod_entry_erased", "map_entry", "pin",
                           "uplink_program", "pod_program", "proxy_neighbour"})
    CHECK_THAT(text, ContainsSubstring(formatted("poduplink_repairs_total{{kind=\"{}\"}} 0\n", kind)));
  CHECK_THAT(text, ContainsSubstring("poduplink_agent_ready 0\n"));
  CHECK_THAT(text, ContainsSubstring("poduplink_failed_open_attachments 0\n"));
  CHECK_THAT(text, ContainsSubstring("process_resident_memory_bytes "));
  // No series of an uplink that is not there.
  CHECK_THAT(text, !ContainsSubstring("uplink=\""));
}

TEST_CASE("counters are whole numbers up to what a double can hold") {
  Reading reading;
  reading.verdicts.redirected = 1;
  reading.verdicts.spoofed = 123456789012345;
  reading.verdicts.late_too_big = 1ULL << 52U;
  const std::string text = metrics_text(reading);
  CHECK_THAT(text, ContainsSubstring("verdict=\"redirected\",outcome=\"sent\"} 1\n"));
  CHECK_THAT(text, ContainsSubstring("verdict=\"spoofed\",outcome=\"dropped\"} 123456789012345\n"));
  CHECK_THAT(text, ContainsSubstring("verdict=\"late_too_big\",outcome=\"dropped\"} 4503599627370496\n"));
}

TEST_CASE("what an uplink shows") {
  Reading reading;
  reading.uplinks_up = {{{"eth1", "home"}, true}, {{"eth9", "transit"}, false}};
  reading.traffic["eth1"] = {.out_packets = 1,
                             .out_bytes = 2,
                             .in_packets = 3,
                             .in_bytes = 4,
                             .out_redirects = 5,
                             .late_redirects = 6,
                             .in_redirects = 7};
  reading.attachments = {{"eth1", 8}, {"none", 1}};
  reading.silent_gateways = {{"eth1", 2}};
  reading.fills = {{"pods4", 9, 100}};
  const std::string text = metrics_text(reading);
  for (const char* line :
       {R"(poduplink_uplink_up{uplink="eth1",role="home"} 1)", R"(poduplink_uplink_up{uplink="eth9",role="transit"} 0)",
        R"(poduplink_uplink_transmit_packets_total{uplink="eth1"} 1)",
        R"(poduplink_uplink_transmit_bytes_total{uplink="eth1"} 2)",
        R"(poduplink_uplink_receive_packets_total{uplink="eth1"} 3)",
        R"(poduplink_uplink_receive_bytes_total{uplink="eth1"} 4)",
        R"(poduplink_uplink_redirects_total{uplink="eth1",path="out"} 5)",
        R"(poduplink_uplink_redirects_total{uplink="eth1",path="late"} 6)",
        R"(poduplink_uplink_redirects_total{uplink="eth1",path="in"} 7)", R"(poduplink_attachments{uplink="eth1"} 8)",
        R"(poduplink_attachments{uplink="none"} 1)", R"(poduplink_silent_gateways{uplink="eth1"} 2)",
        "poduplink_map_entries{map=\"pods4\"} 9", "poduplink_map_max_entries{map=\"pods4\"} 100"})
    CHECK_THAT(text, ContainsSubstring(std::string(line) + "\n"));
}

TEST_CASE("an interface can be called nearly anything: label values are escaped and stay UTF-8") {
  Reading reading;
  reading.uplinks_up = {{{"a\"b", "home"}, true},
                        {{"c\\d", "home"}, true},
                        {{"e\nf", "home"}, true},
                        {{"\xff\xfe", "home"}, true},
                        {{"m\xc3\xbc", "home"}, true}};
  const std::string text = metrics_text(reading);
  for (const char* label :
       {R"(uplink="a\"b")", R"(uplink="c\\d")", R"(uplink="e\nf")", R"(uplink="\\xff\\xfe")", "uplink=\"m\xc3\xbc\""})
    CHECK_THAT(text, ContainsSubstring(label));
}

TEST_CASE("UTF-8 stays, every other octet is written out") {
  for (const char* text : {"eth0", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x90\xa7", ""})
    CHECK(utf8_or_escaped(text) == text);
  CHECK(utf8_or_escaped("a\x80z") == R"(a\x80z)");
  CHECK(utf8_or_escaped("\xc3") == R"(\xc3)");
  CHECK(utf8_or_escaped("\xc0\xaf") == R"(\xc0\xaf)");                  // longer than needed
  CHECK(utf8_or_escaped("\xed\xa0\x80") == R"(\xed\xa0\x80)");          // a surrogate
  CHECK(utf8_or_escaped("\xf4\x90\x80\x80") == R"(\xf4\x90\x80\x80)");  // beyond the last code point
  CHECK(utf8_or_escaped("\xe2\x82") == R"(\xe2\x82)");
}

TEST_CASE("every verdict has an outcome, and a new one is looked at here") {
  CHECK(verdicts_of("dropped") == std::set<std::string>{"malformed", "spoofed", "uplink_down", "too_big",
                                                        "in_malformed", "martian", "in_strict", "late_uplink_down",
                                                        "late_too_big"});
  CHECK(verdicts_of("sent") == std::set<std::string>{"redirected", "to_pod", "neighbour", "gateway_silent",
                                                     "in_redirected", "in_other_uplink", "in_neighbour",
                                                     "late_redirected", "late_node", "late_gateway_silent"});
  CHECK(verdicts_of("passed") == std::set<std::string>{"in_not_ip", "in_vlan", "in_foreign_mac", "in_no_pod",
                                                       "late_passed", "late_uplink_down_stack"});
  CHECK(verdicts_of("stack").size() == PDL_VERDICT_COUNT - 9 - 10 - 6);
}
