// SPDX-License-Identifier: Apache-2.0
// HTTP as a client inside a namespace speaks it, well or badly.
#pragma once

#include <chrono>
#include <string>

#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "tests/harness/traffic.h"

namespace poduplink::harness {

// Where a server listens: TCP in the namespace, or a unix socket.
struct Door {
  Endpoint endpoint;
  std::string path;  // of a unix socket; then `endpoint` means nothing

  // The agent's, where its configuration does not say otherwise.
  static Door standard();
};

struct HttpReply {
  int status = 0;
  std::string head;  // status line and fields
  std::string body;
};

// A connected socket. Errors: ECONNREFUSED, ENOENT and the like.
Result<Fd> connect_to(const Namespace& space, const Door& door);
// Sends the text as it is and reads until the other end closes. Errors: ETIMEDOUT; ECONNRESET; an answer that is no
// HTTP.
Result<HttpReply> exchange_http(const Namespace& space, const Door& door, const std::string& request,
                                std::chrono::milliseconds timeout = std::chrono::seconds(20));
Result<HttpReply> http_get(const Namespace& space, const std::string& path, const Door& door = Door::standard());

}  // namespace poduplink::harness
