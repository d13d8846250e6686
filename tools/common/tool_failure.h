// SPDX-License-Identifier: Apache-2.0
// How a command fails: one exception type that carries the exit code.
#pragma once
#include <stdexcept>
#include <string>

namespace tool {

// Arguments, input files, and outputs that cannot be written; the same in every command of this project.
inline constexpr int kBadInputCode = 2;
inline constexpr int kInternalCode = 4;   // a defect of the command itself

struct Failure : std::runtime_error {
    Failure(int code, const std::string& message) : std::runtime_error(message), code(code) {}
    int code;
};

[[noreturn]] inline void bad_input(const std::string& message) { throw Failure(kBadInputCode, message); }

}  // namespace tool
