// SPDX-License-Identifier: Apache-2.0
// Runs one case on one machine and judges what came out.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "check_inputs.h"
#include "check_machine.h"

namespace check {

struct Outcome {
    std::string problem;     // "" or what is wrong apart from the scores: canaries, grid, check word, counts
    std::string not_served;  // why this machine has no kernel for the case
    std::string symbol;
    int arithmetic = 0;  // lidx_arithmetic
    int tile_tokens = 0;
    std::array<uint32_t, 3> grid = {};
    std::vector<uint32_t> scores;  // bits, [max_rows, score_stride]
    uint64_t hash = 0;             // of scores
    std::string event_order;       // emulator: names the order in which asynchronous work completed
    double microseconds = 0;       // --bench: median of one launch
};

// stats_file: where the emulator writes its counts; empty: no counts are compared. bench_runs: 0 or how many launches
// to time. Throws MachineError.
Outcome run_case(const Machine& machine, const Inputs& in, const std::string& stats_file, int bench_runs);

// "" or the worst cell that is wrong: lattices bit for bit against the oracle, other values inside the bound of the
// outcome's arithmetic and, where that is sm_100 or fp32, bit for bit what its independent model computes; cells
// beyond a row's length keep their poison.
std::string judge_scores(const Inputs& in, const Outcome& outcome);

// "" or the first cell that differs.
std::string compare_bits(const Inputs& in, const Outcome& a, const char* a_name, const Outcome& b, const char* b_name);

}  // namespace check
