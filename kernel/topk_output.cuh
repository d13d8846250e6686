// SPDX-License-Identifier: Apache-2.0
// The results of rows whose keys are held: positions into slots of the row's output, sorted or as they come.
#pragma once
#include <cstdint>

#include "kernel/topk_layout.h"
#include "kernel/topk_row.cuh"
#include "kernel/topk_select.cuh"
#include "ptx/elect.cuh"
#include "ptx/memory.cuh"

namespace lidx::topk {

// Entry `slot` of the row's results: a position in the row, or -1.
template <class Score>
__device__ __forceinline__ void write_slot(const TopkParams& p, const RowKeys& row, int32_t offset, int32_t slot,
                                           int32_t position) {
    int32_t index = position + offset;
    if (position < 0) index = -1;
    else if (p.index_kind == IndexKind::kPhysical) index = physical_slot(p, row, index);
    ptx::st_global_u32(p.indices + row.row * p.index_stride + slot, static_cast<uint32_t>(index));
    if (!p.top_scores) return;
    const uint8_t* score = row_scores<Score>(p, row) + int64_t{position} * Score::kBytes;
    ptx::st_global_u32(p.top_scores + row.row * p.top_score_stride + slot,
                       Score::load(position >= 0, score, 0xff800000u));
}

// Slots [first, first + count) of the row's results, whose positions lie in the list from first % 4 on: four at a time.
template <int kOfThreads>
__device__ __forceinline__ void write_list(int32_t* results, int32_t offset, int32_t first, int32_t count,
                                           ptx::SharedAddr list, const Thread& self) {
    const int32_t begin = first % 4, end = begin + count;
    int32_t* indices = results + (first - begin);
    const bool aligned = reinterpret_cast<uintptr_t>(indices) % 16 == 0;
#pragma unroll 1
    for (int32_t i = 4 * static_cast<int32_t>(self.index); i < end; i += 4 * kOfThreads) {
        const ptx::U32x4 at = ptx::ld_shared_v4_u32(list + i * 4);
        const uint32_t index[4] = {at.x + offset, at.y + offset, at.z + offset, at.w + offset};
        if (aligned && i >= begin && i + 4 <= end) {
            ptx::st_global_v4_u32(indices + i, {index[0], index[1], index[2], index[3]});
            continue;
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) ptx::st_global_u32(i + c >= begin && i + c < end, indices + i + c, index[c]);
    }
}

// What is in the slots that are not chosen from: forced keys, or all keys of a short row; -1 after them.
__device__ __forceinline__ int32_t rest_position(const TopkParams& p, const RowKeys& row, const Choice& choice,
                                                 int32_t slot) {
    if (slot < choice.begin) return slot;
    if (slot >= choice.count()) return -1;
    const int32_t newest = row.keys.size() - p.forced_last;
    return (newest > choice.begin ? newest : choice.begin) + slot - choice.begin - choice.k;
}

// numbers: ~key, then position, of the chosen; all threads of one CTA.
template <class Score, int kOfThreads>
__device__ __forceinline__ void write_sorted(const TopkParams& p, const RowKeys& row, const Choice& choice,
                                             ptx::SharedAddr numbers, const Thread& self) {
    const int32_t count = choice.count();
#pragma unroll 1
    for (int32_t i = static_cast<int32_t>(self.index); i < count - choice.k; i += kOfThreads) {
        const int32_t slot = i < choice.begin ? i : i + choice.k;
        const int32_t at = rest_position(p, row, choice, slot);
        const bool forced = at < p.forced_first || at >= row.keys.size() - p.forced_last;
        uint32_t key = kForcedKey;
        if (!forced)
            key = fast_key(Score::load(true, row_scores<Score>(p, row) + int64_t{at} * Score::kBytes, kNanBits));
        ptx::st_shared_u64(numbers + slot * 8, uint64_t{~key} << 32 | static_cast<uint32_t>(at));
    }
    sort_ascending<kOfThreads>(numbers, count, self);
    const int32_t offset = count > 0 ? index_offset(p, row) : 0;
#pragma unroll 1
    for (int32_t slot = static_cast<int32_t>(self.index); slot < p.k; slot += kOfThreads) {
        const auto at = static_cast<int32_t>(ptx::ld_shared_u64(numbers + slot * 8));
        write_slot<Score>(p, row, offset, slot, slot < count ? at : -1);
    }
}

// What the first CTA of a row writes alone.
template <class Score, int kOfThreads>
__device__ __forceinline__ void write_rest(const TopkParams& p, const RowKeys& row, const Choice& choice,
                                           ptx::SharedAddr numbers, const Thread& self) {
    if (p.counts && self.index == 0)
        ptx::st_global_u32(p.counts + row.row, static_cast<uint32_t>(choice.count()));
    if (p.sort_by == SortBy::kScore) return write_sorted<Score, kOfThreads>(p, row, choice, numbers, self);
    if (p.k == choice.k) return;
    const int32_t offset = choice.count() > 0 ? index_offset(p, row) : 0;
#pragma unroll 1
    for (int32_t i = static_cast<int32_t>(self.index); i < p.k - choice.k; i += kOfThreads) {
        const int32_t slot = i < choice.begin ? i : i + choice.k;
        write_slot<Score>(p, row, offset, slot, rest_position(p, row, choice, slot));
    }
}

}  // namespace lidx::topk
