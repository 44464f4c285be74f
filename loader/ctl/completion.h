// SPDX-License-Identifier: Apache-2.0
// Completion by the shell, made from the options themselves, so that it knows what the program knows.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace poduplink::ctl {

// A script for bash. What is completed: commands, options, their values where these are few words, files where an
// option's type is FILE, folders for DIR, and addresses of the node's pods for ADDRESS where the command's first word
// is asked for.
std::string bash_completion(const CLI::App& app);

}  // namespace poduplink::ctl
