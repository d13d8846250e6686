// SPDX-License-Identifier: Apache-2.0
// One host thread's share of a launch: the clusters that it runs and its counters.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checker.h"
#include "profile.h"
#include "residency.h"

namespace ptxemu {

struct Worker {
    Exec exec;
    const Program* program = nullptr;
    const Launch* launch = nullptr;
    const DeviceConfig* device = nullptr;
    GlobalMemory* memory = nullptr;
    uint64_t event_order = 0;                         // of the clusters that ended, in any order of theirs
    std::vector<uint64_t> warp_counts, lane_counts;   // by pc
    uint64_t max_instructions = 0;                    // per CTA, of a cluster together
    const std::atomic<bool>* stop = nullptr;
    FindingLog* findings = nullptr;
    GlobalShadow* shadow = nullptr;   // under DeviceConfig::check
    Residency* residency = nullptr;
    const std::vector<std::vector<uint8_t>>* rank_constants = nullptr;   // of ranks from 1 on; empty: the program's
    uint64_t ended_clusters = 0;
    std::unique_ptr<Profile> profile;

    // Starts and runs clusters until none is left for this worker. Throws Fault; fault_text() then tells where.
    // on_end: called after each cluster that ended.
    template <class F>
    void run_clusters(F on_end) {
        std::unique_ptr<Cluster> spare;
        Turn last = Turn::kEnded;
        while (!stop->load(std::memory_order_relaxed)) {
            choice = residency->next(last, std::move(spare));
            if (!choice.cluster) return;
            last = run_turn();
            if (last == Turn::kStopped) return;
            if (last != Turn::kEnded) continue;
            spare = std::move(choice.cluster);
            ++ended_clusters;
            on_end();
        }
    }
    Dim3 cluster_id(uint64_t linear) const;
    std::string fault_text(const Fault& fault) const;
    Finding fault_finding(const Fault& fault) const;
    // The instruction at pc as one side of a finding; role and CTA are the caller's.
    Party party_at(uint32_t pc) const;
    std::string place_of(const std::string& space, uint64_t address, uint64_t bytes) const;   // Finding::place
    // Takes the kernel's name into it. Ends the launch when there are too many.
    void report_finding(Finding finding);
    // True, and counted, if there is one like it already.
    bool seen_finding(const std::string& code, uint32_t pc, uint32_t other) {
        return findings->again(code, pc, other);
    }

  private:
    Residency::Choice choice;     // whose turn it is; stays when it faults
    Cluster* current = nullptr;   // its cluster
    bool progressed = false;      // in this turn: more than polls

    Turn run_turn();
    Turn run_cluster();
    void start_cluster(uint64_t linear);
    void start_cta(Cta& cta);
    void finish_copies(Cta& cta);
    void finish_cta(Cta& cta);
    template <bool kObserved>
    uint32_t run_warp(Warp& warp, uint32_t budget);
    int pick_fragment(Warp& warp, uint32_t* limit);
    int pick_warp();
    void set_up_exec(Cta& cta, Warp& warp);
    void run_completion(Cta& cta, AsyncOp& op);
    void drain_async(bool stuck);
    bool force_pollers();
    void note_progress();
    std::string waiters_text(bool* all_aligned) const;
    [[noreturn]] void deadlock(const std::string& what);
    [[noreturn]] void report_deadlock();
    [[noreturn]] void report_endless_polls();
};

}   // namespace ptxemu
