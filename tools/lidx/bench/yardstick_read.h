// SPDX-License-Identifier: Apache-2.0
// What the kernels of yardstick_read.cu and their launches agree on.
#pragma once
#include <cstdint>

namespace lidx::command {

constexpr int kYardstickThreads = 512;
constexpr int kYardstickRegions = 4;
constexpr int kYardstickUnitBytes = 16;
constexpr int kYardstickInFlight = 4;

struct YardstickRegions {
    const void* base[kYardstickRegions];   // 16-byte aligned
    uint64_t units[kYardstickRegions];     // of 16 bytes; 0: no region
};

// Pages that are read in the order of a table, and what is written meanwhile.
struct YardstickTraffic {
    const void* pages;         // 16-byte aligned
    const int32_t* table;      // entries below 0 are no pages
    uint32_t entries, page_units;   // units: of 16 bytes
    uint32_t turns;                 // of the loop: a thread reads kYardstickInFlight units in each
    void* result;              // 16-byte aligned
    uint64_t result_units;
};

}  // namespace lidx::command
