// SPDX-License-Identifier: Apache-2.0
// A yardstick, no part of the library: reads some regions of memory once and does nothing with them. What it takes for
// the bytes of a workload is the memory ceiling that lidx bench compares with.
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"
#include "tools/lidx/bench/yardstick_read.h"

using namespace lidx;
using command::YardstickRegions;

namespace {

constexpr int kInFlight = 4;   // loads of 16 bytes a thread: 128 KiB an SM, twice what 4.8 TB/s times 1 us asks for

}  // namespace

// *sink is written where the words of a thread happen to combine to `never`: hardly ever, but the compiler must keep
// the loads.
extern "C" __global__ void __launch_bounds__(command::kYardstickThreads)
    yardstick_read(const __grid_constant__ YardstickRegions regions, uint32_t* sink, uint32_t never) {
    const uint64_t first = uint64_t{ptx::ctaid_x()} * command::kYardstickThreads + ptx::tid_x();
    const uint64_t step = uint64_t{ptx::nctaid_x()} * command::kYardstickThreads;
    uint32_t folded = 0;
    const auto fold = [&](const ptx::U32x4& word) { folded |= word.x ^ word.y ^ word.z ^ word.w; };
#pragma unroll
    for (int region = 0; region < command::kYardstickRegions; ++region) {
        const auto* base = static_cast<const uint8_t*>(regions.base[region]);
        const uint64_t units = regions.units[region];
        uint64_t at = first;
        for (; at + (kInFlight - 1) * step < units; at += kInFlight * step) {
            ptx::U32x4 words[kInFlight];
#pragma unroll
            for (int i = 0; i < kInFlight; ++i)
                words[i] = ptx::ld_global_nc_v4_u32(base + (at + i * step) * command::kYardstickUnitBytes);
#pragma unroll
            for (int i = 0; i < kInFlight; ++i) fold(words[i]);
        }
        for (; at < units; at += step) fold(ptx::ld_global_nc_v4_u32(base + at * command::kYardstickUnitBytes));
    }
    if (folded == never) ptx::st_global_u32(sink, folded);
}
