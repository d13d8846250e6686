// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

namespace ptxemu {

void Stats::add(const Stats& other) {
    for (const auto& [name, n] : other.warp_counts) warp_counts[name] += n;
    for (const auto& [name, n] : other.thread_counts) thread_counts[name] += n;
    warp_instructions += other.warp_instructions;
    thread_instructions += other.thread_instructions;
    launches += other.launches;
    ctas += other.ctas;
    tma_bytes_loaded += other.tma_bytes_loaded;
    mma_operations += other.mma_operations;
    warnings += other.warnings;
    errors += other.errors;
    findings.insert(findings.end(), other.findings.begin(), other.findings.end());
    seconds += other.seconds;
    event_order = other.event_order;
}

}   // namespace ptxemu
