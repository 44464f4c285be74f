// SPDX-License-Identifier: Apache-2.0
// Where the agent serves its metrics, and what clients cannot do to it.
#include <sys/socket.h>
#include <sys/stat.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "loader/base/file.h"
#include "tests/e2e/agent_probe.h"
#include "tests/e2e/scraper.h"
#include "tests/e2e/steps.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string config_with(const Lab& lab, const std::string& listen) {
  return value_of(merged(lab.default_agent_config(), formatted(R"({{"metrics": {{"listen": "{}"}}}})", listen)));
}

void reload(Lab& lab, const std::string& listen) {
  value_of(write_file_atomically(lab.folder() + "/agent.json", config_with(lab, listen)));
  value_of(lab.agent().kill(SIGHUP));
}

bool answers(const Lab& lab, const Door& door) {
  const auto reply = http_get(lab.node(), "/healthz", door);
  return reply && reply->status == 200;
}

bool warns_of(const Lab& lab, const std::string& part) {
  const auto warnings = agent_state(lab).at("warnings");
  return std::ranges::any_of(warnings, [&](const auto& one) { return one.template get<std::string>().contains(part); });
}

bool is_socket(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

std::size_t descriptors_of(pid_t pid) { return value_of(list_directory(formatted("/proc/{}/fd", pid))).size(); }

void send_all(const Fd& fd, const std::string& text) { ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL); }

// The agent repairs and answers as it does on any day.
void works(Lab& lab, const Pod& pod) {
  const Tables tables = value_of(lab.tables());
  value_of(tables.pods.erase(*pod.v4));
  CHECK(in_time([&] { return value_of(tables.pods.find(*pod.v4)).has_value(); }));
  CHECK(in_time([&] { return answers(lab, Door::standard()); }));
}

}  // namespace

TEST_CASE("The address changes by reload: TCP, IPv6, a unix socket, off") {
  auto lab = lab_with_agent({.uplinks = 1});
  const Door standard = Door::standard();
  const Door other{.endpoint = {value_of(IpAddress::parse("::1")), 9999}};
  const Door local{.path = lab->run_dir() + "/metrics"};
  CHECK(answers(*lab, standard));
  reload(*lab, "[::1]:9999");
  CHECK(in_time([&] { return answers(*lab, other); }));
  CHECK(connect_to(lab->node(), standard).error().code == ECONNREFUSED);
  CHECK(scrape(*lab, other).at("poduplink_agent_ready") == 1);

  reload(*lab, "unix:" + local.path);
  CHECK(in_time([&] { return answers(*lab, local); }));
  CHECK(connect_to(lab->node(), other).error().code == ECONNREFUSED);
  struct stat status{};
  REQUIRE(::lstat(local.path.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777U) == 0660);
  CHECK(scrape(*lab, local).at("poduplink_agent_ready") == 1);

  // One that was killed leaves its socket, which the next one replaces.
  value_of(lab->agent().kill_hard());
  CHECK(is_socket(local.path));
  value_of(lab->start_agent(config_with(*lab, "unix:" + local.path)));
  CHECK(answers(*lab, local));

  reload(*lab, "off");
  CHECK(in_time([&] { return !is_socket(local.path); }));
  CHECK(agent_state(*lab).at("warnings").empty());
  reload(*lab, "unix:" + local.path);
  CHECK(in_time([&] { return answers(*lab, local); }));
  value_of(lab->agent().stop());
  CHECK_FALSE(is_socket(local.path));
  value_of(lab->start_agent());
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("An address that cannot be had keeps nobody from being ready, is told by its value, and is tried again") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  {
    const EchoServer squatter = value_of(EchoServer::start(lab->node(), {Door::standard().endpoint}));
    value_of(lab->start_agent());
    CHECK(warns_of(*lab, "metrics.listen: 127.0.0.1:9465: bind: Address already in use"));
    CHECK(agent_state(*lab).at("ready") == true);
  }
  CHECK(in_time([&] { return answers(*lab, Door::standard()); }));
  CHECK(in_time([&] { return agent_state(*lab).at("warnings").empty(); }));

  const std::string path = lab->run_dir() + "/metrics";
  value_of(write_file_atomically(path, "somebody's own"));
  reload(*lab, "unix:" + path);
  CHECK(in_time([&] { return warns_of(*lab, "metrics.listen: unix:" + path); }));
  CHECK(value_of(read_file(path)) == "somebody's own");
  value_of(remove_file(path));
  CHECK(in_time([&] { return answers(*lab, {.path = path}); }));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("A node without loopback gets its metrics when loopback comes") {
  auto lab = value_of(Lab::create({.uplinks = 1}));
  value_of(lab->node().ip("link set lo down\naddress flush dev lo"));
  value_of(lab->start_agent());
  CHECK(warns_of(*lab, "metrics.listen: 127.0.0.1:9465: bind: Cannot assign requested address"));
  value_of(lab->node().ip("link set lo up"));
  CHECK(in_time([&] { return answers(*lab, Door::standard()); }));
  CHECK(in_time([&] { return agent_state(*lab).at("warnings").empty(); }));
  value_of(lab->accept_changes({"lo", "127.0.0", "::1"}));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("GET and HEAD of three paths are answered, all else is refused") {
  auto lab = lab_with_agent({.uplinks = 1});
  const Door door = Door::standard();
  const auto ask = [&](const std::string& first_line, const std::string& more = {}) {
    return value_of(exchange_http(lab->node(), door, first_line + "\r\nHost: node\r\n" + more));
  };
  const HttpReply metrics = ask("GET /metrics HTTP/1.1", "\r\n");
  CHECK(metrics.status == 200);
  CHECK_THAT(metrics.head, ContainsSubstring("text/plain; version=0.0.4"));
  const HttpReply head = ask("HEAD /metrics HTTP/1.1", "\r\n");
  CHECK(head.status == 200);
  CHECK(head.body.empty());
  CHECK_THAT(head.head, ContainsSubstring("Content-Length: "));
  CHECK(ask("GET /metrics?collect=all HTTP/1.0", "\r\n").status == 200);
  for (const char* path : {"/", "/metrics/", "/metrics/x", "/..", "/%6detricsx", "/healthz/"})
    CHECK(ask(formatted("GET {} HTTP/1.1", path), "\r\n").status == 404);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "BREW"}) {
    const HttpReply refused = ask(formatted("{} /metrics HTTP/1.1", method), "Content-Length: 5\r\n\r\nhello");
    CHECK(refused.status == 405);
    CHECK_THAT(refused.head, ContainsSubstring("Allow: GET, HEAD"));
  }
  const HttpReply huge = ask("GET /metrics HTTP/1.1", "X-Fill: " + std::string(200000, 'x') + "\r\n\r\n");
  CHECK((huge.status >= 400 && huge.status < 500));
  CHECK(answers(*lab, door));
  REQUIRE_CLOSED(*lab);
}

