// SPDX-License-Identifier: Apache-2.0
// sd-event, sd_notify and the signals of a service, behind functions that the agent needs. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "loader/base/result.h"

struct sd_event;
struct sd_event_source;
struct signalfd_siginfo;

namespace poduplink {

// A watch or a timer that ends with this object, which ends before its loop. It gets its turn after all else that
// waits.
class LoopSource {
 public:
  explicit LoopSource(std::function<void()> callback) : callback_(std::move(callback)) {}
  ~LoopSource();
  LoopSource(const LoopSource&) = delete;
  LoopSource& operator=(const LoopSource&) = delete;

  // Of a timer: calls back once, this much later and in place of what was set before; nothing: not at all.
  void set(std::optional<std::chrono::microseconds> delay);

 private:
  friend class EventLoop;
  std::function<void()> callback_;
  sd_event_source* source_ = nullptr;
};

// Ends at SIGTERM and SIGINT. Answers systemd's watchdog by itself.
class EventLoop {
 public:
  using Callback = std::function<void()>;

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls back whenever a descriptor can be read. Errors: errno.
  Result<> watch(int fd, Callback callback);
  // The same for as long as the object lives. Errors: errno.
  Result<std::unique_ptr<LoopSource>> watch_meanwhile(int fd, Callback callback);
  // Not set at first. Errors: errno.
  Result<std::unique_ptr<LoopSource>> timer(Callback callback);
  // Calls back at SIGHUP.
  void on_hangup(Callback callback) { hangup_ = std::move(callback); }
  void on_wake(Callback callback) { wake_ = std::move(callback); }
  // Calls the wake callback once, this much later, or earlier where that was asked for already.
  void wake_in(std::chrono::microseconds delay);
  // Calls back at this pace for as long as it returns true.
  void every(std::chrono::microseconds interval, std::function<bool()> callback);

  // READY=1 the first time that `ready` is true; STATUS= where the text changed. Nothing without systemd.
  void notify(bool ready, const std::string& status);

  // Until a signal ends it. Errors: errno of the loop itself.
  Result<> run();

 private:
  static int on_signal(sd_event_source* source, const signalfd_siginfo* info, void* loop);

  struct Pace {
    std::chrono::microseconds pace;
    std::function<bool()> callback;
    sd_event_source* source = nullptr;
  };

  sd_event* event_ = nullptr;
  sd_event_source* wake_source_ = nullptr;
  std::list<Callback> watchers_;  // stable addresses: sd-event keeps pointers
  std::list<Pace> paces_;
  Callback wake_;
  Callback hangup_;
  bool told_ready_ = false;
  std::string told_status_;
  bool wake_pending_ = false;
  std::uint64_t wake_at_ = 0;
};

}  // namespace poduplink
