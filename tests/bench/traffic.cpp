// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/traffic.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <future>
#include <stdexcept>
#include <vector>

#include "tests/bench/drain.h"
#include "tests/bench/must.h"
#include "tests/harness/sockets.h"

namespace poduplink::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;
using harness::Endpoint;
using harness::SocketAddress;

constexpr std::uint16_t service_port = 5001;
// Longer than anything here takes: nobody waits for ever for a peer that is gone.
constexpr timeval patience{.tv_sec = 10, .tv_usec = 0};
// Caches, and the window of a TCP connection.
constexpr std::chrono::milliseconds warm_up{20};

[[noreturn]] void give_up(const std::string& step) {
  const int code = errno;
  throw std::runtime_error(formatted("{}: {}", step, errno_text(code)));
}

// ---- the core and its time ---------------------------------------------------------------------

// The last one: devices like to interrupt the first.
unsigned find_core() {
  cpu_set_t allowed{};
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) give_up("sched_getaffinity");
  unsigned core = CPU_SETSIZE - 1;
  while (core > 0 && !CPU_ISSET(core, &allowed)) --core;
  return core;
}

// Keeps the calling thread on the core while it lives.
class Pinned {
 public:
  Pinned() {
    static const unsigned core = find_core();
    cpu_set_t wanted{};
    CPU_SET(core, &wanted);
    if (::sched_getaffinity(0, sizeof(before_), &before_) != 0 || ::sched_setaffinity(0, sizeof(wanted), &wanted) != 0)
      give_up(formatted("staying on core {}", core));
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { ::sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_{};
};

// That this process has spent on processors, s.
double spent() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + (static_cast<double>(time.tv_nsec) / 1e9);
}

// Calls `step` until the time is over. Returns what was spent.
template <typename Step>
double repeat_for(std::chrono::milliseconds duration, Step step) {
  const double before = spent();
  for (const auto end = Clock::now() + duration; Clock::now() < end;) step();
  return spent() - before;
}

// ---- sockets -----------------------------------------------------------------------------------

template <typename T>
void set_option(const Fd& fd, int level, int option, const T& value) {
  if (::setsockopt(fd.get(), level, option, &value, sizeof(value)) != 0)
    give_up(formatted("socket option {} of level {}", option, level));
}

// Waits, but not for ever.
void make_blocking(const Fd& fd) {
  if (::fcntl(fd.get(), F_SETFL, 0) != 0) give_up("fcntl");
  set_option(fd, SOL_SOCKET, SO_RCVTIMEO, patience);
  set_option(fd, SOL_SOCKET, SO_SNDTIMEO, patience);
}

Fd bound_socket(const harness::Namespace& space, const Endpoint& local, int type) {
  Fd fd = must(harness::open_socket(space, local.address.address_family(), type, 0));
  make_blocking(fd);
  must(harness::bind_socket(fd, local));
  return fd;
}

Fd connected(const Path& path, int type, std::uint16_t port) {
  Fd fd = bound_socket(*path.from, {path.source, 0}, type);
  const Endpoint to{path.destination, port};
  const SocketAddress address = harness::to_socket_address(to);
  if (::connect(fd.get(), address.get(), address.size) != 0) give_up("connecting to " + to.text());
  if (type == SOCK_STREAM) set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  return fd;
}

Fd listening(const Path& path) {
  const Endpoint at{path.destination, service_port};
  Fd fd = bound_socket(*path.to, at, SOCK_STREAM);
  if (::listen(fd.get(), 16) != 0) give_up("listening on " + at.text());
  return fd;
}

// Nothing where the listener was shut down.
Fd accepted(const Fd& listener) {
  Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd && errno == EINVAL) return fd;
  if (!fd) give_up("accept");
  make_blocking(fd);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  return fd;
}

// The other end, in a thread. What it throws get() does.
template <typename Serve>
std::future<void> in_thread(Serve serve) {
  return std::async(std::launch::async, [serve] {
    const Pinned pinned;
    serve();
  });
}

void ask(const Fd& fd) {
  char octet = 'x';
  if (::send(fd.get(), &octet, 1, MSG_NOSIGNAL) != 1) give_up("asking");
  if (::recv(fd.get(), &octet, 1, 0) != 1) give_up("waiting for an answer");
}

// Until the client goes.
void answer(const Fd& fd) {
  char octet = 0;
  while (::recv(fd.get(), &octet, 1, 0) == 1 && ::send(fd.get(), &octet, 1, MSG_NOSIGNAL) == 1) continue;
}

// ---- packets -----------------------------------------------------------------------------------

