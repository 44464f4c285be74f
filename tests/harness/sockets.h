// SPDX-License-Identifier: Apache-2.0
// Sockets inside a namespace, for traffic.cpp and echo.cpp.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string_view>

#include "loader/base/fd.h"
#include "tests/harness/traffic.h"

namespace poduplink::harness {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress to_socket_address(const Endpoint& endpoint);
Endpoint to_endpoint(const SocketAddress& address);

// A socket that does not block and stays in the namespace. Errors: errno.
Result<Fd> open_socket(const Namespace& space, int family, int type, int protocol);
// Reuses addresses. Errors: errno with the endpoint.
Result<> bind_socket(const Fd& fd, const Endpoint& endpoint);

// All of it, also where there is no room for all at once: a slow machine is given 3 s for each part. Errors: ETIMEDOUT;
// errno.
Result<> send_whole(const Fd& fd, std::string_view octets);

}  // namespace poduplink::harness
