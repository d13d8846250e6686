// SPDX-License-Identifier: Apache-2.0
// How many CTAs and clusters the device holds at once. Registers and Tensor Memory are not counted: PTX registers are
// virtual, and tcgen05.alloc waits.
#pragma once
#include <cstdint>

namespace ptxemu {

// Of the devices that can be emulated: major * 10 + minor.
inline constexpr int kComputeCapabilities[] = {80, 90, 100, 103};

// Limits of the emulated device by compute capability (CUDA C++ Programming Guide, "Compute Capabilities").
struct Limits {
    int shared_per_sm, shared_per_block_optin, threads_per_sm, blocks_per_sm, l2_bytes;
};
Limits limits_of(int compute_capability);
inline constexpr int kReservedShared = 1024;        // per block, of the system
inline constexpr int kMaxThreadsPerBlock = 1024;
// Clusters stay within a GPC. Of sm_90 and sm_100 GPCs have up to 18 multiprocessors; 16 hold every cluster.
inline constexpr int kMultiprocessorsPerGpc = 16;

// Blocks of so many threads and bytes of shared memory that one multiprocessor holds; 0 where one is too large.
int blocks_per_multiprocessor(int compute_capability, uint64_t threads, uint64_t shared_bytes);
// Clusters of so many blocks that the device holds.
uint64_t clusters_on_device(int compute_capability, int multiprocessors, uint64_t threads, uint64_t shared_bytes,
                            uint64_t cluster_blocks);

}   // namespace ptxemu
