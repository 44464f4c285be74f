// SPDX-License-Identifier: Apache-2.0
// Traffic as programs in pods make it: sockets opened inside a namespace, used from the test's own thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/base/address.h"
#include "loader/base/result.h"
#include "tests/harness/namespace.h"

namespace poduplink::harness {

struct Endpoint {
  IpAddress address;
  std::uint16_t port = 0;

  [[nodiscard]] std::string text() const;
};

// One transport packet and where it comes from. An absent `from` lets the kernel choose.
struct Datagram {
  Endpoint to;
  std::optional<IpAddress> from;
  std::uint16_t from_port = 0;  // 0: any
  std::string payload = "poduplink";
  int ttl = 0;  // or hop limit; 0: the kernel's default, 64
};

// Sends without waiting for an answer. Errors: errno of the socket calls, with both ends.
Result<> send_udp(const Namespace& space, const Datagram& datagram);

// Sends and waits for the answer, which is returned. Errors: ETIMEDOUT, ECONNREFUSED and the like.
Result<std::string> exchange_udp(const Namespace& space, const Datagram& datagram,
                                 std::chrono::milliseconds timeout = std::chrono::seconds(3));
// Connects, sends, reads as many octets as were sent, closes.
Result<std::string> exchange_tcp(const Namespace& space, const Datagram& datagram,
                                 std::chrono::milliseconds timeout = std::chrono::seconds(3));
// One ICMP echo request and its answer (ports mean nothing). Errors: ETIMEDOUT.
Result<> ping(const Namespace& space, const Datagram& datagram,
              std::chrono::milliseconds timeout = std::chrono::seconds(3));
// One echo request; no answer is waited for.
Result<> send_ping(const Namespace& space, const Datagram& datagram);

// Answers every UDP datagram and every TCP stream with what came in, from the address that was asked.
class EchoServer {
 public:
  // Errors: EADDRNOTAVAIL, EADDRINUSE naming the endpoint.
  static Result<EchoServer> start(const Namespace& space, const std::vector<Endpoint>& endpoints);
  EchoServer(EchoServer&& other) noexcept;
  EchoServer& operator=(EchoServer&& other) noexcept;
  ~EchoServer();

  // Who asked so far, in order, as the server saw them.
  [[nodiscard]] std::vector<Endpoint> clients() const;

 private:
  struct State;
  explicit EchoServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace poduplink::harness
