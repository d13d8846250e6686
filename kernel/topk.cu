// SPDX-License-Identifier: Apache-2.0
// The k largest scores of every row, exactly, for every architecture from sm_80.
//
// Order of preference: forced keys, then the higher score, then the smaller position; -0 equals +0, +inf is a number
// like any other, NaN ranks below -inf. So the chosen set is unique, and so is the order of the output (by position, or
// by preference): neither the number of CTAs, nor the path below, nor the schedule can show in the result.
//
// A row is one CTA's, or, where few rows are long, shared out in slices among up to 32: each slice's CTA leaves its own
// k in the workspace, and the CTA that arrives last chooses among them. No CTA ever waits for another, and the arrival
// counters end as they began. By the keys n of a row or slice:
//
//     n <= k        all of them; no score is read
//     n <= 8192     16 keys a thread in registers; radix selection: rounds of 11, 11 and 10 bits, a histogram each
//     longer        a sample of 4096 keys gives a value that a little more than k keys should exceed; one pass over the
//                   row keeps those (up to 8192) and marks the keys equal to it. Enough above it: radix selection among
//                   them. Too few, but enough with the equal ones: it is the threshold (plateaus, all-equal rows).
//     misjudged     (adversarial order, or more than 8192 above): the histograms are counted over the row itself: three
//                   passes and one that marks. Bounded work whatever the scores are.
//
//     scores -> registers or candidates -> threshold -> maps of bits -> positions, ascending -> [sort] -> indices
//
// Budget: a row of 65536 fp32 scores reads 256 KiB (4096 clocks at 64 bytes per clock of an SM) and is sifted in 128
// warp passes of 512 keys at about 110 instructions, 3500 clocks of four schedulers; a round of selection is about 1700
// clocks of latency, four barriers. 58 KiB of shared memory and a quarter byte per key of a slice, two CTAs an SM.
#include "kernel/live.h"
#include "kernel/topk_layout.h"
#include "kernel/topk_row.cuh"
#include "kernel/topk_select.cuh"
#include "kernel/topk_source.cuh"
#include "kernel/variants.h"
#include "ptx/atomic.cuh"
#include "ptx/elect.cuh"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::topk {

// Shared memory leaves room for two CTAs an SM from sm_90 on, for one before; griddepcontrol is there from sm_90 on.
#ifndef LIDX_TOPK_SM80
inline constexpr int kCtasPerSm = 2;
inline constexpr bool kOverlaps = true;
#else
inline constexpr int kCtasPerSm = 1;
inline constexpr bool kOverlaps = false;
#endif

extern __shared__ __align__(16) uint8_t dynamic_shared[];

namespace {

// How many CTAs share the row.
__device__ __forceinline__ int32_t slices_of(const TopkParams& p, const Choice& choice) {
    return choice.k > 0 ? active_slices(choice.keys, p.slices) : 1;
}
// Which of them this is.
__device__ __forceinline__ int32_t slice_index(const TopkParams& p) {
    return p.slices > 1 ? static_cast<int32_t>(ptx::ctaid_x() % static_cast<uint32_t>(p.slices)) : 0;
}

template <class Score>
__device__ __forceinline__ Source<Score> slice_of(const TopkParams& p, const RowKeys& row, const Choice& choice,
                                                  int32_t slices) {
    const int32_t each = slices > 1 ? slice_keys(choice.keys, slices) : choice.keys;
    const int32_t begin = slices > 1 ? slice_index(p) * each : 0;
    return {row_scores<Score>(p, row) + int64_t{choice.begin + begin} * Score::kBytes,
            begin + each < choice.keys ? each : choice.keys - begin, false};
}

// ---- several slices

// The lists of a row: keys, then positions (topk_layout.h).
__device__ __forceinline__ uint8_t* row_lists(const TopkParams& p, int32_t row) {
    return reinterpret_cast<uint8_t*>(p.workspace) + arrivals_bytes(p.workspace_rows) +
           int64_t{row - p.view.first_row} * p.slices * p.k * kListBytes;
}
__device__ __forceinline__ uint8_t* row_positions(const TopkParams& p, int32_t row) {
    return row_lists(p, row) + int64_t{p.slices} * p.k * (kListBytes / 2);
}

// Leaves the slice's k in the workspace. True in all threads of the CTA that arrives last: it sees all lists.
template <class Score>
__device__ __forceinline__ bool leave_list(const TopkParams& p, const Source<Score>& source, const Choice& choice,
                                           int32_t slices, ptx::SharedAddr list, const Thread& self,
                                           SharedLayout& shared) {
    const int32_t row = load_row(ptx::cvta_to_shared(&shared.row)).row;
    const auto index = static_cast<int32_t>(ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.slice)));
    const int32_t begin = index * slice_keys(choice.keys, slices);
    uint8_t* keys = row_lists(p, row) + int64_t{index} * choice.k * Score::kBytes;
    uint8_t* positions = row_positions(p, row) + int64_t{index} * choice.k * 4;
