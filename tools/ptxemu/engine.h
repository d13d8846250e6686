// SPDX-License-Identifier: Apache-2.0
// Runs a kernel of a parsed module: decode once, then grid -> CTAs -> warps -> lanes under a seeded scheduler.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "findings.h"
#include "ir.h"
#include "memory.h"

namespace ptxemu {

class TraceLog;   // profile.h

struct DeviceConfig {
    int compute_capability = 100;          // PTXEMU_CC: 80, 90, 100, 103
    int multiprocessors = 148;             // PTXEMU_SMS
    uint64_t seed = 0;                     // PTXEMU_SEED; 0: the plain in-order schedule, else adversarial
    bool any_leader = false;               // PTXEMU_ANY_LEADER: seeds but 0 have elect.sync choose other lanes
    int threads = 1;                       // PTXEMU_THREADS: host threads that run CTAs
    bool check = false;                    // PTXEMU_CHECK: report what the hardware lets pass
    bool detail = false;                   // count by warp, bytes and bank conflicts, too
    ToldWarnings* told_warnings = nullptr; // of the same program; printed once in all launches; null: in each
    TraceLog* trace = nullptr;             // where to write a trace; null: none
    bool progress = false;                 // PTXEMU_PROGRESS: a line on stderr where a launch takes over 2 s
    uint32_t max_shared_per_block = 232448; // opt-in limit; 227 KB on sm_90 and sm_100
    uint64_t max_instructions = 100'000'000'000; // PTXEMU_MAX_INSTRUCTIONS: of a CTA's warps; about an hour
};

struct Dim3 { uint32_t x = 1, y = 1, z = 1; };
std::string option_text(const Dim3& d);   // "x,y,z", as --grid takes it

struct Launch {
    Dim3 grid, block, cluster;             // cluster: CTAs; grid a multiple of it
    bool explicit_cluster = false;         // the launch names the cluster's size: %is_explicit_cluster
    uint64_t grid_workspace = 0;           // %envreg1 (high word) and %envreg2 of a cooperative launch
    uint32_t dynamic_shared_bytes = 0;
    std::vector<uint8_t> params;           // laid out as Function::params says
};

// Dynamic counts. Keys are opcodes: the words that name an instruction of a family ("tcgen05.mma",
// "mbarrier.try_wait", "cp.async.bulk.tensor"; ir.h, Instruction::opcode); opcode and space of a memory access
// ("ld.global", "atom.shared", "ld" for generic); of all others the full dotted name ("fma.rn.f32"). warp_counts:
// executions by a warp, an instruction executed by one lane counting once; retried waits count once. thread_counts:
// executions by a lane.
struct Stats {
    std::map<std::string, uint64_t> warp_counts;
    std::map<std::string, uint64_t> thread_counts;
    uint64_t warp_instructions = 0, thread_instructions = 0, launches = 0, ctas = 0;
    uint64_t tma_bytes_loaded = 0, mma_operations = 0;
    uint64_t warnings = 0, errors = 0;     // findings of each severity, each once in a launch (DeviceConfig::check)
    std::vector<Finding> findings;         // launch after launch
    // Of the last launch: a hash of the order in which each CTA's warps ran and its asynchronous operations completed.
    uint64_t event_order = 0;
    // With DeviceConfig::detail. Executions by each warp of its CTA ("warp 0"); bytes moved; passes of the
    // shared-memory pipe by "kernel:PTX line", and the fewest that the same accesses could have taken.
    std::map<std::string, std::map<std::string, uint64_t>> role_counts;
    std::map<std::string, uint64_t> bytes;
    std::map<std::string, std::array<uint64_t, 2>> bank_conflicts;
    double seconds = 0;
    void add(const Stats& other);
};

std::string stats_json(const Stats& stats);
// A JSON string; control characters are left out.
std::string json_quoted(const std::string& text);

enum class RunStatus {
    kOk, kIllegalAddress, kMisaligned, kIllegalInstruction, kInvalidParams, kDeadlock, kTrap, kAssert, kInternal,
    kLaunchFailed,   // the CTA ends in a state that it must not leave behind
    kFindings        // ran to its end, with errors among the findings
};
struct RunResult {
    RunStatus status = RunStatus::kOk;
    std::string message;                   // names kernel, PTX line, CTA, warp, lane, address
    std::vector<Finding> findings;         // the fault that ended the launch, if any, is the last one
};

// A function made executable. Immutable after decode; shareable between threads.
class Program;   // defined in program.h (engine-private)

// Throws PtxError (naming the line) at the first instruction or modifier that is not known, or that the module's
// .target does not have. symbol_addresses: device addresses of the module's .global/.const variables.
std::shared_ptr<const Program> decode(const Module& module, const Function& entry,
                                      const std::map<std::string, uint64_t>& symbol_addresses);

RunResult run(const Program& program, const Launch& launch, const DeviceConfig& device, GlobalMemory& memory,
              Stats& stats);

}  // namespace ptxemu
