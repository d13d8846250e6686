// SPDX-License-Identifier: Apache-2.0
// A module's .global and .const variables in device memory.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "ir.h"
#include "memory.h"

namespace ptxemu {

struct VariableMemoryError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Allocates and initialises them; the result is what decode() takes. Throws PtxError, or VariableMemoryError where
// memory ran out, and leaves nothing allocated then.
std::map<std::string, uint64_t> place_variables(const Module& module, GlobalMemory& memory);

}   // namespace ptxemu
