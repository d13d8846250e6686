// SPDX-License-Identifier: Apache-2.0
#include "occupancy.h"

#include <algorithm>

namespace ptxemu {

Limits limits_of(int compute_capability) {
    constexpr int kKilo = 1024;
    switch (compute_capability) {
        case 80: return {164 * kKilo, 163 * kKilo, 2048, 32, 40 << 20};
        case 90: return {228 * kKilo, 227 * kKilo, 2048, 32, 50 << 20};
        default: return {228 * kKilo, 227 * kKilo, 2048, 32, 126 << 20};
    }
}

int blocks_per_multiprocessor(int compute_capability, uint64_t threads, uint64_t shared_bytes) {
    if (threads == 0 || threads > static_cast<uint64_t>(kMaxThreadsPerBlock)) return 0;
    const Limits limits = limits_of(compute_capability);
    constexpr uint64_t kGranule = 128;   // shared memory is given out in units of 128 bytes
    const uint64_t shared = (shared_bytes + kReservedShared + kGranule - 1) / kGranule * kGranule;
    const uint64_t by_threads = static_cast<uint64_t>(limits.threads_per_sm) / 32 / ((threads + 31) / 32);
    const uint64_t by_shared = static_cast<uint64_t>(limits.shared_per_sm) / shared;
    return static_cast<int>(std::min({by_threads, by_shared, static_cast<uint64_t>(limits.blocks_per_sm)}));
}

uint64_t clusters_on_device(int compute_capability, int multiprocessors, uint64_t threads, uint64_t shared_bytes,
                            uint64_t cluster_blocks) {
    const uint64_t per_sm =
        static_cast<uint64_t>(blocks_per_multiprocessor(compute_capability, threads, shared_bytes));
    if (cluster_blocks <= 1) return per_sm * static_cast<uint64_t>(multiprocessors);
    uint64_t clusters = 0;
    for (int left = multiprocessors; left > 0; left -= kMultiprocessorsPerGpc)
        clusters += static_cast<uint64_t>(std::min(left, kMultiprocessorsPerGpc)) * per_sm / cluster_blocks;
    return clusters;
}

}   // namespace ptxemu
