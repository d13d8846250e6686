// SPDX-License-Identifier: Apache-2.0
// What yardstick_read.cu and its launch agree on.
#pragma once
#include <cstdint>

namespace lidx::command {

constexpr int kYardstickThreads = 512;
constexpr int kYardstickRegions = 4;
constexpr int kYardstickUnitBytes = 16;

struct YardstickRegions {
    const void* base[kYardstickRegions];   // 16-byte aligned
    uint64_t units[kYardstickRegions];     // of 16 bytes; 0: no region
};

}  // namespace lidx::command