// What fills an Ethernet frame of 60 octets and an FCS. The headers of IPv6 and UDP do without.
std::size_t smallest_payload(const IpAddress& address) { return address.is_v4() ? 60 - 14 - 20 - 8 : 0; }

// Messages that are sent again and again.
class Batch {
 public:
  explicit Batch(std::size_t payload) {
    parts_.fill({.iov_base = octets_.data(), .iov_len = payload});
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      messages_.at(i).msg_hdr.msg_iov = &parts_.at(i);
      messages_.at(i).msg_hdr.msg_iovlen = 1;
    }
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() = default;

  // At most so many, and how many went.
  unsigned send(const Fd& socket, unsigned most) {
    const int sent = ::sendmmsg(socket.get(), messages_.data(), std::min(most, batch_size), 0);
    if (sent < 0) give_up("sendmmsg");
    return static_cast<unsigned>(sent);
  }
  unsigned send(const Fd& socket) { return send(socket, batch_size); }

 private:
  static constexpr unsigned batch_size = 64;
  std::array<char, 64> octets_{};  // more than any payload here
  std::array<iovec, batch_size> parts_{};
  std::array<mmsghdr, batch_size> messages_{};
};

double percentile(std::vector<double>& values, double part) {
  const auto place = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + place);
  return values.at(static_cast<std::size_t>(place));
}

}  // namespace

Flood::Flood(const Path& path)
    : socket_(connected(path, SOCK_DGRAM, discard_port)), payload_(smallest_payload(path.source)) {}

Sent Flood::send_for(std::chrono::milliseconds duration) const {
  const Pinned pinned;
  Batch batch(payload_);
  Sent sent;
  sent.seconds = repeat_for(duration, [&] { sent.packets += batch.send(socket_); });
  return sent;
}

void Flood::send(unsigned packets) const {
  const Pinned pinned;
  Batch batch(payload_);
  while (packets > 0) packets -= batch.send(socket_, packets);
}

double stream(const Path& path, std::chrono::milliseconds duration) {
  const Pinned pinned;
  const Fd listener = listening(path);
  std::atomic<std::uint64_t> received{0};
  std::future<void> server = in_thread([&] {
    const Fd fd = accepted(listener);
    std::vector<char> buffer(1U << 18U);
    for (ssize_t size = 1; size > 0;) {
      size = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
      if (size > 0) received += static_cast<std::uint64_t>(size);
    }
  });
  Fd fd = connected(path, SOCK_STREAM, service_port);
  const std::vector<char> buffer(1U << 16U, 'x');
  const auto send = [&] {
    if (::send(fd.get(), buffer.data(), buffer.size(), MSG_NOSIGNAL) < 0) give_up("sending");
  };
  repeat_for(warm_up, send);
  const std::uint64_t before = received;
  const double seconds = repeat_for(duration, send);
  const auto octets = static_cast<double>(received - before);
  fd.reset();
  server.get();
  return octets * 8 / 1e6 / seconds;
}

RoundTrips round_trips(const Path& path, std::chrono::milliseconds duration) {
  const Pinned pinned;
  const Fd listener = listening(path);
  std::future<void> server = in_thread([&] { answer(accepted(listener)); });
  Fd fd = connected(path, SOCK_STREAM, service_port);
  repeat_for(warm_up, [&] { ask(fd); });
  std::vector<double> taken;
  repeat_for(duration, [&] {
    const auto begin = Clock::now();
    ask(fd);
    taken.push_back(Microseconds(Clock::now() - begin).count());
  });
  fd.reset();
  server.get();
  return {.median = percentile(taken, 0.5), .p99 = percentile(taken, 0.99)};
}

double connections(const Path& path, std::chrono::milliseconds duration) {
  const Pinned pinned;
  const Fd listener = listening(path);
  std::future<void> server = in_thread([&] {
    for (Fd fd = accepted(listener); fd; fd = accepted(listener)) answer(fd);
  });
  // Reset, so that no TIME_WAIT stays behind: a run makes more connections than there are ports.
  const auto connect_once = [&] {
    const Fd fd = connected(path, SOCK_STREAM, service_port);
    set_option(fd, SOL_SOCKET, SO_LINGER, linger{.l_onoff = 1, .l_linger = 0});
    ask(fd);
  };
  repeat_for(warm_up, connect_once);
  unsigned made = 0;
  const double seconds = repeat_for(duration, [&] {
    connect_once();
    ++made;
  });
  ::shutdown(listener.get(), SHUT_RDWR);
  server.get();
  return made / seconds;
}

}  // namespace poduplink::bench
