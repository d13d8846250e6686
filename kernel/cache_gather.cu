// SPDX-License-Identifier: Apache-2.0
// Gather keys of a paged cache into contiguous buffers; sm_80 and later, depth a multiple of 16 up to 128, any page
// size.
//
//     request b, row r of [cu_seqlens[b], cu_seqlens[b + 1]):   key = key_begin[b] + r - cu_seqlens[b]
//     k_out[r] = codes of that key,  k_scale_out[r] = its scale
//
// Bytes are copied, never converted. A row stays untouched where its key does not exist (below 0, at or past the
// request's length or the table's width) or its page id is outside the pool, which also sets the check word. Whatever
// cu_seqlens holds, a row is written by at most one request, and only below max_rows.
//
// Eight lanes per key, 16 bytes each; 16 keys per CTA; each group finds its request by binary search. Budget per key of
// depth 128: 132 bytes read, 132 written, log2(batch) + 5 dependent loads that hit the L2 cache.
#include "kernel/cache_layout.h"
#include "ptx/memory.cuh"
#include "ptx/sreg.cuh"

namespace lidx::cache {
namespace {

// The last request that begins at or before the row; cu_seqlens[0] counts as 0. With decreasing entries any request may
// come out; the caller checks that the row is inside it.
__device__ __forceinline__ int32_t find_request(const GatherParams& p, int32_t row) {
    int32_t low = 0, high = p.batch;   // the answer is in [low, high)
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (ptx::ld_global_nc_s32(p.cu_seqlens + middle) <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The request's key that a row takes; negative: none.
__device__ __forceinline__ int64_t key_of(const GatherParams& p, int32_t request, int32_t row) {
    const int32_t begin = ptx::ld_global_nc_s32(p.cu_seqlens + request);
    const int32_t end = ptx::ld_global_nc_s32(p.cu_seqlens + request + 1);
    if (row < begin || row >= end) return -1;
    int64_t key = int64_t{row} - begin;
    if (p.key_begin) {
        const int32_t first = ptx::ld_global_nc_s32(p.key_begin + request);
        if (first < 0) return -1;
        key += first;
    }
    if (key > INT32_MAX) return -1;
    if (p.context_lens && key >= ptx::ld_global_nc_s32(p.context_lens + request)) return -1;
    return key;
}

}  // namespace
}  // namespace lidx::cache

extern "C" __global__ void __launch_bounds__(lidx::cache::kThreads)
cache_gather(const __grid_constant__ lidx::cache::GatherParams p) {
    using namespace lidx::cache;
    namespace ptx = lidx::ptx;
    const uint32_t group = ptx::tid_x() / kGatherLanes, lane = ptx::tid_x() % kGatherLanes;
    const int64_t wide_row = int64_t{ptx::ctaid_x()} * kGatherKeys + group;
    if (wide_row >= p.max_rows) return;
    const auto row = static_cast<int32_t>(wide_row);
    const int32_t request = find_request(p, row);
    const int64_t key = key_of(p, request, row);
    if (key < 0) return;
    const auto index = static_cast<uint32_t>(key) / static_cast<uint32_t>(p.page_size);
    if (index >= p.block_table_stride) return;
    const uint32_t slot = static_cast<uint32_t>(key) - index * static_cast<uint32_t>(p.page_size);
    const uint32_t page = ptx::ld_global_nc_u32(p.block_table + request * p.block_table_stride + index);
    if (page >= p.num_pages) {
        if (p.check_word && lane == 0) ptx::st_relaxed_gpu_global_u32(p.check_word, 1);
        return;
    }
    if (lane * 16 < p.depth)
        ptx::st_global_v4_u32(p.k_out + row * p.k_out_stride + lane * 16,
                              ptx::ld_global_nc_v4_u32(p.k + page * p.k_page_stride + int64_t{slot} * p.depth +
                                                       lane * 16));
    if (lane == 0)
        ptx::st_global_u32(p.k_scale_out + row,
                           ptx::ld_global_nc_u32(p.k_scale + page * p.k_scale_page_stride + int64_t{slot} * 4));
}