TEST_CASE("Clients that hold connections, read nothing, send nonsense or all of it at once hurt nobody") {
  auto lab = lab_with_agent({.uplinks = 1});
  const Pod pod = value_of(lab->add_pod("a", {.v6 = false}));
  const Door door = Door::standard();
  const pid_t agent = lab->agent().pid();
  CHECK(answers(*lab, door));
  const std::size_t before = descriptors_of(agent);
  {
    std::vector<Fd> idle;
    idle.reserve(200);
    for (int i = 0; i < 200; ++i) idle.push_back(value_of(connect_to(lab->node(), door)));
    works(*lab, pod);
    CHECK(descriptors_of(agent) <= before + 64);
  }
  {
    std::vector<Fd> silent;  // ask and never read
    for (int i = 0; i < 100; ++i) {
      silent.push_back(value_of(connect_to(lab->node(), door)));
      const int least = 1;
      ::setsockopt(silent.back().get(), SOL_SOCKET, SO_RCVBUF, &least, sizeof(least));
      for (int j = 0; j < 50; ++j) send_all(silent.back(), "GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n");
    }
    works(*lab, pod);
    CHECK(descriptors_of(agent) <= before + 64);
  }
  {
    std::vector<Fd> trickling;  // a header that never ends
    for (int i = 0; i < 100; ++i) {
      trickling.push_back(value_of(connect_to(lab->node(), door)));
      send_all(trickling.back(), "GET /metrics HTTP/1.1\r\nX-Slow: ");
    }
    for (int i = 0; i < 20; ++i) {
      for (const Fd& one : trickling) send_all(one, "x");
    }
    works(*lab, pod);
  }
  for (const std::string& nonsense : {std::string(8, '\0'), std::string("\x16\x03\x01\x02\x01\x01\x01"),
                                      std::string(100000, 'A'), std::string("GET\r\n\r\n")}) {
    const Fd one = value_of(connect_to(lab->node(), door));
    send_all(one, nonsense);
  }
  works(*lab, pod);
  CHECK(lab->agent().pid() == agent);
  // All is given back: those that still hold on are let go after some seconds.
  CHECK(in_time([&] { return descriptors_of(agent) <= before; }));
  value_of(lab->del_pod("a"));
  REQUIRE_CLOSED(*lab);
}
