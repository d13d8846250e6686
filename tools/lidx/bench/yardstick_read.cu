// SPDX-License-Identifier: Apache-2.0
// Yardsticks, no part of the library. One reads some regions of memory once and does nothing with them: what it takes
// for the bytes of a workload is the memory ceiling that lidx bench compares with. The other moves bytes as a scorer of
// paged keys must: it reads pages in the order of a table and writes results meanwhile.
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"
#include "tools/lidx/bench/yardstick_read.h"

using namespace lidx;
using command::YardstickRegions;
using command::YardstickTraffic;

namespace {

// loads of 16 bytes a thread: 128 KiB an SM, twice what 4.8 TB/s times 1 us asks for
constexpr uint32_t kInFlight = command::kYardstickInFlight;

__device__ __forceinline__ void fold(uint32_t& folded, const ptx::U32x4& word) {
    folded |= word.x ^ word.y ^ word.z ^ word.w;
}

}  // namespace

// *sink is written where the words of a thread happen to combine to `never`: hardly ever, but the compiler must keep
// the loads.
extern "C" __global__ void __launch_bounds__(command::kYardstickThreads)
    yardstick_read(const __grid_constant__ YardstickRegions regions, uint32_t* sink, uint32_t never) {
    const uint64_t first = uint64_t{ptx::ctaid_x()} * command::kYardstickThreads + ptx::tid_x();
    const uint64_t step = uint64_t{ptx::nctaid_x()} * command::kYardstickThreads;
    uint32_t folded = 0;
#pragma unroll
    for (int region = 0; region < command::kYardstickRegions; ++region) {
        const auto* base = static_cast<const uint8_t*>(regions.base[region]);
        const uint64_t units = regions.units[region];
        uint64_t at = first;
        for (; at + (kInFlight - 1) * step < units; at += kInFlight * step) {
            ptx::U32x4 words[kInFlight];
#pragma unroll
            for (uint32_t i = 0; i < kInFlight; ++i)
                words[i] = ptx::ld_global_nc_v4_u32(base + (at + i * step) * command::kYardstickUnitBytes);
#pragma unroll
            for (const ptx::U32x4& word : words) fold(folded, word);
        }
        for (; at < units; at += step)
            fold(folded, ptx::ld_global_nc_v4_u32(base + at * command::kYardstickUnitBytes));
    }
    if (folded == never) ptx::st_global_u32(sink, folded);
}

// Written are equal parts of the result, one a CTA and turn of its loop.
extern "C" __global__ void __launch_bounds__(command::kYardstickThreads)
    yardstick_traffic(const __grid_constant__ YardstickTraffic t, uint32_t* sink, uint32_t never) {
    const uint32_t first = ptx::ctaid_x() * command::kYardstickThreads + ptx::tid_x();
    const uint32_t step = ptx::nctaid_x() * command::kYardstickThreads;
    const uint32_t step_entries = step / t.page_units, step_rest = step % t.page_units;
    uint32_t entry = first / t.page_units, rest = first % t.page_units;
    const uint64_t parts = uint64_t{t.turns} * ptx::nctaid_x(), part = (t.result_units + parts - 1) / parts;
    uint32_t folded = 0;
    for (uint32_t turn = 0; turn < t.turns; ++turn) {
        ptx::U32x4 words[kInFlight] = {};
#pragma unroll
        for (uint32_t i = 0; i < kInFlight; ++i) {
            const int32_t page = entry < t.entries ? ptx::ld_global_nc_s32(t.table + entry) : -1;
            if (page >= 0)
                words[i] = ptx::ld_global_nc_v4_u32(
                    static_cast<const uint8_t*>(t.pages) +
                    (uint64_t{static_cast<uint32_t>(page)} * t.page_units + rest) * command::kYardstickUnitBytes);
            entry += step_entries;
            rest += step_rest;
            if (rest >= t.page_units) {
                rest -= t.page_units;
                ++entry;
            }
        }
#pragma unroll
        for (const ptx::U32x4& word : words) fold(folded, word);
        const uint64_t begin = (uint64_t{turn} * ptx::nctaid_x() + ptx::ctaid_x()) * part;
        for (uint64_t i = ptx::tid_x(); i < part && begin + i < t.result_units; i += command::kYardstickThreads)
            ptx::st_global_v4_u32(static_cast<uint8_t*>(t.result) + (begin + i) * command::kYardstickUnitBytes,
                                  ptx::U32x4{folded, 0, 0, 0});
    }
    if (folded == never) ptx::st_global_u32(sink, folded);
}
