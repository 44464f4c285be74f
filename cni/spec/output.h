// SPDX-License-Identifier: Apache-2.0
// Standard output carries exactly one JSON document, or nothing.
#pragma once

#include <string_view>

#include "cni/spec/error.h"

namespace poduplink {

// Makes descriptors 0, 1 and 2 exist, so that no file opened later takes their place, and ignores SIGPIPE, so
// that a reader who is gone becomes an error of write. A program started from here inherits that: reset it.
void prepare_standard_streams();

// Writes all of it. Errors: errno of write.
Result<> write_document(std::string_view document);

// The error object on standard output; where that cannot be written, one line on standard error. Returns the
// exit code of the program.
int report_error(const CniError& error, std::string_view cni_version);

// After these a crash leaves a message too: an error object for an uncaught exception, a line on standard
// error for a fatal signal.
void install_crash_handlers();

}  // namespace poduplink
