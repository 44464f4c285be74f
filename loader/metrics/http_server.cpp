// SPDX-License-Identifier: Apache-2.0
#include "loader/metrics/http_server.h"

#include <microhttpd.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <utility>

namespace poduplink {
namespace {

using Clock = std::chrono::steady_clock;

// A scraper is done in milliseconds with one connection. Beyond `many_connections` the oldest is closed for each new
// one, so that those who only hold connections keep nobody out; the hard limit spares the agent's descriptors.
constexpr unsigned many_connections = 48;
constexpr unsigned most_connections = 64;
constexpr unsigned idle_seconds = 5;
// For one that trickles, and so is never idle.
constexpr std::chrono::seconds most_age{20};
// Of one connection, half of it for the request's header.
constexpr std::size_t memory_octets = 16384;

struct StopDaemon {
  void operator()(MHD_Daemon* daemon) const { MHD_stop_daemon(daemon); }
};
struct DropResponse {
  void operator()(MHD_Response* response) const { MHD_destroy_response(response); }
};

class Server final : public HttpServer {
 public:
  explicit Server(Handler handler) : handler_(std::move(handler)) {}

  Result<> open(EventLoop& loop, Fd listening) {
    // The descriptor is the daemon's from here on.
    daemon_.reset(MHD_start_daemon(MHD_USE_EPOLL, 0, nullptr, nullptr, &Server::on_request, this,
                                   MHD_OPTION_LISTEN_SOCKET, listening.release(), MHD_OPTION_CONNECTION_LIMIT,
                                   most_connections, MHD_OPTION_CONNECTION_TIMEOUT, idle_seconds,
                                   MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory_octets, MHD_OPTION_NOTIFY_CONNECTION,
                                   &Server::on_connection, this, MHD_OPTION_END));
    if (!daemon_) return fail("libmicrohttpd does not start");
    const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_.get(), MHD_DAEMON_INFO_EPOLL_FD);
    if (info == nullptr) return fail("libmicrohttpd has no epoll descriptor");
    PDL_TRY_ASSIGN(watch_, loop.watch_meanwhile(info->epoll_fd, [this] { turn(); }));
    PDL_TRY_ASSIGN(timer_, loop.timer([this] { turn(); }));
    return {};
  }

 private:
  struct Open {
    int fd = -1;
    Clock::time_point since;
    bool told_to_end = false;
  };

  // Does what can be done without waiting.
  void turn() {
    const Clock::time_point now = Clock::now();
    for (Open& one : open_) {
      if (now - one.since > most_age) end(one);
    }
    MHD_run(daemon_.get());
    MHD_UNSIGNED_LONG_LONG milliseconds = 0;
    const bool waits = MHD_get_timeout(daemon_.get(), &milliseconds) == MHD_YES;
    timer_->set(waits ? std::optional<std::chrono::microseconds>(std::chrono::milliseconds(milliseconds))
                      : std::nullopt);
  }

  // The daemon sees that nothing more comes, and closes.
  static void end(Open& one) {
    one.told_to_end = true;
    ::shutdown(one.fd, SHUT_RDWR);
  }

  static void on_connection(void* own, MHD_Connection* connection, void** /*context*/,
                            MHD_ConnectionNotificationCode what) {
    const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != nullptr) static_cast<Server*>(own)->note(info->connect_fd, what == MHD_CONNECTION_NOTIFY_STARTED);
  }

  void note(int fd, bool started) {
    if (!started) {
      open_.remove_if([&](const Open& one) { return one.fd == fd; });
      return;
    }
    open_.push_back({fd, Clock::now()});
    const auto staying = std::ranges::count_if(open_, [](const Open& one) { return !one.told_to_end; });
    if (std::cmp_less_equal(staying, many_connections)) return;
    const auto oldest = std::ranges::find_if(open_, [](const Open& one) { return !one.told_to_end; });
    end(*oldest);
  }

  static MHD_Result on_request(void* own, MHD_Connection* connection, const char* path, const char* method,
                               const char* /*version*/, const char* /*data*/, std::size_t* /*size*/,
                               void** /*context*/) {
    return static_cast<Server*>(own)->answer(connection, path, method);
  }

  // Called when the header is complete; whatever body follows is not read.
  MHD_Result answer(MHD_Connection* connection, const std::string& path, const std::string& method) {
    const bool allowed = method == MHD_HTTP_METHOD_GET || method == MHD_HTTP_METHOD_HEAD;
    HttpAnswer answer = allowed ? handler_(path) : HttpAnswer{.status = MHD_HTTP_METHOD_NOT_ALLOWED};
    if (!allowed) answer.body = formatted("{} is not allowed: GET or HEAD\n", method);
    const std::unique_ptr<MHD_Response, DropResponse> response(
        MHD_create_response_from_buffer(answer.body.size(), answer.body.data(), MHD_RESPMEM_MUST_COPY));
    if (!response) return MHD_NO;
    MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONTENT_TYPE, answer.type.c_str());
    // One answer a connection: none is kept for the next scrape.
    MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONNECTION, "close");
    if (!allowed) MHD_add_response_header(response.get(), MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    return MHD_queue_response(connection, answer.status, response.get());
  }

  Handler handler_;
  std::list<Open> open_;  // the oldest first
  std::unique_ptr<MHD_Daemon, StopDaemon> daemon_;
  // End before the daemon, whose descriptor they watch.
  std::unique_ptr<LoopSource> watch_;
  std::unique_ptr<LoopSource> timer_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(EventLoop& loop, Fd listening, Handler handler) {
  auto server = std::make_unique<Server>(std::move(handler));
  PDL_TRY(server->open(loop, std::move(listening)));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace poduplink
