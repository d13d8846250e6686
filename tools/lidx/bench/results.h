// SPDX-License-Identifier: Apache-2.0
// What a run of lidx bench found.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/agreement.h"
#include "bench/candidates.h"
#include "bench/ceilings.h"
#include "bench/gpu_clocks.h"
#include "bench/stopwatch.h"
#include "bench/workloads.h"

namespace lidx::command {

// A candidate's times on a workload.
struct Row {
    std::string candidate;
    Role role = Role::kLidx;
    Times us = {};
    std::optional<double> ratio;          // its median over that of lidx's first candidate, of which it is nothing
    std::optional<Agreement> agreement;   // with that one's results
    std::string failure;                  // a rival that failed has no times
};

// The ceiling that binds: the longer of reading the bytes and computing the products.
struct Ceiling {
    std::string name;   // "read" or "product"
    double us = 0;      // 0: none is known
};

struct WorkloadResult {
    Workload workload;
    double flops = 0, bytes = 0;
    Times read = {};   // the read yardstick over those bytes, in the same turns
    std::optional<Times> traffic;   // the yardstick that moves them as a scorer of paged keys must
    Ceiling ceiling;
    std::optional<GpuState> before, after;
    std::vector<Row> rows;
};

struct Results {
    std::string device, date, lidx;   // UTC; the library's version
    int compute_capability = 0, multiprocessors = 0, driver_version = 0;
    bool emulated = false;
    std::string clock_source;   // why there are no clocks, or ""
    Timing timing = Timing::kFlushed;
    bool flushed_by_reading = false;
    int runs = 0;
    double open_ms = 0, first_score_ms = 0;   // lidx_open alone, and from its call to the scores of a first launch
    MemoryRates memory = {};
    std::optional<TensorRate> tensor;
    std::vector<std::string> rivals;
    std::vector<WorkloadResult> workloads;
};

double percent_of_ceiling(const WorkloadResult& result, const Row& row);   // 0: no ceiling
const char* timing_text(Timing timing);                                    // "flushed", "warm", "graph"
const char* role_text(Role role);                                          // "lidx", "scorer", "rival"

// The table: its head, and the rows of one workload.
void print_head(const Results& results);
void print_rows(const WorkloadResult& result);

std::string json_report(const Results& results);
std::string csv_report(const Results& results);
std::string svg_chart(const Results& results);   // plot.cpp

}  // namespace lidx::command
