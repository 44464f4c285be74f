// SPDX-License-Identifier: Apache-2.0
// HTTP on the agent's event loop, without a thread: small answers that are made at once. What clients can do to the
// agent is bounded in number of connections, memory, idle time and age; GET and HEAD alone are answered.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "loader/event_loop.h"

namespace poduplink {

struct HttpAnswer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  // Gets the path alone, without what follows a question mark.
  using Handler = std::function<HttpAnswer(std::string_view path)>;

  // `listening`: a socket that listens and does not block. Serves until destroyed, which is before the loop.
  // Errors: libmicrohttpd does not start.
  static Result<std::unique_ptr<HttpServer>> start(EventLoop& loop, Fd listening, Handler handler);
  virtual ~HttpServer() = default;
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

 protected:
  HttpServer() = default;
};

}  // namespace poduplink
