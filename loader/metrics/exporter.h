// SPDX-License-Identifier: Apache-2.0
// The agent's metrics and health over HTTP: /metrics, /healthz, /readyz. Costs nothing while nobody asks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/event_loop.h"
#include "loader/metrics/http_server.h"
#include "loader/metrics/listen.h"
#include "loader/metrics/reading.h"

namespace poduplink {

// 200 while the last reconciliation is not older than ten periods, else 503 with the age. (One whose event loop does
// not turn answers nothing at all.)
HttpAnswer health(const Figures& figures, std::chrono::steady_clock::time_point now);
// 200 exactly where agent.json says ready, else 503 with its reasons, a line each. `state`: null before the first look.
HttpAnswer readiness(const AgentState* state);

class Exporter {
 public:
  // `view` is asked at each request. The loop outlives this.
  Exporter(EventLoop& loop, std::function<AgentView()> view) : loop_(loop), view_(std::move(view)) {}

  // Serves there and nowhere else; what failed before is tried again, what is well already is left alone.
  void listen(const ListenAddress& address);
  // Why nothing is served, where something is to be. Empty: all is well.
  [[nodiscard]] std::vector<std::string> problems() const;

 private:
  Result<> serve(const ListenAddress& address);
  HttpAnswer answer(std::string_view path);
  HttpAnswer metrics();

  EventLoop& loop_;
  std::function<AgentView()> view_;
  std::unique_ptr<HttpServer> server_;
  std::optional<Listener> listener_;  // goes before its descriptor, which the server has
  std::string problem_;
  // Requests that follow each other at once get one text, so that many of them cost no more than a few.
  HttpAnswer last_;
  std::optional<std::chrono::steady_clock::time_point> last_made_;
};

}  // namespace poduplink
