// SPDX-License-Identifier: Apache-2.0
#include "tests/upgrade/stream.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "loader/net/netns.h"
#include "tests/harness/require.h"

namespace poduplink::harness {
namespace {

constexpr std::uint16_t stream_port = 9;  // discard

Result<Fd> connected(const Namespace& space, const char* to) {
  PDL_TRY_ASSIGN(const NetnsScope inside, NetnsScope::enter(space.fd()));
  const IpAddress address = *IpAddress::parse(to);
  Fd fd(::socket(address.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  int code = 0;
  if (address.is_v4()) {
    sockaddr_in end{};
    end.sin_family = AF_INET;
    end.sin_port = htons(stream_port);
    std::memcpy(&end.sin_addr, address.octets().data(), sizeof(end.sin_addr));
    code = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&end), sizeof(end));  // NOLINT
  } else {
    sockaddr_in6 end{};
    end.sin6_family = AF_INET6;
    end.sin6_port = htons(stream_port);
    std::memcpy(&end.sin6_addr, address.octets().data(), sizeof(end.sin6_addr));
    code = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&end), sizeof(end));  // NOLINT
  }
  if (code != 0) return fail_errno(errno, "connecting to {}", to);
  return fd;
}

// A set of counters for each pod, and nothing answers: the gateway drops the packets behind the counter.
std::string counters(const Pod& pod) {
  return formatted(R"(
    table inet stream_{} {{
      chain prerouting {{
        type filter hook prerouting priority raw
        ip saddr {} udp dport {} counter drop
        ip6 saddr {} udp dport {} counter drop
      }}
    }})",
                   pod.name, pod.v4->text(), stream_port, pod.v6->text(), stream_port);
}

}  // namespace

Result<std::unique_ptr<Stream>> Stream::start(Lab& lab, const Pod& pod, unsigned rate) {
  for (const unsigned number : lab.uplink_numbers()) PDL_TRY(lab.gateway(number).nft(counters(pod)));
  PDL_TRY_ASSIGN(Fd v4, connected(*pod.space, outside4));
  PDL_TRY_ASSIGN(Fd v6, connected(*pod.space, outside6));
  std::unique_ptr<Stream> stream(new Stream(lab, pod, rate));
  stream->thread_ =
      std::thread([one = stream.get(), v4 = std::move(v4), v6 = std::move(v6)] { one->send(v4.get(), v6.get()); });
  return stream;
}

Stream::~Stream() { stop(); }

void Stream::send(int v4, int v6) {
  using Clock = std::chrono::steady_clock;
  const std::array<char, 22> payload{};
  const auto begin = Clock::now();
  while (!stop_) {
    const auto due = static_cast<std::uint64_t>(std::chrono::duration<double>(Clock::now() - begin).count() * rate_);
    // A machine that was busy elsewhere is not made up for by a burst that no queue would take.
    const std::uint64_t most = sent_ + 32;
    while (sent_ < due && sent_ < most) {
      if (::send(sent_ % 2 == 0 ? v4 : v6, payload.data(), payload.size(), 0) < 0) {
        if (errno == ENOBUFS || errno == EINTR) continue;
        error_ = errno_text(errno);
        return;
      }
      ++sent_;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::uint64_t Stream::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  return error_.empty() ? sent_ : 0;
}

Result<std::uint64_t> Stream::arrived(unsigned uplink) const {
  PDL_TRY_ASSIGN(const std::string text,
                 lab_.gateway(uplink).run_ok({"nft", "list", "table", "inet", "stream_" + pod_.name}));
  constexpr std::string_view label = "counter packets ";
  std::uint64_t sum = 0;
  for (std::size_t at = text.find(label); at != std::string::npos; at = text.find(label, at + 1))
    sum += std::stoull(text.substr(at + label.size()));
  return sum;
}

void all_arrived(Stream& stream, const Lab& lab, const Pod& pod) {
  INFO(pod.name);
  const std::uint64_t sent = stream.stop();
  REQUIRE(sent > 0);
  CHECK(eventually([&] { return value_of(stream.arrived(pod.uplink)) >= sent; }));
  for (const unsigned number : lab.uplink_numbers())
    CHECK(value_of(stream.arrived(number)) == (number == pod.uplink ? sent : 0));
}

}  // namespace poduplink::harness
