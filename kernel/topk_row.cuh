// SPDX-License-Identifier: Apache-2.0
// What a row asks for and where its results go: the parts that the kernels of the selection share.
#pragma once
#include <climits>
#include <cstddef>
#include <cstdint>

#include "kernel/live.h"
#include "kernel/schedule.h"
#include "kernel/topk_layout.h"
#include "ptx/elect.cuh"
#include "ptx/griddep.cuh"
#include "ptx/memory.cuh"

namespace lidx::topk {

// Programmatic dependent launch. Until whose the row is and what it sees may be read:
__device__ __forceinline__ void wait_for_rows(const TopkParams& p) {
    if (p.known_rows == 0) ptx::griddepcontrol_wait();
}
// until scores may be read and results written. What depends on this grid may start then, not before: it may rely on
// all that this grid has waited for (TopkParams::known_rows).
__device__ __forceinline__ void wait_for_scores(const TopkParams& p) {
    if (p.known_rows != 0) ptx::griddepcontrol_wait();   // who waited for rows has waited
    ptx::griddepcontrol_launch_dependents();
}

// A row whose request cu_seqlens tells. All of a warp look at a request each, from `first` on: those where the row's is
// if the ones before have max_tokens each, or all of a small batch. One answer of the memory instead of a search's
// eight. False: it is not among them.
__device__ __forceinline__ bool glance(const RowView& v, int32_t index, uint32_t lane, RowKeys& row) {
    constexpr int32_t kLanes = 32;
    int32_t first = 0;
    if (v.batch > kLanes) {
        const auto due = static_cast<int32_t>(static_cast<uint32_t>(index) / static_cast<uint32_t>(v.max_tokens));
        first = static_cast<int32_t>(clamp(due - kLanes / 2, 0, v.batch - kLanes));
    }
    const int32_t request = first + static_cast<int32_t>(lane);
    const bool exists = request < v.batch, by_request = v.visibility == Visibility::kRequestLength;
    const auto begin = static_cast<int32_t>(ptx::ld_global_u32(exists, v.row_map_data + request, INT_MAX));
    const auto end = static_cast<int32_t>(ptx::ld_global_u32(exists, v.row_map_data + request + 1, INT_MIN));
    const bool wide = v.wide != 0;
    const uint32_t narrow = ptx::ld_global_u32(exists && by_request && !wide,
                                               static_cast<const int32_t*>(v.lengths) + request, 0);
    const ptx::U32x2 both = ptx::ld_global_v2_u32(exists && by_request && wide,
                                                  static_cast<const int64_t*>(v.lengths) + request);
    const uint32_t beyond = ptx::vote_sync_ballot(end > index, ptx::kFullMask);
    const auto from_lane = [](uint32_t value, uint32_t of) { return ptx::shfl_sync_idx(value, of, ptx::kFullMask); };
    if (beyond == 0 || (first > 0 && static_cast<int32_t>(from_lane(begin, 0)) > index)) return false;
    const auto owner = static_cast<uint32_t>(__ffs(static_cast<int>(beyond)) - 1);
    const auto row_begin = static_cast<int32_t>(from_lane(begin, owner)),
               row_end = static_cast<int32_t>(from_lane(end, owner));
    const uint32_t low = from_lane(wide ? both.x : narrow, owner), high = from_lane(both.y, owner);
    if (row_begin > index) return true;
    row.request = first + static_cast<int32_t>(owner);
    const RequestRows rows = clamp_rows(v, row_begin, row_end);
    if (index >= rows.begin + rows.tokens) return true;
    if (!by_request) row.keys = live_keys(v, row.request, rows, index);
    else row.keys = keys_below_length(v, wide ? static_cast<int64_t>(uint64_t{high} << 32 | low)
                                              : static_cast<int32_t>(low), rows, index);
    return true;
}

// Whether row i is request i's and sees int32 lengths[i] keys: one branch where the questions one by one, each for an
// answer of the constant memory, take a warp 300 clocks.
__device__ __forceinline__ bool rows_are_lengths(const RowView& v) {
    const int32_t row_map = static_cast<int32_t>(v.row_map) ^ static_cast<int32_t>(RowMap::kFixed);
    const int32_t visibility = static_cast<int32_t>(v.visibility) ^ static_cast<int32_t>(Visibility::kRequestLength);
    return (row_map | (v.max_tokens ^ 1) | visibility | v.causal | v.wide | (v.compress_ratio ^ 1)) == 0;
}

// A warp finds out what the row asks for; in shared memory it costs no registers.
__device__ __forceinline__ void find_row(const TopkParams& p, int32_t index, uint32_t lane, ptx::SharedAddr to) {
    const RowView& v = p.view;
    RowKeys row{index, -1, {0, 0}};
    const bool one_each = v.row_map == RowMap::kFixed && v.max_tokens == 1;
    if (rows_are_lengths(v)) {
        const bool exists = index < v.batch;
        const auto length = static_cast<int32_t>(
            ptx::ld_global_u32(exists, static_cast<const int32_t*>(v.lengths) + index, 0));
        row = {index, exists ? index : -1, {0, max(min(length, v.window_limit), 0)}};
    } else if (one_each) {
        if (index < v.batch) row = {index, index, live_keys(v, index, {index, 1, 1}, index)};
    } else if (v.row_map != RowMap::kCuSeqlens || v.max_tokens <= 0 || !glance(v, index, lane, row)) {
        row.request = row_owner(v, index);
        if (row.request >= 0) {
            const RequestRows rows = request_rows(v, row.request);
            if (index < rows.begin + rows.tokens) row.keys = live_keys(v, row.request, rows, index);
        }
    }
    if (lane == 0)
        ptx::st_shared_v4_u32(to, {static_cast<uint32_t>(index), static_cast<uint32_t>(row.request),
                                   static_cast<uint32_t>(row.keys.begin), static_cast<uint32_t>(row.keys.end)});
}

__device__ __forceinline__ RowKeys load_row(ptx::SharedAddr from) {
    const ptx::U32x4 row = ptx::ld_shared_v4_u32(from);
    return {static_cast<int32_t>(row.x), static_cast<int32_t>(row.y),
            {static_cast<int32_t>(row.z), static_cast<int32_t>(row.w)}};
}

// Needs nothing that another lane or memory has.
template <class Score>
__device__ __forceinline__ void place_row(const TopkParams& p, int32_t row, ptx::SharedAddr to) {
    ptx::st_shared_u64(to + offsetof(RowPlaces, scores),
                       reinterpret_cast<uint64_t>(p.scores) + row * p.score_stride * Score::kBytes);
    ptx::st_shared_u64(to + offsetof(RowPlaces, indices), reinterpret_cast<uint64_t>(p.indices + row * p.index_stride));
}

// The score of the first key that a row sees.
template <class Score>
__device__ __forceinline__ const uint8_t* row_scores(const TopkParams& p, const RowKeys& row) {
    const int64_t column = p.relative != 0 ? 0 : row.keys.begin;
    return static_cast<const uint8_t*>(p.scores) + (row.row * p.score_stride + column) * Score::kBytes;
}

// What is left to choose once the forced keys are: k of the row's `keys` keys from `begin` on. k = 0: nothing.
struct Choice {
    int32_t begin, keys, k;
    int32_t forced_last;   // taken from the end of what the row sees
    __device__ __forceinline__ int32_t count() const { return begin + k + forced_last; }   // of chosen keys
};
__device__ __forceinline__ Choice choice_of(const TopkParams& p, int32_t n) {
    if (n <= p.k) return {n, 0, 0, 0};
    const int32_t first = p.forced_first < p.k ? p.forced_first : p.k;
    const int32_t last = p.forced_last < p.k - first ? p.forced_last : p.k - first;
    return {first, n - first - last, p.k - first - last, last};
}

// A key of the row's request as a slot of the pool.
__device__ __forceinline__ int32_t physical_slot(const TopkParams& p, const RowKeys& row, int32_t key) {
    const auto page = static_cast<int32_t>(static_cast<uint32_t>(key) / static_cast<uint32_t>(p.page_size));
    const int32_t id = ptx::ld_global_s32(p.block_table + row.request * p.block_table_stride + page);
    return id * p.page_size + key - page * p.page_size;
}

// What is added to a position of the row to get the consumer's index (a key of the request for kPhysical).
__device__ __forceinline__ int32_t index_offset(const TopkParams& p, const RowKeys& row) {
    if (p.index_kind == IndexKind::kRelative) return 0;
    return row.keys.begin + (p.index_kind == IndexKind::kOffset ? ptx::ld_global_s32(p.offsets + row.row) : 0);
}

}  // namespace lidx::topk
