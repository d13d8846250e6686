// SPDX-License-Identifier: Apache-2.0
// The command ptxemu: its subcommands. Each returns an exit code or throws tool::Failure.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "engine.h"

namespace ptxemu {

enum RunExit : int {
    kRunClean = 0,
    kRunBadInput = 2,   // usage, files, PTX
    kRunFindings = 3,   // errors among the findings, or a fault
    kRunDeadlock = 4,
    kRunInternal = 5    // a defect of the emulator
};

struct RunOptions {
    std::filesystem::path file;   // PTX text, or a fat binary with uncompressed PTX
    std::string kernel;           // empty: the only one
    Dim3 grid, block, cluster;
    bool has_cluster = false;
    uint32_t dynamic_shared_bytes = 0;
    std::filesystem::path args;
    bool check = false, any_leader = false;
    uint64_t seed = 0, seeds = 1;   // seeds seed .. seed + seeds - 1
    int compute_capability = 0;     // 0: that of the PTX
    int multiprocessors = 148;
    int threads = 1;
    uint64_t max_instructions = DeviceConfig().max_instructions;
    std::filesystem::path json, trace, stats;
    std::string replay;   // the command line without its seeds, for the message
};
int run_kernel(const RunOptions& options);

struct InfoOptions {
    std::filesystem::path file;
    int compute_capability = 0;
};
int list_kernels(const InfoOptions& options);

}   // namespace ptxemu
