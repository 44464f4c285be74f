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

// After this the program leaves an error object whatever ends it but SIGKILL: an uncaught exception, a fatal signal
// (with a line on standard error), and SIGTERM, SIGINT or SIGHUP where nobody holds them back.
void install_crash_handlers();
// The version that these objects bear from now on.
void prepare_crash_documents(std::string_view cni_version);

}  // namespace poduplink