#pragma unroll 1
    for (int32_t i = static_cast<int32_t>(self.index); i < choice.k; i += kThreads) {
        const auto at = static_cast<int32_t>(ptx::ld_shared_u32(list + i * 4));
        Score::store_key(keys + int64_t{i} * Score::kBytes, source.key_of(source.load(at)));
        ptx::st_global_u32(positions + int64_t{i} * 4, static_cast<uint32_t>(begin + at));
    }
    ptx::bar_sync();
    if (self.index == 0) {
        uint32_t* arrivals = p.workspace + (row - p.view.first_row);
        const uint32_t before = ptx::atom_acq_rel_gpu_global_add_u32(arrivals, 1);
        const bool last = before + 1 == static_cast<uint32_t>(slices);
        if (last) ptx::st_global_u32(arrivals, 0);
        ptx::st_shared_u32(ptx::cvta_to_shared(&shared.last_arriver), last);
    }
    ptx::bar_sync();
    return ptx::ld_shared_u32(ptx::cvta_to_shared(&shared.last_arriver)) != 0;
}

// ---- output

template <class Score>
__device__ __forceinline__ void write_row(const TopkParams& p, const RowKeys& row, int32_t count, ptx::SharedAddr list,
                                          const Thread& self, SharedLayout& shared) {
    const Source<Score> all{row_scores<Score>(p, row), row.keys.size(), false};
    if (p.sort_by == SortBy::kScore && count > 1) {
        const ptx::SharedAddr numbers = ptx::cvta_to_shared(shared.candidate);
#pragma unroll 1
        for (int32_t i = static_cast<int32_t>(self.index); i < count; i += kThreads) {
            const uint32_t at = ptx::ld_shared_u32(list + i * 4);
            const auto key_at = static_cast<int32_t>(at);
            const bool forced = key_at < p.forced_first || key_at >= all.keys - p.forced_last;
            const uint32_t key = forced ? kForcedKey : all.key_of(all.load(key_at));
            ptx::st_shared_u64(numbers + i * 8, uint64_t{~key} << 32 | at);
        }
        sort_ascending(numbers, count, self);
#pragma unroll 1
        for (int32_t i = static_cast<int32_t>(self.index); i < count; i += kThreads)
            ptx::st_shared_u32(list + i * 4, static_cast<uint32_t>(ptx::ld_shared_u64(numbers + i * 8)));
        ptx::bar_sync();
    }
    int32_t* indices = p.indices + row.row * p.index_stride;
    const int32_t offset = count > 0 ? index_offset(p, row) : 0;
    const bool whole = reinterpret_cast<uintptr_t>(indices) % 16 == 0;
#pragma unroll 1
    for (int32_t i = 4 * static_cast<int32_t>(self.index); i < p.k; i += 4 * kThreads) {
        const ptx::U32x4 at = ptx::ld_shared_v4_u32(list + i * 4);
        int32_t index[4] = {static_cast<int32_t>(at.x) + offset, static_cast<int32_t>(at.y) + offset,
                            static_cast<int32_t>(at.z) + offset, static_cast<int32_t>(at.w) + offset};
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            if (i + c >= count) index[c] = -1;
            else if (p.index_kind == IndexKind::kPhysical) index[c] = physical_slot(p, row, index[c]);
        }
        if (whole && i + 4 <= p.k) {
            ptx::st_global_v4_u32(indices + i, {static_cast<uint32_t>(index[0]), static_cast<uint32_t>(index[1]),
                                                static_cast<uint32_t>(index[2]), static_cast<uint32_t>(index[3])});
            continue;
        }
#pragma unroll
        for (int c = 0; c < 4; ++c)
            if (i + c < p.k) ptx::st_global_u32(indices + i + c, static_cast<uint32_t>(index[c]));
    }
    if (p.top_scores) {
        float* scores = p.top_scores + row.row * p.top_score_stride;
#pragma unroll 1
        for (int32_t i = static_cast<int32_t>(self.index); i < p.k; i += kThreads) {
            float score = __uint_as_float(0xff800000u);
            if (i < count)
                score = __uint_as_float(all.load(static_cast<int32_t>(ptx::ld_shared_u32(list + i * 4))));
            ptx::st_global_f32(scores + i, score);
        }
    }
    if (p.counts && self.index == 0) ptx::st_global_u32(p.counts + row.row, static_cast<uint32_t>(count));
}

