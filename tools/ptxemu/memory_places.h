// SPDX-License-Identifier: Apache-2.0
// What an address is to a person: "byte 16 of the 16 bytes of buffer x", "byte 4 of variable tile".
#pragma once
#include <cstdint>
#include <string>

#include "engine.h"
#include "memory.h"
#include "program.h"

namespace ptxemu {

// Of [address, address + bytes) in global memory, which need be in no allocation: the nearest one, by its label, or by
// the kernel parameter that points into it.
std::string global_place(const Program& program, const Launch& launch, const GlobalMemory& memory, uint64_t address,
                         uint64_t bytes);
// Of a shared address with the rank of its CTA; empty below the first variable.
std::string shared_place(const Program& program, uint64_t address);

}   // namespace ptxemu
