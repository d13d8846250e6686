// SPDX-License-Identifier: Apache-2.0
// The rows of the instruction tables, for those who count them.
#pragma once
#include <set>
#include <vector>

namespace ptxemu {

struct Row;

struct OpcodeForm {
    const Row* row;
    const char *syntax, *operands;   // as in isa.h
    bool refused;                    // by name
};
std::vector<OpcodeForm> opcode_forms();

// From here on decode() of this thread adds the rows that it uses; null: no more.
void note_opcode_forms(std::set<const Row*>* used);

}   // namespace ptxemu
