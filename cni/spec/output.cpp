// SPDX-License-Identifier: Apache-2.0
#include "cni/spec/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>

#include "cni/spec/versions.h"
#include "loader/base/file.h"
#include "loader/base/log.h"

namespace poduplink {
namespace {

volatile std::sig_atomic_t document_written = 0;

// What a signal leaves on standard output, made beforehand: in a handler nothing can be built.
std::string crash_document;
std::string stop_document;

void write_prepared(const std::string& document) {
  if (document_written != 0) return;
  document_written = 1;
  (void)!::write(STDOUT_FILENO, document.data(), document.size());
}

[[noreturn]] void on_terminate() {
  if (document_written == 0) {
    (void)report_error(CniError{cni_code::internal, "uncaught exception", {}}, newest_version);
  }
  std::_Exit(1);
}

void on_fatal_signal(int number) {
  constexpr std::string_view text = "poduplink: ended by a fatal signal, which is a fault of the program\n";
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  write_prepared(crash_document);
  (void)::signal(number, SIG_DFL);
  (void)::raise(number);
}

// Nothing that a verb does is harmed by an end at any moment; but the runtime wants to hear of it.
void on_stop_signal(int /*number*/) {
  write_prepared(stop_document);
  ::_exit(1);
}

}  // namespace

void prepare_standard_streams() {
  // Read-only also for standard output: writing must fail where the caller has closed it.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) {
    if (::fcntl(fd, F_GETFD) == -1) (void)!::open("/dev/null", O_RDONLY);
  }
  if (::fcntl(STDERR_FILENO, F_GETFD) == -1) (void)!::open("/dev/null", O_WRONLY);
  (void)::signal(SIGPIPE, SIG_IGN);
}

Result<> write_document(std::string_view document) {
  document_written = 1;
  return write_all(STDOUT_FILENO, document);
}

int report_error(const CniError& error, std::string_view cni_version) {
  if (const auto written = write_document(print_error(error, cni_version)); !written) {
    log_error("{} (standard output: {})", error.msg, written.error().message);
  }
  return 1;
}

void install_crash_handlers() {
  prepare_crash_documents(newest_version);
  std::set_terminate(&on_terminate);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) (void)::signal(number, &on_fatal_signal);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    // A signal that the caller has us ignore stays ignored.
    if (::signal(number, &on_stop_signal) == SIG_IGN) (void)::signal(number, SIG_IGN);
  }
}

void prepare_crash_documents(std::string_view cni_version) {
  crash_document =
      print_error({cni_code::internal, "ended by a fatal signal, which is a fault of the program", {}}, cni_version);
  stop_document = print_error({cni_code::try_again, "ended by a signal", {}}, cni_version);
}

}  // namespace poduplink
