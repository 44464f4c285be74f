// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>

#include "loader/net/netns.h"
#include "tests/harness/sockets.h"

namespace poduplink::harness {

SocketAddress to_socket_address(const Endpoint& endpoint) {
  SocketAddress result;
  if (endpoint.address.is_v4()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(endpoint.port);
    std::memcpy(&address.sin_addr, endpoint.address.octets().data(), sizeof(address.sin_addr));
    std::memcpy(&result.storage, &address, sizeof(address));
    result.size = sizeof(address);
  } else {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(endpoint.port);
    std::memcpy(&address.sin6_addr, endpoint.address.octets().data(), sizeof(address.sin6_addr));
    std::memcpy(&result.storage, &address, sizeof(address));
    result.size = sizeof(address);
  }
  return result;
}

Endpoint to_endpoint(const SocketAddress& address) {
  Endpoint result;
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in plain;
    std::memcpy(&plain, &address.storage, sizeof(plain));
    std::array<std::uint8_t, 4> octets{};
    std::memcpy(octets.data(), &plain.sin_addr, octets.size());
    result = {IpAddress::v4(octets), ntohs(plain.sin_port)};
  } else if (address.storage.ss_family == AF_INET6) {
    sockaddr_in6 plain;
    std::memcpy(&plain, &address.storage, sizeof(plain));
    std::array<std::uint8_t, 16> octets{};
    std::memcpy(octets.data(), &plain.sin6_addr, octets.size());
    result = {IpAddress::v6(octets), ntohs(plain.sin6_port)};
  }
  return result;
}

Result<Fd> open_socket(const Namespace& space, int family, int type, int protocol) {
  PDL_TRY_ASSIGN(const NetnsScope inside, NetnsScope::enter(space.fd()));
  Fd fd(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  if (!fd) return fail_errno(errno, "socket in {}", space.name());
  return fd;
}

Result<> bind_socket(const Fd& fd, const Endpoint& endpoint) {
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const SocketAddress address = to_socket_address(endpoint);
  if (bind(fd.get(), address.get(), address.size) != 0) return fail_errno(errno, "binding {}", endpoint.text());
  return {};
}

Result<> send_whole(const Fd& fd, std::string_view octets) {
  constexpr int patience_ms = 3000;
  while (!octets.empty()) {
    pollfd room{fd.get(), POLLOUT, 0};
    if (poll(&room, 1, patience_ms) <= 0) return fail_errno(ETIMEDOUT, "no room to send");
    const ssize_t sent = send(fd.get(), octets.data(), octets.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) continue;
    if (sent < 0) return fail_errno(errno, "send");
    octets.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

// One thread serves all its sockets; they stay in their namespace wherever the thread is.
struct EchoServer::State {
  enum class Kind { datagram, listener, stream };
  struct Socket {
    Fd fd;
    Kind kind;
  };

  std::vector<Socket> sockets;
  Fd stop;
  mutable std::mutex mutex;
  std::vector<Endpoint> clients;
  std::thread server;

  void serve() {
    for (;;) {
      std::vector<pollfd> polled{{stop.get(), POLLIN, 0}};
      for (const Socket& socket : sockets) polled.push_back({socket.fd.get(), POLLIN, 0});
      if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
      if (polled[0].revents != 0) return;
      // Accepting adds sockets at the end, behind those that were polled.
      for (std::size_t i = 1; i < polled.size(); ++i) {
        if (polled[i].revents != 0) handle(i - 1);
      }
      std::erase_if(sockets, [](const Socket& socket) { return !socket.fd; });
    }
  }

  void handle(std::size_t place) {
    switch (sockets[place].kind) {
      case Kind::datagram:
        answer_datagram(sockets[place].fd);
        break;
      case Kind::listener:
        accept_stream(sockets[place].fd.get());
        break;
      case Kind::stream:
        answer_stream(sockets[place].fd);
        break;
    }
  }

  void note(const SocketAddress& client) {
    const std::lock_guard hold(mutex);
    clients.push_back(to_endpoint(client));
  }

  void answer_datagram(const Fd& fd) {
    std::array<char, 65536> buffer;
    SocketAddress from;
    from.size = sizeof(from.storage);
    const ssize_t size = recvfrom(fd.get(), buffer.data(), buffer.size(), 0, from.get(), &from.size);
    if (size < 0) return;
    note(from);
    sendto(fd.get(), buffer.data(), static_cast<std::size_t>(size), 0, from.get(), from.size);
  }

  void accept_stream(int listener) {
    SocketAddress from;
    from.size = sizeof(from.storage);
    Fd stream(accept4(listener, from.get(), &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!stream) return;
    note(from);
    sockets.push_back({std::move(stream), Kind::stream});
  }

  static void answer_stream(Fd& fd) {
    std::array<char, 65536> buffer;
    const ssize_t size = recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (size > 0) {
      if (!send_whole(fd, {buffer.data(), static_cast<std::size_t>(size)})) fd.reset();
    } else if (size == 0 || errno != EAGAIN) {
      fd.reset();
    }
  }
};

EchoServer::EchoServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
EchoServer::EchoServer(EchoServer&& other) noexcept = default;

EchoServer& EchoServer::operator=(EchoServer&& other) noexcept {
  state_.swap(other.state_);
  return *this;
}

EchoServer::~EchoServer() {
  if (!state_) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(state_->stop.get(), &one, sizeof(one));
  state_->server.join();
}

Result<EchoServer> EchoServer::start(const Namespace& space, const std::vector<Endpoint>& endpoints) {
  auto state = std::make_unique<State>();
  for (const Endpoint& endpoint : endpoints) {
    const int family = endpoint.address.address_family();
    PDL_TRY_ASSIGN(Fd datagram, open_socket(space, family, SOCK_DGRAM, 0));
    PDL_TRY(bind_socket(datagram, endpoint));
    state->sockets.push_back({std::move(datagram), State::Kind::datagram});
    PDL_TRY_ASSIGN(Fd listener, open_socket(space, family, SOCK_STREAM, 0));
    PDL_TRY(bind_socket(listener, endpoint));
    if (listen(listener.get(), 64) != 0) return fail_errno(errno, "listening on {}", endpoint.text());
    state->sockets.push_back({std::move(listener), State::Kind::listener});
  }
  state->stop.reset(eventfd(0, EFD_CLOEXEC));
  if (!state->stop) return fail_errno(errno, "eventfd");
  State* shared = state.get();
  state->server = std::thread([shared] { shared->serve(); });
  return EchoServer(std::move(state));
}

std::vector<Endpoint> EchoServer::clients() const {
  const std::lock_guard hold(state_->mutex);
  return state_->clients;
}

}  // namespace poduplink::harness
