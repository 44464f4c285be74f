// SPDX-License-Identifier: Apache-2.0
#include "loader/event_loop.h"

#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

#include <csignal>
#include <ctime>

#include "loader/base/log.h"

namespace poduplink {
namespace {

std::uint64_t now_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000U + static_cast<std::uint64_t>(now.tv_nsec) / 1000U;
}

constexpr std::uint32_t readable = 1;  // EPOLLIN

int call_source(void* callback) {
  (*static_cast<std::function<void()>*>(callback))();
  return 0;
}

}  // namespace

LoopSource::~LoopSource() { sd_event_source_disable_unref(source_); }

void LoopSource::set(std::optional<std::chrono::microseconds> delay) {
  if (delay) sd_event_source_set_time(source_, now_us() + static_cast<std::uint64_t>(delay->count()));
  if (const int code = sd_event_source_set_enabled(source_, delay ? SD_EVENT_ONESHOT : SD_EVENT_OFF); code < 0)
    log_error("setting a timer: {}", errno_text(-code));
}

Result<std::unique_ptr<LoopSource>> EventLoop::watch_meanwhile(int fd, Callback callback) {
  auto watched = std::make_unique<LoopSource>(std::move(callback));
  const auto call = [](sd_event_source*, int, std::uint32_t, void* data) { return call_source(data); };
  if (const int code = sd_event_add_io(event_, &watched->source_, fd, readable, call, &watched->callback_); code < 0)
    return fail_errno(-code, "watching a descriptor");
  sd_event_source_set_priority(watched->source_, SD_EVENT_PRIORITY_IDLE);
  return watched;
}

Result<std::unique_ptr<LoopSource>> EventLoop::timer(Callback callback) {
  auto timer = std::make_unique<LoopSource>(std::move(callback));
  const auto call = [](sd_event_source*, std::uint64_t, void* data) { return call_source(data); };
  constexpr std::uint64_t accuracy_us = 1000;
  const int code = sd_event_add_time(event_, &timer->source_, CLOCK_MONOTONIC, 0, accuracy_us, call, &timer->callback_);
  if (code < 0) return fail_errno(-code, "making a timer");
  sd_event_source_set_enabled(timer->source_, SD_EVENT_OFF);
  sd_event_source_set_priority(timer->source_, SD_EVENT_PRIORITY_IDLE);
  return timer;
}

int EventLoop::on_signal(sd_event_source* source, const signalfd_siginfo* info, void* loop) {
  if (info->ssi_signo == SIGHUP) {
    if (const Callback& hangup = static_cast<EventLoop*>(loop)->hangup_) hangup();
    return 0;
  }
  log_info("ending at signal {}", info->ssi_signo);
  return sd_event_exit(sd_event_source_get_event(source), 0);
}

EventLoop::EventLoop() {
  // Blocked before anything else, so that a signal during the start is not lost and ends the program in order.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  if (sd_event_new(&event_) < 0) return;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    sd_event_add_signal(event_, nullptr, signal, &EventLoop::on_signal, this);
  sd_event_set_watchdog(event_, 1);
}

EventLoop::~EventLoop() {
  for (const Pace& pace : paces_) sd_event_source_unref(pace.source);
  sd_event_source_unref(wake_source_);
  sd_event_unref(event_);
}

Result<> EventLoop::watch(int fd, Callback callback) {
  watchers_.push_back(std::move(callback));
  const auto call = [](sd_event_source*, int, std::uint32_t, void* data) {
    (*static_cast<Callback*>(data))();
    return 0;
  };
  if (const int code = sd_event_add_io(event_, nullptr, fd, readable, call, &watchers_.back()); code < 0)
    return fail_errno(-code, "watching a descriptor");
  return {};
}

void EventLoop::wake_in(std::chrono::microseconds delay) {
  const std::uint64_t when = now_us() + static_cast<std::uint64_t>(delay.count());
  if (wake_pending_ && wake_at_ <= when) return;
  wake_pending_ = true;
  wake_at_ = when;
  const auto call = [](sd_event_source*, std::uint64_t, void* data) {
    auto* loop = static_cast<EventLoop*>(data);
    loop->wake_pending_ = false;
    if (loop->wake_) loop->wake_();
    return 0;
  };
  sd_event_source_unref(wake_source_);
  wake_source_ = nullptr;
  if (const int code = sd_event_add_time(event_, &wake_source_, CLOCK_MONOTONIC, when, 1000, call, this); code < 0)
    log_error("setting a timer: {}", errno_text(-code));
}

void EventLoop::every(std::chrono::microseconds interval, std::function<bool()> callback) {
  Pace& pace = paces_.emplace_back(Pace{interval, std::move(callback), nullptr});
  const auto call = [](sd_event_source* source, std::uint64_t, void* data) {
    auto* own = static_cast<Pace*>(data);
    if (!own->callback()) return 0;
    sd_event_source_set_time(source, now_us() + static_cast<std::uint64_t>(own->pace.count()));
    return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
  };
  const std::uint64_t first = now_us() + static_cast<std::uint64_t>(interval.count());
  if (const int code = sd_event_add_time(event_, &pace.source, CLOCK_MONOTONIC, first, 0, call, &pace); code < 0)
    log_error("setting a timer: {}", errno_text(-code));
}

void EventLoop::notify(bool ready, const std::string& status) {
  if (ready && !told_ready_) {
    sd_notify(0, "READY=1");
    told_ready_ = true;
  }
  if (status == told_status_) return;
  // One line: a newline would start another field.
  std::string text = "STATUS=" + status;
  for (char& letter : text) {
    if (letter == '\n') letter = ' ';
  }
  sd_notify(0, text.c_str());
  told_status_ = status;
}

Result<> EventLoop::run() {
  if (event_ == nullptr) return fail("no event loop");
  const int code = sd_event_loop(event_);
  sd_notify(0, "STOPPING=1");
  if (code < 0) return fail_errno(-code, "event loop");
  return {};
}

}  // namespace poduplink
