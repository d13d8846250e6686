// SPDX-License-Identifier: Apache-2.0
// How the command fails: one exception type that carries the exit code.
#pragma once
#include <stdexcept>
#include <string>

namespace lidx::command {

enum ExitCode : int {
    kDone = 0,
    kVerificationFailed = 1,
    kBadInput = 2,   // arguments, input files, and outputs that cannot be written
    kNoDevice = 3,   // no device, no driver, or none that serves
    kInternal = 4
};

struct Failure : std::runtime_error {
    Failure(ExitCode code, const std::string& message) : std::runtime_error(message), code(code) {}
    ExitCode code;
};

[[noreturn]] inline void bad_input(const std::string& message) { throw Failure(kBadInput, message); }

}  // namespace lidx::command
