// SPDX-License-Identifier: Apache-2.0
// One host thread's share of a launch: the CTAs it runs, one after the other, and its counters.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "warp.h"

namespace ptxemu {

// What a launch was warned of; its workers share it.
struct Warnings {
    std::mutex mutex;
    std::set<uint32_t> pcs;
};

struct Worker {
    Exec exec;
    Cta cta;
    const Program* program = nullptr;
    const Launch* launch = nullptr;
    const DeviceConfig* device = nullptr;
    GlobalMemory* memory = nullptr;
    uint64_t event_order = 0;                         // of the CTAs that ended, in any order of theirs
    std::vector<uint64_t> warp_counts, lane_counts;   // by pc
    uint64_t max_instructions = 0;                    // per CTA
    const std::atomic<bool>* stop = nullptr;
    Warnings* warnings = nullptr;

    // Runs a CTA to its end. Throws Fault; fault_text() then tells where.
    void run_cta(uint64_t linear);
    std::string fault_text(const Fault& fault) const;

  private:
    void start_cta(uint64_t linear);
    void finish_cta();
    uint32_t run_warp(Warp& warp, uint32_t budget);
    int pick_fragment(Warp& warp, uint32_t* limit);
    bool warp_ready(const Warp& warp) const;
    int pick_warp();
    void set_up_exec(Warp& warp);
    void run_completion(AsyncOp& op);
    void drain_async(bool stuck);
    bool force_pollers();
    [[noreturn]] void report_deadlock();
};

}   // namespace ptxemu