template <class Score>
__device__ __forceinline__ void select(const TopkParams& p) {
    auto& shared = *reinterpret_cast<SharedLayout*>(dynamic_shared);
    const Thread self{ptx::tid_x()};
    if constexpr (kOverlaps) wait_for_rows(p);
    if (self.warp() == 0) {
        const auto row = static_cast<int32_t>(ptx::ctaid_x() / static_cast<uint32_t>(p.slices));
        find_row(p, p.view.first_row + row, self.lane(), ptx::cvta_to_shared(&shared.row));
    }
    if (self.index == 0) {
        ptx::st_shared_u32(ptx::cvta_to_shared(&shared.slice), static_cast<uint32_t>(slice_index(p)));
    }
    clear(ptx::cvta_to_shared(shared.histogram), kBins, self);
    ptx::bar_sync();
    const Choice choice = choice_of(p, load_row(ptx::cvta_to_shared(&shared.row)).keys.size());
    if constexpr (kOverlaps) wait_for_scores(p);
    if (slice_index(p) >= slices_of(p, choice)) return;
    // The chosen positions, ascending: forced, chosen, forced.
    const ptx::SharedAddr list = ptx::cvta_to_shared(shared.list);
    const ptx::SharedAddr chosen = list + choice.begin * 4;
    if (choice.k > 0) {
        const ptx::SharedAddr map = ptx::cvta_to_shared(dynamic_shared) + sizeof(SharedLayout);
        Maps maps{map, map + p.map_words * 4, 0, 0};
        Source<Score> source =
            slice_of<Score>(p, load_row(ptx::cvta_to_shared(&shared.row)), choice, slices_of(p, choice));
#pragma unroll 1
        for (;;) {
            const int32_t ties = select_keys(source, choice.k, maps, self, shared);
            const int32_t slices = slices_of(p, choice);
            list_positions(maps, ties, chosen, slices == 1 ? choice.begin : 0, self, shared);
            if (slices == 1 || source.lists) break;
            if (!leave_list(p, source, choice, slices, chosen, self, shared)) return;
            source = {row_lists(p, load_row(ptx::cvta_to_shared(&shared.row)).row), slices * choice.k, true};
        }
        if (source.lists) {
            const uint8_t* positions = row_positions(p, load_row(ptx::cvta_to_shared(&shared.row)).row);
#pragma unroll 1
            for (int32_t i = static_cast<int32_t>(self.index); i < choice.k; i += kThreads) {
                const uint32_t entry = ptx::ld_shared_u32(chosen + i * 4);
                const uint32_t at = choice.begin + ptx::ld_global_u32(positions + int64_t{entry} * 4);
                ptx::st_shared_u32(chosen + i * 4, at);
            }
        }
    }
    // And choice_of() anew: cheaper than registers until here.
    const RowKeys row = load_row(ptx::cvta_to_shared(&shared.row));
    const Choice done = choice_of(p, row.keys.size());
#pragma unroll 1
    for (int32_t i = static_cast<int32_t>(self.index); i < done.begin; i += kThreads)
        ptx::st_shared_u32(list + i * 4, static_cast<uint32_t>(i));
    const int32_t newest = row.keys.size() - p.forced_last;
#pragma unroll 1
    for (int32_t i = static_cast<int32_t>(self.index); i < done.forced_last; i += kThreads)
        ptx::st_shared_u32(list + (done.begin + done.k + i) * 4,
                           static_cast<uint32_t>((newest > done.begin ? newest : done.begin) + i));
    ptx::bar_sync();
    write_row<Score>(p, row, done.begin + done.k + done.forced_last, list, self, shared);
}

}  // namespace
}  // namespace lidx::topk

#define LIDX_TOPK_KERNEL(symbol, score)                                                         \
    extern "C" __global__ void __launch_bounds__(lidx::topk::kThreads, lidx::topk::kCtasPerSm)  \
    symbol(const __grid_constant__ lidx::topk::TopkParams p) {                                  \
        lidx::topk::select<lidx::topk::score>(p);                                               \
    }
#ifdef LIDX_TOPK_SM80
LIDX_TOPK_SM80_VARIANTS(LIDX_TOPK_KERNEL)
#else
LIDX_TOPK_VARIANTS(LIDX_TOPK_KERNEL)
#endif
