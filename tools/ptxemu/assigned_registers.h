// SPDX-License-Identifier: Apache-2.0
// Which registers a thread may read before it has written them. Only those need be poisoned when a warp starts: the
// others show a thread nothing but what it has written itself, and they are most of what nvcc's PTX declares.
#pragma once
#include <cstdint>
#include <vector>

#include "program.h"

namespace ptxemu {

// The parts of a warp's register file to poison, ascending. registers: those, predicates left out, that need not be
// poisoned if every path writes them before it reads them.
std::vector<SlotRange> registers_to_poison(const Program& program, const std::vector<SlotRange>& registers);

}   // namespace ptxemu
