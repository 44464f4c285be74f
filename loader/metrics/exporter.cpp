// SPDX-License-Identifier: Apache-2.0
#include "loader/metrics/exporter.h"

#include <utility>

#include "loader/base/log.h"
#include "loader/metrics/text.h"

namespace poduplink {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int healthy_periods = 10;
constexpr std::chrono::milliseconds fresh_time{100};

constexpr unsigned not_found = 404;
constexpr unsigned internal_error = 500;
constexpr unsigned unavailable = 503;

}  // namespace

HttpAnswer health(const Figures& figures, Clock::time_point now) {
  if (figures.reconciled == Clock::time_point()) return {.status = unavailable, .body = "no reconciliation so far\n"};
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(now - figures.reconciled);
  if (now - figures.reconciled <= healthy_periods * audit_time) return {.body = "ok\n"};
  return {.status = unavailable, .body = formatted("the last reconciliation was {} s ago\n", age.count())};
}

HttpAnswer readiness(const AgentState* state) {
  if (state == nullptr) return {.status = unavailable, .body = "starting\n"};
  if (state->ready) return {.body = "ready\n"};
  HttpAnswer answer{.status = unavailable};
  for (const std::string& reason : state->reasons) answer.body += one_line(reason) + "\n";
  return answer;
}

void Exporter::listen(const ListenAddress& address) {
  if (listener_ && listener_->address() == address) return;
  // The old one first: the new address may be a part of it.
  listener_.reset();
  server_.reset();
  problem_.clear();
  if (address.is_off()) return;
  if (const auto served = serve(address); !served) {
    problem_ = formatted("metrics.listen: {}: nothing is served there; tried again every {} s", served.error().message,
                         audit_time.count());
    return;
  }
  log_info("metrics and health on {}", address.text());
}

Result<> Exporter::serve(const ListenAddress& address) {
  PDL_TRY_ASSIGN(Listener listener, Listener::open(address));
  PDL_TRY_ASSIGN(server_,
                 HttpServer::start(loop_, listener.take_fd(), [this](std::string_view path) { return answer(path); }));
  listener_.emplace(std::move(listener));
  return {};
}

std::vector<std::string> Exporter::problems() const {
  return problem_.empty() ? std::vector<std::string>() : std::vector{problem_};
}

HttpAnswer Exporter::answer(std::string_view path) {
  if (path == "/metrics") return metrics();
  if (path == "/healthz") return health(view_().figures, Clock::now());
  if (path == "/readyz") return readiness(view_().state);
  return {.status = not_found, .body = "there are /metrics, /healthz and /readyz\n"};
}

HttpAnswer Exporter::metrics() {
  const Clock::time_point now = Clock::now();
  if (last_made_ && now - *last_made_ < fresh_time) return last_;
  const auto reading = take_reading(view_());
  last_ = reading ? HttpAnswer{.type = metrics_content_type, .body = metrics_text(*reading)}
                  : HttpAnswer{.status = internal_error, .body = reading.error().message + "\n"};
  last_made_ = Clock::now();
  return last_;
}

}  // namespace poduplink
