// SPDX-License-Identifier: Apache-2.0
// One input of the fuzzers: PTX text that is parsed, decoded and, with a small budget of instructions, run.
#pragma once
#include <cstddef>
#include <cstdint>

// Ends the process where the emulator breaks its promise: an error without a line, an exception of another kind, a
// result that it calls a defect of its own. Everything else (a hang, a wild access) is the sanitizers' to see.
void ptx_fuzz_one(const uint8_t* data, size_t bytes);
