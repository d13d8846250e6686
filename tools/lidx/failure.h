// SPDX-License-Identifier: Apache-2.0
// The command's exit codes, and what it shares with the other commands: failures, files, .npy, JSON.
#pragma once
#include "tool_failure.h"

namespace tool {}
namespace lidx::command {

using namespace tool;

enum ExitCode : int {
    kDone = 0,
    kVerificationFailed = 1,
    kBadInput = kBadInputCode,
    kNoDevice = 3,   // no device, no driver, or none that serves
    kInternal = kInternalCode
};

}  // namespace lidx::command
