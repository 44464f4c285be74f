// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/http.h"

#include <poll.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "tests/harness/sockets.h"

namespace poduplink::harness {
namespace {

using Clock = std::chrono::steady_clock;

// Waits until the socket can be read or written.
Result<> wait_for(int fd, short events, Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd one{fd, events, 0};
  const int ready = ::poll(&one, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  if (ready < 0) return fail_errno(errno, "poll");
  if (ready == 0) return fail_errno(ETIMEDOUT, "HTTP");
  return {};
}

SocketAddress address_of(const Door& door) {
  if (door.path.empty()) return to_socket_address(door.endpoint);
  SocketAddress address;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  door.path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  std::copy_n(reinterpret_cast<const char*>(&name), sizeof(name), reinterpret_cast<char*>(&address.storage));
  address.size = sizeof(name);
  return address;
}

Result<std::string> read_to_end(int fd, Clock::time_point deadline) {
  std::string all;
  std::array<char, 4096> part{};
  for (;;) {
    PDL_TRY(wait_for(fd, POLLIN, deadline));
    const ssize_t got = ::recv(fd, part.data(), part.size(), 0);
    if (got < 0 && errno == EAGAIN) continue;
    // What is closed before all of a request was read is reset; the answer came before.
    if (got < 0 && (errno != ECONNRESET || all.empty())) return fail_errno(errno, "HTTP answer");
    if (got <= 0) return all;
    all.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

Door Door::standard() { return {.endpoint = {IpAddress::v4(std::array<std::uint8_t, 4>{127, 0, 0, 1}), 9465}}; }

Result<Fd> connect_to(const Namespace& space, const Door& door) {
  const SocketAddress address = address_of(door);
  PDL_TRY_ASSIGN(Fd fd, open_socket(space, address.get()->sa_family, SOCK_STREAM, 0));
  if (::connect(fd.get(), address.get(), address.size) == 0) return fd;
  if (errno != EINPROGRESS) return fail_errno(errno, "connect");
  PDL_TRY(wait_for(fd.get(), POLLOUT, Clock::now() + std::chrono::seconds(10)));
  int code = 0;
  socklen_t size = sizeof(code);
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
  if (code != 0) return fail_errno(code, "connect");
  return fd;
}

Result<HttpReply> exchange_http(const Namespace& space, const Door& door, const std::string& request,
                                std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  PDL_TRY_ASSIGN(const Fd fd, connect_to(space, door));
  for (std::size_t sent = 0; sent < request.size();) {
    PDL_TRY(wait_for(fd.get(), POLLOUT, deadline));
    const ssize_t now = ::send(fd.get(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EAGAIN) continue;
    if (now < 0) break;  // it wants no more of it; what it has to say is there to be read
    sent += static_cast<std::size_t>(now);
  }
  PDL_TRY_ASSIGN(const std::string text, read_to_end(fd.get(), deadline));
  const std::size_t end = text.find("\r\n\r\n");
  HttpReply reply;
  if (!text.starts_with("HTTP/1.") || end == std::string::npos) return fail("no HTTP: '{}'", one_line(text));
  std::from_chars(text.data() + 9, text.data() + 12, reply.status);
  reply.head = text.substr(0, end + 2);
  reply.body = text.substr(end + 4);
  return reply;
}

Result<HttpReply> http_get(const Namespace& space, const std::string& path, const Door& door) {
  return exchange_http(space, door, "GET " + path + " HTTP/1.1\r\nHost: node\r\n\r\n");
}

}  // namespace poduplink::harness
