// SPDX-License-Identifier: Apache-2.0
// One host thread's share of a launch: the clusters that it runs and its counters.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "warp.h"

namespace ptxemu {

struct Worker {
    Exec exec;
    Cluster cluster;
    const Program* program = nullptr;
    const Launch* launch = nullptr;
    const DeviceConfig* device = nullptr;
    GlobalMemory* memory = nullptr;
    uint64_t event_order = 0;                         // of the clusters that ended, in any order of theirs
    std::vector<uint64_t> warp_counts, lane_counts;   // by pc
    uint64_t max_instructions = 0;                    // per CTA, of a cluster together
    const std::atomic<bool>* stop = nullptr;
    FindingLog* findings = nullptr;

    // Runs a cluster to its end. Throws Fault; fault_text() then tells where.
    void run_cluster(uint64_t linear);
    std::string fault_text(const Fault& fault) const;
    Finding fault_finding(const Fault& fault) const;
    // The instruction at pc as one side of a finding; role and CTA are the caller's.
    Party party_at(uint32_t pc) const;

  private:
    std::vector<std::vector<uint8_t>> constants_of_rank;   // of ranks from 1 on, where they differ

    void start_cluster(uint64_t linear);
    void start_cta(Cta& cta);
    void finish_cta(Cta& cta);
    template <bool kChecked>
    uint32_t run_warp(Warp& warp, uint32_t budget);
    int pick_fragment(Warp& warp, uint32_t* limit);
    int pick_warp();
    void set_up_exec(Cta& cta, Warp& warp);
    void run_completion(Cta& cta, AsyncOp& op);
    void drain_async(bool stuck);
    bool force_pollers();
    [[noreturn]] void report_deadlock();
};

}   // namespace ptxemu
