// SPDX-License-Identifier: Apache-2.0
// What is timed side by side on one workload: lidx's own calls here, rivals in rivals.h.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "bench/inputs.h"
#include "bench/stopwatch.h"
#include "bench/workloads.h"
#include "machine.h"

namespace lidx::command {

// The copies of a workload, as its candidates take them.
using InputCopies = std::vector<std::unique_ptr<Inputs>>;

enum class Role {
    kLidx,     // does the whole work
    kScorer,   // beside a score + top-k: the scorer alone
    kRival
};

struct Candidate {
    std::string name;   // the kernel's symbol; the rival's name
    Role role = Role::kLidx;
    std::shared_ptr<const void> holds;   // what `run` uses: plans, a rival's state
    EnqueueRun run;
    bool gives_indices = false;   // else scores
    std::vector<double> us;       // samples
};

// Kernels that do not serve the workload on this device are skipped, with a line on stderr. kernels: scorers by symbol;
// none: the best one. fast: the fast mode behind them, where a kernel has it. copies must outlive the candidates.
std::vector<std::unique_ptr<Candidate>> lidx_candidates(const Machine& machine, const Workload& workload,
                                                        const Extent& extent, const InputCopies& copies,
                                                        const std::vector<std::string>& kernels, bool fast);

// Throws Failure(kBadInput) for a name that no kernel of the library has.
void require_kernels(const std::vector<std::string>& symbols);

}  // namespace lidx::command
