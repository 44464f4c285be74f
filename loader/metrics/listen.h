// SPDX-License-Identifier: Apache-2.0
// The socket that metrics are served on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "loader/config.h"

namespace poduplink {

// A socket that listens. Destroyed, it takes the name of a unix socket away again, unless another has taken it: that is
// seen for as long as the descriptor is open, wherever it is.
class Listener {
 public:
  // TCP, or a unix socket of mode 0660; one that nobody listens on any more is replaced. Errors, with the address:
  // EADDRINUSE where another process listens, EADDRNOTAVAIL where no interface has the address, EEXIST where the path
  // is something else than a socket.
  static Result<Listener> open(const ListenAddress& address);
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&& other) noexcept;
  ~Listener();

  [[nodiscard]] const ListenAddress& address() const { return address_; }
  // Hands the descriptor over; the name stays this object's.
  [[nodiscard]] Fd take_fd() { return std::move(fd_); }

 private:
  Listener(ListenAddress address, Fd fd) : address_(std::move(address)), fd_(std::move(fd)) {}
  void remove_name();

  struct Inode {
    std::uint64_t device = 0;
    std::uint64_t number = 0;
    friend bool operator==(const Inode&, const Inode&) = default;
  };
  static std::optional<Inode> socket_at(const std::string& path);

  ListenAddress address_;
  Fd fd_;
  std::optional<Inode> name_;  // of a unix socket that this object made
};

}  // namespace poduplink
