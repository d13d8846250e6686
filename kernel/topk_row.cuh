// SPDX-License-Identifier: Apache-2.0
// What a row asks for and where its results go: the parts that the kernels of the selection share.
#pragma once
#include <cstdint>

#include "kernel/live.h"
#include "kernel/topk_layout.h"
#include "ptx/memory.cuh"

namespace lidx::topk {

// Thread 0 finds out what the row asks for; in shared memory it costs no registers.
__device__ __forceinline__ void find_row(const TopkParams& p, int32_t index, ptx::SharedAddr to) {
    KeyRange keys{0, 0};
    const bool one_each = p.view.row_map == RowMap::kFixed && p.view.max_tokens == 1;   // without the long way
    const int32_t request = !one_each ? row_owner(p.view, index) : index < p.view.batch ? index : -1;
    if (request >= 0) {
        const RequestRows rows = one_each ? RequestRows{index, 1, 1} : request_rows(p.view, request);
        if (index < rows.begin + rows.tokens) keys = live_keys(p.view, request, rows, index);
    }
    ptx::st_shared_v4_u32(to, {static_cast<uint32_t>(index), static_cast<uint32_t>(request),
                               static_cast<uint32_t>(keys.begin), static_cast<uint32_t>(keys.end)});
}

__device__ __forceinline__ RowKeys load_row(ptx::SharedAddr from) {
    const ptx::U32x4 row = ptx::ld_shared_v4_u32(from);
    return {static_cast<int32_t>(row.x), static_cast<int32_t>(row.y),
            {static_cast<int32_t>(row.z), static_cast<int32_t>(row.w)}};
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
