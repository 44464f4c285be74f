// SPDX-License-Identifier: Apache-2.0
#include "loader/metrics/listen.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>

#include "loader/base/file.h"
#include "loader/base/log.h"

namespace poduplink {
namespace {

constexpr int backlog = 128;

struct Name {
  sockaddr_storage storage{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

template <typename Address>
Name name_of(const Address& address) {
  static_assert(sizeof(Address) <= sizeof(sockaddr_storage));
  Name name;
  name.size = sizeof(Address);
  std::copy_n(reinterpret_cast<const char*>(&address), sizeof(Address), reinterpret_cast<char*>(&name.storage));
  return name;
}

Name tcp_name(const IpAddress& address, std::uint16_t port) {
  if (address.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::ranges::copy(address.octets(), reinterpret_cast<std::uint8_t*>(&v4.sin_addr));
    return name_of(v4);
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::ranges::copy(address.octets(), v6.sin6_addr.s6_addr);
  return name_of(v6);
}

// The configuration has checked the length.
Name unix_name(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return name_of(address);
}

Result<Fd> open_socket(int family) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "socket");
  return fd;
}

Result<> bind_and_listen(int fd, const Name& name) {
  if (::bind(fd, name.get(), name.size) != 0) return fail_errno(errno, "bind");
  if (::listen(fd, backlog) != 0) return fail_errno(errno, "listen");
  return {};
}

Result<Fd> open_tcp(const IpAddress& address, std::uint16_t port) {
  PDL_TRY_ASSIGN(Fd fd, open_socket(address.is_v4() ? AF_INET : AF_INET6));
  const int yes = 1;
  const int no = 0;
  // Over connections that the agent before this one has closed.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (address.is_v6()) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));  // [::] is every address
  PDL_TRY(bind_and_listen(fd.get(), tcp_name(address, port)));
  return fd;
}

// What an agent that was killed has left. A socket that somebody answers on stays.
Result<> remove_stale_socket(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) return fail_errno(EEXIST, "it is no socket and stays as it is");
  PDL_TRY_ASSIGN(const Fd probe, open_socket(AF_UNIX));
  const Name name = unix_name(path);
  if (::connect(probe.get(), name.get(), name.size) == 0 || errno == EAGAIN)
    return Failure(Error{EADDRINUSE, errno_text(EADDRINUSE)});
  return remove_file(path);
}

Result<Fd> open_unix(const std::string& path) {
  PDL_TRY(remove_stale_socket(path));
  PDL_TRY_ASSIGN(Fd fd, open_socket(AF_UNIX));
  // The mode that the name is made with; the agent has one thread.
  constexpr mode_t all_but_owner_and_group = 0117;
  const mode_t before = ::umask(all_but_owner_and_group);
  Result<> bound = bind_and_listen(fd.get(), unix_name(path));
  ::umask(before);
  if (!bound) return Failure(std::move(bound.error()));
  return fd;
}

}  // namespace

std::optional<Listener::Inode> Listener::socket_at(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return std::nullopt;
  return Inode{status.st_dev, status.st_ino};
}

Result<Listener> Listener::open(const ListenAddress& address) {
  Result<Fd> fd = address.address ? open_tcp(*address.address, address.port) : open_unix(address.path);
  if (!fd) return fail_within(std::move(fd.error()), address.text());
  Listener listener(address, *std::move(fd));
  if (!address.address) listener.name_ = socket_at(address.path);
  return listener;
}

Listener::Listener(Listener&& other) noexcept
    : address_(std::move(other.address_)), fd_(std::move(other.fd_)), name_(std::exchange(other.name_, std::nullopt)) {}

Listener& Listener::operator=(Listener&& other) noexcept {
  if (this == &other) return *this;
  remove_name();
  address_ = std::move(other.address_);
  fd_ = std::move(other.fd_);
  name_ = std::exchange(other.name_, std::nullopt);
  return *this;
}

Listener::~Listener() { remove_name(); }

void Listener::remove_name() {
  if (!name_ || socket_at(address_.path) != name_) return;
  if (const auto removed = remove_file(address_.path); !removed) log_warning("{}", removed.error().message);
}

}  // namespace poduplink
